//! Which states a power cut may leave, and in which order tests try them.
//!
//! The undecided state at a moment is a list of [`Unit`]s: dirty lines and unsynced disk
//! operations. A [`UnitChoice`] says what survives of one, an [`ImageChoice`] of all. Every
//! combination of unit choices is legal, because units are independent of each other. A bulk or
//! streaming event counts as one choice, whole or absent, except where the caller asks for every
//! torn form; otherwise torn forms are sampled.

use super::medium::mix;
use super::unit::{Unit, UnitChoice};
use super::world::SimulatedWorld;
use std::fmt;

/// Torn forms that an exhaustive enumeration adds for each event that can tear.
const TORN_FORMS: usize = 2;
/// Upper bound of the torn forms that one exhaustive enumeration adds.
const TORN_FORMS_MAX: usize = 64;
/// Units of which all pairs are tried.
const PAIRED_UNITS_MAX: usize = 64;

/// The surviving part of everything undecided. Units that are not named lose all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageChoice {
    /// One entry for each unit of which anything survives.
    pub units: Vec<UnitChoice>,
}

impl fmt::Display for ImageChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.units.is_empty() {
            return f.write_str("nothing undecided survives");
        }
        for (number, unit) in self.units.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(
                f,
                "{separator}{}/{:#x}: {} events",
                unit.device, unit.index, unit.kept
            )?;
            if unit.torn != 0 {
                write!(f, " + pieces {:#b}", unit.torn)?;
            }
            if unit.streams != 0 {
                write!(f, " + streamed {:#b}", unit.streams)?;
            }
        }
        Ok(())
    }
}

/// More combinations than the caller allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} images of {units} units are more than the limit")]
pub struct TooMany {
    /// The number of combinations; `u64::MAX` means at least that many.
    pub count: u64,
    /// How many units are undecided.
    pub units: usize,
}

/// Whether torn forms are part of the product of all choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tearing {
    Whole,
    Every,
}

impl Unit {
    /// How many choices there are, saturating.
    fn choices(&self, tearing: Tearing) -> u64 {
        let stream_bits = match tearing {
            Tearing::Whole => self.streams.len(),
            Tearing::Every => self.stream_pieces().min(64) as usize,
        };
        let streams = 1_u64.checked_shl(stream_bits as u32).unwrap_or(u64::MAX);
        let mut ordered = self.ordered.len() as u64 + 1;
        if tearing == Tearing::Every {
            let torn = self.ordered.iter().map(|pieces| torn_forms(*pieces));
            ordered = torn.fold(ordered, u64::saturating_add);
        }
        ordered.saturating_mul(streams)
    }

    /// The choice with a number below [`Unit::choices`]; 0 loses all.
    fn choice(&self, mut number: u64, tearing: Tearing) -> UnitChoice {
        let mut choice = self.nothing();
        let whole = self.ordered.len() as u64 + 1;
        if tearing == Tearing::Whole {
            choice.kept = (number % whole) as u32;
            choice.streams = self.whole_streams(number / whole);
            return choice;
        }
        let torn = self.ordered.iter().map(|pieces| torn_forms(*pieces));
        let ordered = torn.fold(whole, u64::saturating_add);
        choice.streams = number / ordered;
        number %= ordered;
        if number < whole {
            choice.kept = number as u32;
            return choice;
        }
        number -= whole;
        for (event, pieces) in self.ordered.iter().enumerate() {
            let forms = torn_forms(*pieces);
            if number < forms {
                choice.kept = event as u32;
                choice.torn = number + 1;
                break;
            }
            number -= forms;
        }
        choice
    }

    fn nothing(&self) -> UnitChoice {
        UnitChoice {
            device: self.device,
            index: self.index,
            kept: 0,
            torn: 0,
            streams: 0,
        }
    }

    fn everything(&self) -> UnitChoice {
        let kept = self.ordered.len() as u32;
        UnitChoice {
            kept,
            streams: low_bits(self.stream_pieces()),
            ..self.nothing()
        }
    }

