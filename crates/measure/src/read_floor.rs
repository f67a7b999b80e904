//! Limit that the reads set to a run: pages read at random from the same file, by as many threads,
//! with nothing else to do.
//!
//! The throughput that the reads allow is these pages a second, divided by the reads that a
//! transaction of the run made. Writes, syncs and the processor's work are not in it; the share of
//! it that a run reaches shows their cost.

use anyhow::{Result, bail};
use disk::{Directory as _, File as _, IoMode, NativeDirectory};
use indelible::is_page_file;
use pmem::Access;
use std::path::Path;
use std::time::{Duration, Instant};
use workload::random::Random;

/// Alignment of a page in memory, so that it needs no copy on its way from the device, as in a
/// buffer pool.
const ALIGNMENT: usize = 4096;
/// How long pages are read.
const TIME: Duration = Duration::from_secs(2);

/// Pages a second, read from the files of pages in a directory by `threads`.
pub fn measure(path: &Path, page_bytes: u32, threads: u32, seed: u64) -> Result<f64> {
    let page_bytes = u64::from(page_bytes);
    let directory = NativeDirectory::open_for(Access::Read, path, IoMode::Buffered)?;
    let directory = directory.with_direct(is_page_file);
    let names = directory.list()?.into_iter();
    let names: Vec<_> = names.filter(|name| is_page_file(name)).collect();
    if names.is_empty() {
        bail!("there is no file of pages in {}", path.display());
    }
    let start = Instant::now();
    let readers = (0..threads)
        .zip(names.iter().cycle())
        .map(|(thread, name)| {
            let mut file = directory.open(name)?;
            let pages = file.bytes()? / page_bytes;
            let mut random = Random::new(seed ^ u64::from(thread) << 32);
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
