//! The same list on anything that keeps rows: one thread a partition, each transaction clocked to
//! its return, which acknowledges it as durable.
//!
//! The clock, the burst between two looks at the stop signal and the histogram are those of `run`,
//! so that rows of a rival or of the standard library's map are comparable with ours. The workspace
//! `rivals` measures its databases here, too.

use crate::run::{BURST, Clockwork, Done, Limit, Measured, Tally, run_threads};
use anyhow::Result;
use pmem::device::emulated::Clock;
use workload::ycsb::{Store, Ycsb};

/// Treatment of the content after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Every row is compared with the result of the list. It takes about as long as loading.
    Checked,
    /// None; the run's result is trusted.
    Trusted,
}

/// Runs the list of each partition from its start. `open` makes the view that the thread of a
/// partition has.
pub fn measure_stores<S: Store>(
    workload: &Ycsb,
    limit: Limit,
    open: impl Fn(u32) -> Result<S> + Sync,
) -> Result<Measured>
where
    S::Error: Into<anyhow::Error>,
{
    let positions = vec![0; workload.options().partitions as usize];
    run_threads(1, &positions, limit, &|partition, _, clockwork| {
        let store = open(partition);
        // The others wait for this thread, whether it has a store or not.
        clockwork.wait_for_start();
        run(workload, partition, store?, limit, clockwork)
    })
}

fn run<S: Store>(
    workload: &Ycsb,
    partition: u32,
    store: S,
    limit: Limit,
    clockwork: &Clockwork,
) -> Result<Done>
where
    S::Error: Into<anyhow::Error>,
{
    let end = match limit {
        Limit::Time(_) => u64::MAX,
        Limit::Transactions(count) => count,
    };
    let mut tally = Tally::new(1);
    let mut runner = workload.store_runner(store, partition);
    let clock = Clock::real();
    let mut start_ns = clock.now_ns_unordered();
    while runner.position() < end && !clockwork.is_over() {
        for _ in 0..BURST.min(end - runner.position()) {
            runner.step().map_err(Into::into)?;
            let now_ns = clock.now_ns_unordered();
            tally.record(0, now_ns - start_ns);
            start_ns = now_ns;
        }
    }
    Ok(Done {
        position: runner.position(),
        tally,
    })
}
