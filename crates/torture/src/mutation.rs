//! Mutation: each flush, fence and sync is switched off in turn, and the search must notice.
//!
//! A site whose removal no search detects is either a needless cost (it never had anything to do)
//! or a hole in the checker; the report says which. Rounds and images bound the search for a site,
//! and no time, so that a slow machine tries the same as a fast one. Sites that are not tried
//! because the time of the whole run is up are reported as such.

use crate::check::{Failure, lock};
use crate::exhaustive::{self, TOO_MANY};
use crate::faults::{FaultConfig, sweep_faults};
use crate::scenarios;
use crate::search::{Config, Plan, Searcher, Start, round, run};
use pmem::PowerFailAtomicity;
use pmem::device::simulated::{SiteKind, SiteReport};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use storage::engine::{FenceOrder, Method};

/// Rounds that are run without images to see which sites they use.
const LIVE_ROUNDS: u64 = 24;
/// Rounds that are run with a few images, for the sites of recoveries.
const RECOVERY_ROUNDS: u64 = 3;

/// Images of such a round.
const RECOVERY_IMAGES_MAX: u64 = 10_000;

/// A site's first rounds have one part in this many of its images. They come before the scenarios,
/// which find failures that need a rare order of events.
const FIRST_SHARE: u64 = 4;
/// Images of all scenarios for one site: those of the page methods have minutes' worth of them.
const SCENARIO_IMAGES_MAX: u64 = 200_000;
/// Longer than any search that images bound.
const NO_END: Duration = Duration::from_hours(24);

/// The reason why nobody misses the tails of a log until a file is removed.
const TAILS: &str = "a power cut takes no file away, and without the newest note the tails say less than the log has; \
     what they are for is shown by indelible's test lost_files, which removes and replaces files";

/// Sites whose removal may go unnoticed by a search: the site, the methods for which that is
/// allowed (all if none is named), and the reason.
const EXPLAINED_IF_UNNOTICED: &[(&str, &[Method], &str)] = &[
    (
        "heap.extent-word",
        &[],
        "needed by what later takes the rest of the chunks; pmem's own crash tests notice its removal \
         (every_durable_step_is_needed)",
    ),
    ("tails.create", &[], TAILS),
    ("tails.name", &[], TAILS),
    ("tails.note", &[], TAILS),
    (
        "pool.owner-word",
        &[],
        "the stamp of a database, which its list of files needs; indelible's test lost_files comes there",
    ),
    (
        "pool.repair",
        &[Method::NvmCow, Method::Nvwal, Method::SlotHeaderJournal],
        "needed by a second cut in the writing of a header; the searches of nvm-inp and nvm-log come there, and pmem's own crash \
         tests (a_root_never_goes_back)",
    ),
    (
        "pool.found",
        BEHIND_FRAMES,
        "the log's pool gets its root once, when it is made; pmem's own crash tests come there \
         (a_root_that_the_next_process_shows_never_goes_back)",
    ),
    (
        "pool.found-fence",
        &[Method::NvmCow, Method::Nvwal, Method::SlotHeaderJournal],
        "needed where a process dies between the store of a root and its fence; pmem's own crash tests come there \
         (a_root_that_the_next_process_shows_never_goes_back)",
    ),
    (
        "nvm-cow.decided-fence",
        &[Method::NvmCow],
        "needed by a second cut while a prepared transaction is decided; the engine's own tests come there \
         (a_prepared_transaction_is_decided_at_once)",
    ),
    ("fash.found-record", SLOTTED, DIED_WITH_A_RECORD),
    ("fash.found-record-fence", SLOTTED, DIED_WITH_A_RECORD),
    ("fash.decided", SLOTTED, ASKED_AFTERWARDS),
    ("fash.decided-fence", SLOTTED, ASKED_AFTERWARDS),
    (
        "fash.redo-header",
        SLOTTED,
        "needed where a cut loses a header, and another one comes before anybody reads its page; the engine's own tests come there \
         (what_recovery_stores_is_durable_before_the_next_record)",
    ),
    ("fash.torn-record", SLOTTED, TORN_TWICE),
    (
        "slotted.found-fence",
        &[Method::Fast],
        "needed where a process dies between the store of a line and its fence, and the next one reads it and writes nothing; the engine's own \
         tests come there (what_a_reader_has_seen_is_durable)",
    ),
    (
        "slotted.found-fence",
        &[Method::Fash],
        "the record with a header is durable before the header is stored in its place, and counts until that is; fast needs the fence for those that are in \
         no record",
    ),
    (
        "heap.run-release",
        SLOTTED,
        "needed by what later takes the chunk, which is seldom given up here; pmem's own crash tests notice its removal \
         (every_durable_step_is_needed)",
    ),
    (
        "fash.settle-fence",
        SLOTTED,
        "needed where a bit flips in the record of a partition at rest; the engine's own tests come there \
         (a_partition_that_is_closed_does_not_need_its_record)",
    ),
    ("nvwal.decided", &[], ASKED_AFTERWARDS),
    ("nvwal.decided-fence", &[], ASKED_AFTERWARDS),
    ("heap.extent-rest-fence", RINGS, ASKED_ONCE),
    ("heap.grow-table", RINGS, ASKED_ONCE),
    ("heap.grow-table-fence", RINGS, ASKED_ONCE),
    ("heap.rest-word", RINGS, ASKED_ONCE),
    ("nv-ring.activate", &[], UNFINISHED),
    ("nv-ring.create", &[], UNFINISHED),
    ("nv-ring.unset", &[], BESIDE_OTHERS),
    ("nv-ring.count", &[], BESIDE_OTHERS),
    ("nv-ring.counted", &[], BETWEEN_THREADS),
    ("nv-ring.alive", &[], BETWEEN_THREADS),
    ("wal.spares-gone", &[], ON_FULL_DISK),
    ("nv-ring.start", &[], SPARES_A_MASTER),
    ("nv-ring.started", &[], SPARES_A_MASTER),
    ("nv-ring.archived", &[], LOST_FILES),
    ("nv-ring.archived-fence", &[], LOST_FILES),
    ("nv-slots.clear", IN_SLOTS, HOME_ALREADY),
    ("nv-slots.cleared", IN_SLOTS, HOME_ALREADY),
    ("nv-slots.copy-again", IN_SLOTS, TORN_LATER),
    ("nv-slots.header-again", IN_SLOTS, TORN_LATER),
    ("nv-slots.renewed", IN_SLOTS, TORN_LATER),
    ("page-guard.home", IN_SLOTS, SLOT_TAKEN),
    ("single-page.home", &[Method::DwbOff], WITH_THE_MASTER),
    ("undo.torn", &[], TORN_TWICE),
    ("undo.torn-fence", &[], TORN_TWICE),
    ("undo.in-place-word", &[Method::NvmLog], HEAP_CHANGED),
    ("undo.in-place-word-fence", &[Method::NvmLog], HEAP_CHANGED),
];