    /// A uniform pick of the cut; one cut in four through an event that can tear tears it.
    fn pick(&self, random: &mut Random) -> UnitChoice {
        let kept = random.below(self.ordered.len() as u64 + 1) as u32;
        let mut choice = UnitChoice {
            kept,
            ..self.nothing()
        };
        if let Some(pieces) = self.ordered.get(kept as usize)
            && random.below(4) == 0
        {
            choice.torn = random.torn(*pieces);
        }
        let mut from = 0;
        for pieces in &self.streams {
            let bits = match random.below(4) {
                0 => random.torn(*pieces),
                1 | 2 => low_bits(u32::from(*pieces)),
                _ => 0,
            };
            choice.streams |= place(bits, from);
            from += u32::from(*pieces);
        }
        choice
    }

    /// A choice that tears the event with this number, ordered events first, if it can tear.
    fn tear(&self, event: usize, random: &mut Random) -> Option<UnitChoice> {
        let mut choice = self.pick(random);
        if let Some(pieces) = self.ordered.get(event) {
            choice.kept = event as u32;
            choice.torn = random.torn(*pieces);
            return (*pieces > 1).then_some(choice);
        }
        let stream = event - self.ordered.len();
        let pieces = u32::from(*self.streams.get(stream)?);
        let from = self.streams[..stream]
            .iter()
            .map(|pieces| u32::from(*pieces))
            .sum();
        choice.streams &= !place(low_bits(pieces), from);
        choice.streams |= place(random.torn(pieces as u8), from);
        (pieces > 1).then_some(choice)
    }

    /// Whether every event is a bulk or streaming store.
    pub(super) fn is_bulk(&self) -> bool {
        self.ordered
            .iter()
            .chain(&self.streams)
            .all(|pieces| *pieces > 1)
    }

    fn stream_pieces(&self) -> u32 {
        self.streams.iter().map(|pieces| u32::from(*pieces)).sum()
    }

    /// Spreads one bit an event to all pieces of the event.
    fn whole_streams(&self, events: u64) -> u64 {
        let mut bits = 0;
        let mut from = 0;
        for (event, pieces) in self.streams.iter().enumerate() {
            if events.checked_shr(event as u32).unwrap_or(0) & 1 != 0 {
                bits |= place(low_bits(u32::from(*pieces)), from);
            }
            from += u32::from(*pieces);
        }
        bits
    }
}

/// Nothing of the unit survives.
pub(super) fn nothing(unit: &Unit) -> UnitChoice {
    unit.nothing()
}

/// All of the unit survives.
pub(super) fn everything(unit: &Unit) -> UnitChoice {
    unit.everything()
}

/// Anything legal survives.
pub(super) fn pick(unit: &Unit, random: &mut Random) -> UnitChoice {
    unit.pick(random)
}

/// All choices without torn events, except nothing.
pub(super) fn whole_choices(unit: &Unit) -> Vec<UnitChoice> {
    let numbers = 1..unit.choices(Tearing::Whole);
    numbers
        .map(|number| unit.choice(number, Tearing::Whole))
        .collect()
}

/// A few torn forms of each event that can tear.
pub(super) fn tears(unit: &Unit, random: &mut Random) -> Vec<UnitChoice> {
    let events = unit.ordered.len() + unit.streams.len();
    let events = (0..events).flat_map(|event| [event; TORN_FORMS]);
    events
        .filter_map(|event| unit.tear(event, random))
        .collect()
}

/// Subsets of the pieces that are neither empty nor all.
fn torn_forms(pieces: u8) -> u64 {
    if pieces < 2 {
        0
    } else {
        low_bits(u32::from(pieces)) - 1
    }
}

fn low_bits(count: u32) -> u64 {
    1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}

/// Moves piece bits to their place among the streamed pieces; bits past the end are joined in the
/// last bit.
fn place(bits: u64, from: u32) -> u64 {
    let moved = u128::from(bits) << from.min(64);
    moved as u64 | (u64::from(moved >> 64 != 0) << 63)
}

