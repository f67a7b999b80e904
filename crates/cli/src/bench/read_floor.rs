//! What the reads of a run allow: pages read at random from the same file, by as many threads, with nothing else to do.
//!
//! The throughput that the reads allow is these pages a second, divided by the reads that a transaction of the run made. Writes, syncs and the
//! processor's work are not in it; the share of it that is reached says what they cost.

use crate::args::RunArgs;
use crate::report::{ReadFloor, RunRow};
use anyhow::{Result, bail};
use disk::{Directory as _, File as _, IoMode, NativeDirectory};
use indelible::is_page_file;
use pmem::Access;
use std::path::Path;
use std::time::{Duration, Instant};
use workload::random::Random;

/// Where a page lies in memory so that it needs no copy on its way from the device, as those of a buffer pool.
const ALIGNMENT: usize = 4096;
/// How long pages are read.
const TIME: Duration = Duration::from_secs(2);

/// Pages a second.
pub(super) fn measure(path: &Path, page_bytes: u32, args: &RunArgs) -> Result<f64> {
    let page_bytes = u64::from(page_bytes);
    let directory = NativeDirectory::open_for(Access::Read, path, IoMode::Buffered)?;
    let directory = directory.with_direct(is_page_file);
    let names = directory.list()?.into_iter();
    let names: Vec<_> = names.filter(|name| is_page_file(name)).collect();
    if names.is_empty() {
        bail!("there is no file of pages in {}", path.display());
    }
    let start = Instant::now();
    let readers = (0..args.threads())
        .zip(names.iter().cycle())
        .map(|(thread, name)| {
            let mut file = directory.open(name)?;
            let pages = file.bytes()? / page_bytes;
            let mut random = Random::new(args.seed ^ u64::from(thread) << 32);
            Ok(move || {
                let mut buffer = vec![0; page_bytes as usize + ALIGNMENT];
                let skip = buffer.as_ptr().align_offset(ALIGNMENT);
                let page = &mut buffer[skip..skip + page_bytes as usize];
                let mut read = 0_u64;
                while start.elapsed() < TIME {
                    file.read_at(random.below(pages) * page_bytes, page)?;
                    read += 1;
                }
                Ok::<_, disk::DiskError>(read)
            })
        });
    let readers = readers.collect::<Result<Vec<_>, disk::DiskError>>()?;
    let mut read = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = readers
            .into_iter()
            .map(|reader| scope.spawn(reader))
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(pages) => read += pages?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, disk::DiskError>(())
    })?;
    Ok(read as f64 / start.elapsed().as_secs_f64())
}

/// Puts it into the row of a run.
pub(super) fn note(row: &mut RunRow, pages_per_s: f64) {
    let throughput = row.txn_per_s;
    if let Some(pages) = &mut row.pages {
        // A run that read nothing is not bounded by reads.
        let txn_per_s = pages_per_s / pages.file_reads_per_txn.max(1e-9);
        pages.read_floor = Some(ReadFloor {
            pages_per_s,
            txn_per_s,
            share: throughput / txn_per_s,
        });
    }
}