const TORN_TWICE: &str = "needed where two cuts tear records that have lines in common; the engine's own tests come there \
     (a_torn_record_is_not_made_whole_by_the_next_one)";
const IN_SLOTS: &[Method] = &[Method::NvmDwb, Method::NvmDwbLog];
const HOME_ALREADY: &str = "without it the next opening brings the same copies home once more; where they are the pages the searches of nvm-dwb-log-opt notice";
const TORN_LATER: &str = "needed where a process dies before a batch is durable in the area, and the power fails while the next one brings it home; the guards' own tests come \
     there (guard/guard_tests.rs, every_durable_step_is_needed)";
const SLOT_TAKEN: &str = "needed where a slot is taken for another page before the one that it had is durable at home, and not repeated by the log; the guards' own tests come there \
     (guard/guard_tests.rs, every_durable_step_is_needed)";
const DIED_WITH_A_RECORD: &str = "needed where a process dies between its record and the fence, and the power fails in the next one; a search seldom comes there, the engine's own \
     tests do (a_record_that_is_found_is_durable_before_it_is_done)";
const WITH_THE_MASTER: &str = "needed where a checkpoint finds nothing else to sync, and its master record becomes durable before the page does; the guards' own tests come there \
     (guard/guard_tests.rs, a_page_that_goes_home_by_itself_without_an_area_is_durable_there)";
const BEHIND_FRAMES: &[Method] = &[Method::Nvwal, Method::SlotHeaderJournal];
const SLOTTED: &[Method] = &[Method::Fash, Method::Fast];
const ASKED_AFTERWARDS: &str = "needed where the database forgets a transaction that has committed, and the power fails before the next one; the engine's own tests come there \
     (a_committed_transaction_needs_its_number_no_more)";
const RINGS: &[Method] = &[
    Method::NvLogging,
    Method::DistributedLog,
    Method::InPlace,
    Method::NvmDwbLog,
    Method::NvmDwbLogOpt,
];
const ASKED_ONCE: &str = "the heap of a ring's pool is asked for space once, when the ring is made; pmem's own crash tests notice its removal \
     (every_durable_step_is_needed)";
const UNFINISHED: &str = "needed by a ring that outlives a cut in its creation, which an unfinished database does not ask for; the ring's own tests come there \
     (log/nv_ring_tests.rs, a_ring_whose_block_is_set_is_whole)";
const BESIDE_OTHERS: &str =
    "needed where several sessions write beside each other, and the search has one";
const BETWEEN_THREADS: &str = "needed where another thread goes on with the log; a later fence of the same thread does its work";
const ON_FULL_DISK: &str = "needed where the disk has no room for anything else, which the search has; the page engine's own tests come there \
    (the_place_of_removed_files_is_free_when_it_is_durable_that_they_are_gone)";