/// The images of one moment, one after the other. Deterministic in its arguments.
pub struct ImageChoices {
    units: Vec<Unit>,
    random: Random,
    /// The product of all choices, as a number with one digit a unit; `None` when it is through.
    digits: Option<Vec<u64>>,
    tearing: Tearing,
    picks: std::vec::IntoIter<Pick>,
}

/// One step of a sampled enumeration. Numbers are indexes of units.
#[derive(Clone, Copy)]
enum Pick {
    Nothing,
    Everything,
    Only(usize),
    Except(usize),
    Pair(usize, usize),
    Uniform,
    Torn { unit: usize, event: usize },
}

impl ImageChoices {
    /// All combinations of the undecided units in `world`, and after them a few torn forms of each
    /// event that can tear. Fails if there are more than `cap` combinations.
    pub fn exhaustive(world: &SimulatedWorld, cap: u64) -> Result<Self, TooMany> {
        Self::whole(world.units(), cap, 0)
    }

    /// All combinations, every torn form included. For small programs: one streamed line has 256
    /// choices.
    pub fn every(world: &SimulatedWorld, cap: u64) -> Result<Self, TooMany> {
        Self::product(world.units(), cap, Tearing::Every, 0)
    }

    /// Nothing, everything, each unit alone, all but each, each pair of up to 64 units, and `count`
    /// uniform picks between the pairs. Where all combinations are at most `count`, it is
    /// [`ImageChoices::exhaustive`] instead.
    pub fn sampled(world: &SimulatedWorld, seed: u64, count: usize) -> Self {
        let units = world.units();
        let mut random = Random::new(seed);
        if combinations(&units, Tearing::Whole) <= count as u64
            && let Ok(choices) = Self::whole(units.clone(), count as u64, seed)
        {
            return choices;
        }
        let mut picks = vec![Pick::Nothing, Pick::Everything];
        if units.len() > 1 {
            picks.extend((0..units.len()).map(Pick::Only));
        }
        if units.len() > 2 {
            picks.extend((0..units.len()).map(Pick::Except));
        }
        let mut pairs = pairs(units.len(), &mut random).into_iter();
        for _ in 0..count {
            picks.push(Pick::Uniform);
            picks.extend(pairs.next());
        }
        picks.extend(pairs);
        let picks = picks.into_iter();
        Self {
            units,
            random,
            digits: None,
            tearing: Tearing::Whole,
            picks,
        }
    }

    /// As [`ImageChoices::sampled`], cut to `count` images: nothing, everything, and a seeded
    /// mixture of the others. Its cost grows with `count` times the undecided units.
    pub fn bounded(world: &SimulatedWorld, seed: u64, count: usize) -> Self {
        let units = world.units();
        let mut random = Random::new(seed);
        if combinations(&units, Tearing::Whole) <= count as u64
            && let Ok(choices) = Self::whole(units.clone(), count as u64, seed)
        {
            return choices;
        }
        let mut picks = vec![Pick::Nothing, Pick::Everything];
        let number = units.len() as u64;
        while picks.len() < count {
            let (one, other) = (random.below(number), random.below(number));
            picks.push(match random.below(8) {
                0 | 1 => Pick::Only(one as usize),
                2 | 3 => Pick::Except(one as usize),
                4 => Pick::Pair(one as usize, other as usize),
                _ => Pick::Uniform,
            });
        }
        picks.truncate(count);
        let picks = picks.into_iter();
        Self {
            units,
            random,
            digits: None,
            tearing: Tearing::Whole,
            picks,
        }
    }

    fn whole(units: Vec<Unit>, cap: u64, seed: u64) -> Result<Self, TooMany> {
        let mut choices = Self::product(units, cap, Tearing::Whole, seed)?;
        let mut torn = Vec::new();
        for (unit, shape) in choices.units.iter().enumerate() {
            let pieces = shape.ordered.iter().chain(&shape.streams);
            for (event, _) in pieces.enumerate().filter(|(_, pieces)| **pieces > 1) {
                torn.extend([Pick::Torn { unit, event }; TORN_FORMS]);
            }
        }
        choices.random.shuffle(&mut torn);
        torn.truncate(TORN_FORMS_MAX);
        choices.picks = torn.into_iter();
        Ok(choices)
    }

