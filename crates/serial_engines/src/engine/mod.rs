//! Serial engines: how each is created and opened.
//!
//! An engine file is policy: what it writes before a commit, at it, and at recovery. The driver and
//! the parts that several of them share are in `serial`; no engine uses another.

mod cow;
mod in_place;
mod log_structured;
pub(crate) mod nv_pool;
mod serial;
mod volatile;

pub use serial::driver::{Fault, Policy, Serial};

use pmem::Access;
use storage::engine::{Decide, Engine, EngineOptions, Method, ReadOnly};
use storage::{Platform, Result, StorageError};

/// Creates a partition's storage.
pub fn create<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    Ok(match method {
        Method::Volatile => Box::new(volatile::create(platform, options)?),
        Method::Inp => Box::new(in_place::create(platform, options)?),
        Method::NvmInp => Box::new(nv_pool::NvInPlace::<P>::create(platform, options)?),
        Method::Cow => Box::new(cow::create_in_file(platform, options)?),
        Method::NvmCow => Box::new(cow::create_in_pool(platform, options)?),
        Method::Fash | Method::Fast => Box::new(cow::create_slotted(platform, method, options)?),
        Method::Nvwal | Method::SlotHeaderJournal => {
            Box::new(cow::create_behind_cache(platform, method, options)?)
        }
        Method::Log => Box::new(log_structured::create(platform, options)?),
        Method::NvmLog => Box::new(nv_pool::NvLogStructured::<P>::create(platform, options)?),
        _ => {
            let text = format!("method `{method}` has no serial engine");
            return Err(StorageError::Unsupported(text));
        }
    })
}

/// Opens a partition's storage and recovers it: as
/// [`EngineSource::open_engine`](storage::EngineSource::open_engine).
pub fn open<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    if options.access == Access::Read && !method.opens_for_reading() {
        return Err(StorageError::Unsupported(format!(
            "a database of method `{method}` cannot be opened for reading only; open it for writing"
        )));
    }
    let engine = open_engine(platform, method, options, decide)?;
    Ok(ReadOnly::unless_writing(options.access, engine))
}

fn open_engine<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    Ok(match method {
        Method::Volatile => Box::new(volatile::create(platform, options)?),
        Method::Inp => Box::new(in_place::open(platform, options, decide)?),
        Method::NvmInp => Box::new(nv_pool::NvInPlace::<P>::open(platform, options, decide)?),
        Method::Cow => Box::new(cow::open_in_file(platform, options, decide)?),
        Method::NvmCow => Box::new(cow::open_in_pool(platform, options, decide)?),
        Method::Fash | Method::Fast => {
            Box::new(cow::open_slotted(platform, method, options, decide)?)
        }
        Method::Nvwal | Method::SlotHeaderJournal => {
            Box::new(cow::open_behind_cache(platform, method, options, decide)?)
        }
        Method::Log => Box::new(log_structured::open(platform, options, decide)?),
        Method::NvmLog => Box::new(nv_pool::NvLogStructured::<P>::open(
            platform, options, decide,
        )?),
        _ => {
            let text = format!("method `{method}` has no serial engine");
            return Err(StorageError::Unsupported(text));
        }
    })
}