const SPARES_A_MASTER: &str = "without it the next opening takes the checkpoint for one that may not be durable, and writes its master once more";
const LOST_FILES: &str = "the archive itself says how far it goes; needed where files of it are lost, which verify tells by this word";
const HEAP_CHANGED: &str = "needed where the heap itself has changed a word that the newest record has; the search of nvm-inp comes there";

/// Outcome of switching off one site.
#[derive(Clone, Debug)]
pub struct SiteVerdict {
    /// The site, as it ran when nothing was switched off.
    pub site: SiteReport,
    /// Whether its removal was noticed.
    pub verdict: Verdict,
    /// Time until it was, or that was spent, seconds.
    pub seconds: f64,
    /// The failure that was noticed.
    pub what: String,
}

/// Whether the removal of a site was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A wrong image was found.
    Caught,
    /// It never had anything to do, or is known to be needed for measurements only.
    Needless,
    /// It had something to do, and no wrong image was found.
    Unexplained,
    /// The time was up before its turn.
    Untried,
}

impl Verdict {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Needless => "needless",
            Self::Unexplained => "unexplained",
            Self::Untried => "untried",
        }
    }
}

/// Which sites to try, and for how long.
#[derive(Clone, Debug)]
pub struct MutationConfig {
    /// The method under test.
    pub method: Method,
    /// The unit that a power cut leaves whole, on which the method relies.
    pub atomicity: PowerFailAtomicity,
    /// Order of durable steps in the NVM-aware methods; without one, that of each round's seed.
    pub fences: Option<FenceOrder>,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Most images of random rounds for one site.
    pub site_images_max: u64,
    /// Time after which no further site is tried.
    pub duration_max: Duration,
}