    fn product(units: Vec<Unit>, cap: u64, tearing: Tearing, seed: u64) -> Result<Self, TooMany> {
        let count = combinations(&units, tearing);
        if count > cap {
            return Err(TooMany {
                count,
                units: units.len(),
            });
        }
        let digits = Some(vec![0; units.len()]);
        Ok(Self {
            units,
            random: Random::new(seed),
            digits,
            tearing,
            picks: Vec::new().into_iter(),
        })
    }

    /// The combination of the current `digits`; steps to the next one.
    fn next_combination(&mut self) -> Option<ImageChoice> {
        let digits = self.digits.as_mut()?;
        let chosen = self.units.iter().zip(digits.iter());
        let choice = collect(chosen.map(|(unit, digit)| unit.choice(*digit, self.tearing)));
        let more = self
            .units
            .iter()
            .zip(digits.iter_mut())
            .any(|(unit, digit)| {
                *digit += 1;
                let carry = *digit == unit.choices(self.tearing);
                if carry {
                    *digit = 0;
                }
                !carry
            });
        if !more {
            self.digits = None;
        }
        Some(choice)
    }

    fn build(&mut self, pick: Pick) -> ImageChoice {
        let (units, random) = (&self.units, &mut self.random);
        let all = units.iter().enumerate();
        match pick {
            Pick::Nothing => ImageChoice::default(),
            Pick::Everything => collect(units.iter().map(Unit::everything)),
            Pick::Only(one) => collect([units[one].everything()].into_iter()),
            Pick::Except(one) => collect(
                all.filter(|(unit, _)| *unit != one)
                    .map(|(_, unit)| unit.everything()),
            ),
            Pick::Pair(one, other) if one == other => {
                collect([units[one].everything()].into_iter())
            }
            Pick::Pair(one, other) => {
                collect([units[one].everything(), units[other].everything()].into_iter())
            }
            Pick::Uniform => collect(units.iter().map(|unit| unit.pick(random))),
            Pick::Torn { unit: torn, event } => collect(all.map(|(number, unit)| {
                let tear = if number == torn {
                    unit.tear(event, random)
                } else {
                    None
                };
                tear.unwrap_or_else(|| unit.pick(random))
            })),
        }
    }
}

impl Iterator for ImageChoices {
    type Item = ImageChoice;

    fn next(&mut self) -> Option<ImageChoice> {
        if let Some(choice) = self.next_combination() {
            return Some(choice);
        }
        let pick = self.picks.next()?;
        Some(self.build(pick))
    }
}

/// Leaves out the units of which nothing survives.
fn collect(units: impl Iterator<Item = UnitChoice>) -> ImageChoice {
    let survives = |unit: &UnitChoice| unit.kept != 0 || unit.torn != 0 || unit.streams != 0;
    ImageChoice {
        units: units.filter(survives).collect(),
    }
}

fn combinations(units: &[Unit], tearing: Tearing) -> u64 {
    units.iter().fold(1, |product, unit| {
        product.saturating_mul(unit.choices(tearing))
    })
}

/// All pairs of up to 64 of the units, in random order.
fn pairs(units: usize, random: &mut Random) -> Vec<Pick> {
    let mut paired: Vec<_> = (0..units).collect();
    random.shuffle(&mut paired);
    paired.truncate(PAIRED_UNITS_MAX);
    let mut pairs = Vec::new();
    if paired.len() > 3 {
        for (number, one) in paired.iter().enumerate() {
            pairs.extend(
                paired[..number]
                    .iter()
                    .map(|other| Pick::Pair(*one, *other)),
            );
        }
    }
    random.shuffle(&mut pairs);
    pairs
}

/// Seeded numbers (`SplitMix64`); small, so that a failure replays on any version of anything else.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `limit`, which is small, so that the bias does not matter.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Some of the pieces, at least one and not all; none where that is impossible.
    fn torn(&mut self, pieces: u8) -> u64 {
        match torn_forms(pieces) {
            0 => 0,
            forms => self.below(forms) + 1,
        }
    }

    fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            values.swap(last, other);
        }
    }
}
