//! Mutation: each flush, fence and sync is switched off in turn, and the search must notice.
//!
//! A site whose removal no search detects is either a needless cost (it never had anything to do) or a hole in the checker;
//! the report says which.

use crate::search::{Config, Searcher, round, search};
use pmem::device::simulated::{SiteKind, SiteReport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use storage::engine::Method;

/// What became of one site.
#[derive(Clone, Debug)]
pub struct SiteVerdict {
    /// The site, as it ran when nothing was switched off.
    pub site: SiteReport,
    /// Whether its removal was noticed.
    pub verdict: Verdict,
    /// Time until it was, or that was spent, seconds.
    pub seconds: f64,
    /// What was noticed.
    pub what: String,
}

/// Whether the removal of a site was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A wrong image was found.
    Caught,
    /// It never had anything to do.
    Needless,
    /// It had something to do, and no wrong image was found.
    Unexplained,
}

impl Verdict {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Needless => "needless",
            Self::Unexplained => "unexplained",
        }
    }
}

/// Which sites to try, and for how long.
#[derive(Clone, Debug)]
pub struct MutationConfig {
    /// The method under test.
    pub method: Method,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Most time spent on one site.
    pub site_duration_max: Duration,
    /// Most time in all; sites that are not reached are not in the result.
    pub duration_max: Duration,
}

/// Tries every site. `progress` is called with each verdict.
pub fn mutate(config: &MutationConfig, progress: &mut dyn FnMut(&SiteVerdict)) -> Vec<SiteVerdict> {
    let start = Instant::now();
    let mut verdicts = Vec::new();
    for site in sites(config) {
        if start.elapsed() > config.duration_max {
            break;
        }
        let verdict = try_site(config, site);
        progress(&verdict);
        verdicts.push(verdict);
    }
    verdicts
}

/// All sites that a few unwatched rounds run through, recoveries included.
fn sites(config: &MutationConfig) -> Vec<SiteReport> {
    let mut sites: BTreeMap<&'static str, SiteReport> = BTreeMap::new();
    for seed in 0..8 {
        let config = Config {
            method: config.method,
            seed: config.seed.wrapping_add(seed),
            images_max: 400,
            duration_max: config.site_duration_max,
            disabled: Vec::new(),
        };
        let deadline = Instant::now() + config.duration_max;
        let shared = Arc::new(Mutex::new(Searcher::new(&config, deadline)));
        let Ok(world) = round(&config, config.seed, &shared) else {
            continue;
        };
        for site in world.sites() {
            sites
                .entry(site.name)
                .and_modify(|known| known.useful += site.useful)
                .or_insert(site);
        }
    }
    sites.into_values().collect()
}

fn try_site(config: &MutationConfig, site: SiteReport) -> SiteVerdict {
    let start = Instant::now();
    let report = search(
        &Config {
            method: config.method,
            seed: config.seed,
            images_max: u64::MAX,
            duration_max: config.site_duration_max,
            disabled: vec![site.name.to_owned()],
        },
        &mut |_| {},
    );
    let (verdict, what) = match report.failure {
        Some(failure) => (Verdict::Caught, failure.what),
        None if site.useful == 0 => (Verdict::Needless, String::new()),
        None => (Verdict::Unexplained, String::new()),
    };
    SiteVerdict {
        site,
        verdict,
        seconds: start.elapsed().as_secs_f64(),
        what,
    }
}

/// The name of a kind in reports.
pub fn kind_name(kind: SiteKind) -> &'static str {
    match kind {
        SiteKind::Flush => "flush",
        SiteKind::Fence => "fence",
        SiteKind::Stream => "stream",
        SiteKind::Sync => "sync",
    }
}