/// Tries every site. `progress` is called with each verdict. Fails if something is wrong while
/// nothing is switched off.
pub fn mutate(
    config: &MutationConfig,
    progress: &mut dyn FnMut(&SiteVerdict),
) -> Result<Vec<SiteVerdict>, Failure> {
    let start = Instant::now();
    let mut verdicts = Vec::new();
    for found in sites(config, &[])? {
        let verdict = if start.elapsed() < config.duration_max {
            try_site(config, &found)
        } else {
            SiteVerdict {
                site: found.site,
                verdict: Verdict::Untried,
                seconds: 0.0,
                what: "the time was up".to_owned(),
            }
        };
        progress(&verdict);
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

/// A site, and where it does something.
struct Found {
    site: SiteReport,
    /// Rounds in which it had something to do without any recovery.
    seeds: Vec<u64>,
}

/// All sites that a few rounds run through, and their recoveries. Fails if a round or an image of
/// it is wrong: then every search would be, whichever site it is about.
fn sites(config: &MutationConfig, disabled: &[String]) -> Result<Vec<Found>, Failure> {
    let mut sites: BTreeMap<(&'static str, SiteKind), Found> = BTreeMap::new();
    for number in 0..LIVE_ROUNDS + RECOVERY_ROUNDS {
        let seed = config.seed.wrapping_add(number);
        let is_live = number < LIVE_ROUNDS;
        let mut plan = Plan {
            point_images: if is_live { 0 } else { 2 },
            deep_one_in: 2,
            death_one_in: 4,
            ..plan(config, disabled)
        };
        plan.config.images_max = RECOVERY_IMAGES_MAX;
        let searcher = Arc::new(Mutex::new(Searcher::new(plan)));
        let world = round(&Start::whole(seed), &searcher)?;
        if let Some(failure) = lock(&searcher).report.failure.take() {
            return Err(Failure(failure.what));
        }
        for site in world.sites() {
            let useful = site.useful;
            let key = (site.name, site.kind);
            let fresh = Found {
                site: SiteReport { useful: 0, ..site },
                seeds: Vec::new(),
            };
            let found = sites.entry(key).or_insert(fresh);
            found.site.useful += useful;
            if is_live && useful > 0 {
                found.seeds.push(seed);
            }
        }
    }
    Ok(sites.into_values().collect())
}

fn plan(config: &MutationConfig, disabled: &[String]) -> Plan {
    Plan::new(&Config {
        disabled: disabled.to_vec(),
        atomicity: config.atomicity,
        fences: config.fences,
        minimise_max: Duration::ZERO,
        ..Config::new(config.method, config.seed, config.site_images_max, NO_END)
    })
}

fn try_site(config: &MutationConfig, found: &Found) -> SiteVerdict {
    let start = Instant::now();
    let site = found.site.clone();
    let mut plan = plan(config, &[site.name.to_owned()]);
    plan.config.images_max = config.site_images_max / FIRST_SHARE;
    plan.death_one_in = 32;
    if found.seeds.is_empty() {
        // It runs in recoveries only, so those have to be cut off.
        plan.deep_one_in = 1;
        plan.death_one_in = 1;
    } else {
        plan.starts = found.seeds.iter().copied().map(Start::whole).collect();
        plan.wait_for = Some(site.name);
    }
    let reason = reason_if_unnoticed(site.name, config.method);
    // Sites whose removal is known to go unnoticed, or that do nothing, are not searched by all
    // means.
    let is_wanted = reason.is_none() && site.useful > 0;
    let scenarios = |size: Size| {
        is_wanted
            .then(|| try_scenarios(config, site.name, size))
            .flatten()
    };
    let rounds = |plan: Plan| run(plan, &mut |_| {}).failure.map(|failure| failure.what);
    let long = || {
        if !is_wanted {
            return None;
        }
        let mut plan = plan.clone();
        plan.config.images_max = config.site_images_max - plan.config.images_max;
        rounds(plan)
    };
    let (verdict, what) = if let Some(what) = if found.seeds.is_empty() {
        // Sites of recoveries only: the scenarios reach all of them sooner.
        let first = scenarios(Size::Small).or_else(|| rounds(plan.clone()));
        first.or_else(long).or_else(|| scenarios(Size::Large))
    } else {
        let faults = || try_faults(config, &site);
        let first = rounds(plan.clone()).or_else(faults);
        let first = first.or_else(|| scenarios(Size::Small));
        first.or_else(long).or_else(|| scenarios(Size::Large))
    } {
        (Verdict::Caught, what)
    } else if site.useful == 0 {
        (Verdict::Needless, "it never had anything to do".to_owned())
    } else if let Some(reason) = reason {
        (Verdict::Needless, reason.to_owned())
    } else {
        (Verdict::Unexplained, String::new())
    };
    SiteVerdict {
        site,
        verdict,
        seconds: start.elapsed().as_secs_f64(),
        what,
    }
}

fn reason_if_unnoticed(site: &str, method: Method) -> Option<&'static str> {
    let mut known = EXPLAINED_IF_UNNOTICED.iter();
    // A site may have a reason for each of several methods.
    let found = known.find(|(name, methods, _)| {
        *name == site && (methods.is_empty() || methods.contains(&method))
    });
    found.map(|(.., reason)| *reason)
}

/// How many images scenarios have.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    /// Few: their tables have no indexes.
    Small,
    Large,
}

/// The failure of the first scenario that notices the removal of a site.
fn try_scenarios(config: &MutationConfig, site: &str, wanted: Size) -> Option<String> {
    let disabled = [site.to_owned()];
    let mut left = SCENARIO_IMAGES_MAX;
    let mut meant = scenarios::ALL
        .iter()
        .filter(|it| it.is_bare() == (wanted == Size::Small));
    meant.find_map(|scenario| {
        let subject = plan(config, &[]).config.subject();
        let report = exhaustive::run(scenario, subject, config.seed, &disabled, left);
        left = left.saturating_sub(report.images);
        let failure = report.failure?;
        let is_wrong = !failure.what.starts_with(TOO_MANY);
        is_wrong.then(|| format!("scenario {}: {}", scenario.name, failure.what))
    })
}

/// The first wrong answer of a sweep of failing calls without a sync: some are needed only where a
/// later one fails.
fn try_faults(config: &MutationConfig, site: &SiteReport) -> Option<String> {
    if site.kind != SiteKind::Sync {
        return None;
    }
    let config = FaultConfig {
        method: config.method,
        seed: config.seed,
        full: false,
        only: String::new(),
        runs_max: usize::MAX,
        threads: 1,
        disabled: vec![site.name.to_owned()],
    };
    let report = sweep_faults(&config, &mut |_, _| {}).ok()?;
    let wrong = report.wrong.into_iter().next()?;
    Some(format!("failing calls: {wrong}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_reasons_of_a_site_is_found() {
        for (name, methods, reason) in EXPLAINED_IF_UNNOTICED {
            for method in *methods {
                assert_eq!(reason_if_unnoticed(name, *method), Some(*reason), "{name}");
            }
        }
        assert_eq!(reason_if_unnoticed("no.such", Method::Inp), None);
    }

    /// Wrong images of the first rounds ended them early and were not looked at, so every site of
    /// a broken engine was one whose removal was caught.
    #[test]
    fn nothing_is_tried_where_images_are_wrong_already() {
        let config = MutationConfig {
            method: Method::NvmInp,
            atomicity: PowerFailAtomicity::Word,
            fences: None,
            seed: 1,
            site_images_max: 100,
            duration_max: NO_END,
        };
        assert!(sites(&config, &[]).is_ok());
        assert!(sites(&config, &["undo.commit-record-fence".to_owned()]).is_err());
    }
}
