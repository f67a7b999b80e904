//! All images of one moment that recovery can tell apart.
//!
//! The product of all undecided lines grows beyond every bound, but a recovery reads few of them.
//! [`Branches`] begins with an image in which nothing undecided survives. The caller recovers and
//! checks each image, and reports which undecided units were read. Each of these, in the order of
//! the reads, becomes a branch for each other state that may be left of it. A unit that nobody read
//! cannot have changed the outcome, so nothing is lost. Units of an attached device count as read
//! if it cannot tell.
//!
//! Lines that one load takes together and that bulk or streaming stores wrote are valid only
//! together, by a checksum. They are one choice: complete or broken. The broken forms are each line
//! missing or torn, up to a bound, and a few random ones.

use super::choice::{
    ImageChoice, Random, TooMany, everything, nothing, pick, tears, whole_choices,
};
use super::unit::{Unit, UnitChoice};
use super::watch::{Read, ReadLog};
use super::world::SimulatedWorld;
use crate::error::Result;
use std::collections::{HashMap, HashSet};

/// Lines of one load from which on they are one choice.
const BULK_LINES: usize = 3;
/// Lines of a bulk of which the loss and the tear of each are tried.
const BULK_BROKEN_LINES: usize = 8;
/// Random broken forms of a bulk.
const BULK_RANDOM_FORMS: usize = 6;

/// The images of one moment, found while they are checked.
pub struct Branches {
    units: HashMap<(u32, u64), Unit>,
    /// Units of attached devices that cannot tell whether they were read.
    attached: Vec<(u32, u64)>,
    log: ReadLog,
    random: Random,
    open: Vec<Vec<UnitChoice>>,
    current: Vec<UnitChoice>,
    taken: u64,
    cap: u64,
}

impl Branches {
    /// The images of `world`, of which at most `cap` may be taken. `seed` chooses among torn forms.
    pub fn new(world: &SimulatedWorld, seed: u64, cap: u64) -> Self {
        let units = world.units();
        let watchable = world.watchable_numbers();
        let attached = units
            .iter()
            .filter(|unit| !watchable.contains(&unit.device))
            .map(|unit| (unit.device, unit.index))
            .collect();
        Self {
            units: units
                .into_iter()
                .map(|unit| ((unit.device, unit.index), unit))
                .collect(),
            attached,
            log: ReadLog::default(),
            random: Random::new(seed),
            open: vec![Vec::new()],
            current: Vec::new(),
            taken: 0,
            cap,
        }
    }

    /// The next image to check; none if all were. Fails after more than the cap.
    pub fn take(&mut self) -> std::result::Result<Option<ImageChoice>, TooMany> {
        let Some(next) = self.open.pop() else {
            return Ok(None);
        };
        self.taken += 1;
        if self.taken > self.cap {
            return Err(TooMany {
                count: self.taken + self.open.len() as u64,
                units: self.units.len(),
            });
        }
        self.current = next;
        Ok(Some(self.choice()))
    }

    /// Makes the image that was taken last, watched. Call it again for a fresh copy.
    pub fn image(&self, world: &SimulatedWorld, target: &mut SimulatedWorld) -> Result<()> {
        world.image_into(&self.choice(), target)?;
        world.watch_image(target, &self.log);
        Ok(())
    }

    /// The image that was taken last has been checked: branches on the units that were read of it.
    pub fn checked(&mut self, world: &SimulatedWorld) {
        let groups = self.read_units();
        let mut decided = self.current.clone();
        for group in groups {
            for form in self.forms(world, &group) {
                let mut branch = decided.clone();
                branch.extend(form);
                self.open.push(branch);
            }
            decided.extend(group.iter().map(nothing));
        }
    }

    fn choice(&self) -> ImageChoice {
        let survives = |unit: &&UnitChoice| unit.kept != 0 || unit.torn != 0 || unit.streams != 0;
        ImageChoice {
            units: self.current.iter().filter(survives).copied().collect(),
        }
    }

    /// The undecided units that were read, those that are one choice together.
    fn read_units(&mut self) -> Vec<Vec<Unit>> {
        let mut known: HashSet<_> = self
            .current
            .iter()
            .map(|unit| (unit.device, unit.index))
            .collect();
        let attached = self.attached.iter().map(|&(device, index)| Read {
            device,
            index,
            load: 0,
        });
        let reads: Vec<_> = attached.chain(self.log.take()).collect();
        let mut groups: Vec<(u64, Vec<Unit>)> = Vec::new();
        for read in reads {
            let key = (read.device, read.index);
            let Some(unit) = self.units.get(&key).filter(|_| known.insert(key)) else {
                continue;
            };
            match groups.last_mut() {
                Some((load, group)) if *load == read.load && read.load != 0 => {
                    group.push(unit.clone());
                }
                _ => groups.push((read.load, vec![unit.clone()])),
            }
        }
        let mut choices = Vec::new();
        for (_, group) in groups {
            let (bulk, others): (Vec<_>, Vec<_>) = group.into_iter().partition(Unit::is_bulk);
            if bulk.len() >= BULK_LINES {
                choices.push(bulk);
            } else {
                choices.extend(bulk.into_iter().map(|unit| vec![unit]));
            }
            choices.extend(others.into_iter().map(|unit| vec![unit]));
        }
        choices
    }

    /// The states, other than nothing, that may be left of units that are one choice.
    fn forms(&mut self, world: &SimulatedWorld, group: &[Unit]) -> Vec<Vec<UnitChoice>> {
        match group {
            [unit] => self.unit_forms(world, unit),
            _ => self.bulk_forms(group),
        }
    }

    fn unit_forms(&mut self, world: &SimulatedWorld, unit: &Unit) -> Vec<Vec<UnitChoice>> {
        let hash = |choice: UnitChoice| {
            world.image_hash(&ImageChoice {
                units: vec![choice],
            })
        };
        let mut seen = HashSet::from([hash(nothing(unit))]);
        let mut forms = whole_choices(unit);
        forms.extend(tears(unit, &mut self.random));
        forms.retain(|form| seen.insert(hash(*form)));
        forms.into_iter().map(|form| vec![form]).collect()
    }

    fn bulk_forms(&mut self, group: &[Unit]) -> Vec<Vec<UnitChoice>> {
        let complete: Vec<_> = group.iter().map(everything).collect();
        let mut forms = vec![complete.clone()];
        let stride = group.len().div_ceil(BULK_BROKEN_LINES);
        for (line, unit) in group.iter().enumerate().step_by(stride) {
            let torn = tears(unit, &mut self.random);
            for broken in std::iter::once(nothing(unit)).chain(torn.into_iter().take(1)) {
                let mut form = complete.clone();
                form[line] = broken;
                forms.push(form);
            }
        }
        for _ in 0..BULK_RANDOM_FORMS {
            forms.push(
                group
                    .iter()
                    .map(|unit| pick(unit, &mut self.random))
                    .collect(),
            );
        }
        forms
    }
}
