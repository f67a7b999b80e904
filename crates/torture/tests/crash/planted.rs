//! Planted bugs: tiny protocols, each right and with one mistake.
//!
//! Goal: the device model and an exhaustive check tell the right one from the wrong one, for the
//! classes of mistakes that cannot be made in an engine by switching a site off. Method: a counter
//! in durable memory goes up by one a step; at each crash point, in steps and in recoveries, all
//! images are recovered and must hold a count that is allowed.

use pmem::device::simulated::{
    CrashPoint, ImageChoices, SimulatedMemory, SimulatedWorld, WorldOptions,
};
use pmem::device::{Access, Memory, MemorySource};
use pmem::site;
use std::sync::{Arc, Mutex};

const STEPS: u64 = 3;
const VALUE: u64 = 0;
const LOG: u64 = 64;
const COMMIT: u64 = 128;
const COPY: u64 = 192;

/// A way to keep a counter.
#[derive(Clone, Copy, Debug)]
enum Toy {
    /// A new slot is written, then a pointer is swung to it.
    Publish { pointer_first: bool },
    /// The counter is written in place.
    InPlace { two_words: bool },
    /// The change is logged, applied, and the log emptied; recovery applies it again.
    Redo { as_difference: bool },
    /// The old value is logged, the counter changed, and a commit word moved; recovery undoes
    /// uncommitted changes.
    Undo { ignores_sequence: bool },
    /// Two values that must be equal are changed under a redo log. Recovery makes the bytes that it
    /// reads durable, unless it trusts them.
    Pair { trusts: bool },
}

/// Reads through a copy of the live bytes: tests hold no pointers into a device.
fn word(memory: &SimulatedMemory, offset: u64) -> u64 {
    let bytes = memory.peek(offset, 8);
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

fn put(memory: &mut SimulatedMemory, offset: u64, value: u64) {
    memory.store_word(offset, value);
    memory.flush(offset, 8, site!("toy.word"));
    memory
        .fence(site!("toy.word-fence"))
        .expect("fences work here");
}

impl Toy {
    fn step(self, memory: &mut SimulatedMemory, next: u64) {
        match self {
            Self::Publish { pointer_first } => {
                let slot = 64 * (1 + next % 2);
                if pointer_first {
                    put(memory, VALUE, slot);
                    put(memory, slot, next);
                } else {
                    put(memory, slot, next);
                    put(memory, VALUE, slot);
                }
            }
            Self::InPlace { two_words } => {
                if two_words {
                    let mut both = [0; 16];
                    both[..8].copy_from_slice(&next.to_le_bytes());
                    both[8..].copy_from_slice(&next.to_le_bytes());
                    memory.store(VALUE, &both);
                    memory.flush(VALUE, 16, site!("toy.pair"));
                    memory
                        .fence(site!("toy.pair-fence"))
                        .expect("fences work here");
                } else {
                    put(memory, VALUE, next);
                }
            }
            Self::Redo { as_difference } => {
                put(memory, LOG, if as_difference { 1 } else { next });
                put(memory, VALUE, next);
                put(memory, LOG, 0);
            }
            Self::Undo { .. } => {
                memory.store_word(LOG, next - 1);
                put(memory, LOG + 8, next);
                put(memory, VALUE, next);
                put(memory, COMMIT, next);
            }
            Self::Pair { .. } => {
                put(memory, LOG, next);
                put_pair(memory, next);
                put(memory, LOG, 0);
            }
        }
    }

    fn recover(self, memory: &mut SimulatedMemory) -> Option<u64> {
        match self {
            Self::Publish { .. } => match word(memory, VALUE) {
                0 => Some(0),
                slot @ (64 | 128) => Some(word(memory, slot)),
                _ => None,
            },
            Self::InPlace { two_words } => {
                let value = word(memory, VALUE);
                (!two_words || value == word(memory, VALUE + 8)).then_some(value)
            }
            Self::Redo { as_difference } => {
                let logged = word(memory, LOG);
                if logged != 0 {
                    let value = word(memory, VALUE);
                    put(
                        memory,
                        VALUE,
                        if as_difference {
                            value + logged
                        } else {
                            logged
                        },
                    );
                    put(memory, LOG, 0);
                }
                Some(word(memory, VALUE))
            }
            Self::Undo { ignores_sequence } => {
                let sequence = word(memory, LOG + 8);
                let is_open = sequence == word(memory, COMMIT) + 1;
                if sequence != 0 && (is_open || ignores_sequence) {
                    let old = word(memory, LOG);
                    put(memory, VALUE, old);
                }
                Some(word(memory, VALUE))
            }
            Self::Pair { trusts } => {
                if !trusts {
                    memory.flush(VALUE, 256, site!("toy.found"));
                    memory
                        .fence(site!("toy.found-fence"))
                        .expect("fences work here");
                }
                let logged = word(memory, LOG);
                if logged != 0 {
                    put_pair(memory, logged);
                    put(memory, LOG, 0);
                }
                let value = word(memory, VALUE);
                (value == word(memory, COPY)).then_some(value)
            }
        }
    }
}

/// Stores both values, then waits for them together.
fn put_pair(memory: &mut SimulatedMemory, value: u64) {
    for offset in [VALUE, COPY] {
        memory.store_word(offset, value);
        memory.flush(offset, 8, site!("toy.both"));
    }
    memory
        .fence(site!("toy.both-fence"))
        .expect("fences work here");
}

/// Recovers an image, cut off `depth` more times, and returns the failure.
fn check(toy: Toy, image: &SimulatedWorld, allowed: [u64; 2], depth: u32) -> Option<String> {
    let found: Arc<Mutex<Option<String>>> = Arc::default();
    if depth > 0 {
        let shared = Arc::clone(&found);
        image.observe(move |world, _| {
            let wrong = images(toy, world, allowed, depth - 1);
            let mut found = shared.lock().expect("one thread");
            *found = found.take().or(wrong);
        });
    }
    let mut memory = image
        .source()
        .open("toy", Access::Write)
        .expect("it is there");
    let value = toy.recover(&mut memory);
    drop(memory);
    image.unobserve();
    if value.is_none_or(|value| !allowed.contains(&value)) {
        return Some(format!("{value:?} is none of {allowed:?}"));
    }
    found.lock().expect("one thread").take()
}

fn images(toy: Toy, world: &SimulatedWorld, allowed: [u64; 2], depth: u32) -> Option<String> {
    ImageChoices::every(world, 4096)
        .expect("few images")
        .find_map(|choice| {
            let image = world.image(&choice).expect("address space suffices");
            check(toy, &image, allowed, depth)
        })
}

/// The process dies here; the next one recovers, is cut off in that, and then must keep the state
/// that it shows.
fn death(toy: Toy, world: &SimulatedWorld, allowed: [u64; 2]) -> Option<String> {
    let next = world.death().expect("address space suffices");
    let found: Arc<Mutex<Option<String>>> = Arc::default();
    let shared = Arc::clone(&found);
    next.observe(move |world, _| {
        let wrong = images(toy, world, allowed, 0);
        let mut found = shared.lock().expect("one thread");
        *found = found.take().or(wrong);
    });
    let mut memory = next
        .source()
        .open("toy", Access::Write)
        .expect("it is there");
    let value = toy.recover(&mut memory);
    next.unobserve();
    let Some(value) = value.filter(|value| allowed.contains(value)) else {
        return Some(format!("{value:?} is none of {allowed:?} after a death"));
    };
    let found = found.lock().expect("one thread").take();
    found.or_else(|| images(toy, &next, [value; 2], 1))
}

fn search(toy: Toy) -> Option<String> {
    search_by(toy, move |world, allowed| images(toy, world, allowed, 2))
}

/// Calls `look` at each crash point and returns the first failure.
fn search_by(
    toy: Toy,
    look: impl Fn(&SimulatedWorld, [u64; 2]) -> Option<String> + Send + 'static,
) -> Option<String> {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut memory = world.source().create("toy", 4096).expect("it is new");
    for offset in (0..256).step_by(8) {
        put(&mut memory, offset, 0);
    }
    let state: Arc<Mutex<([u64; 2], Option<String>)>> = Arc::default();
    let shared = Arc::clone(&state);
    world.observe(move |world, _| {
        let mut state = shared.lock().expect("one thread");
        if state.1.is_none() {
            state.1 = look(world, state.0);
        }
    });
    for next in 1..=STEPS {
        state.lock().expect("one thread").0 = [next - 1, next];
        toy.step(&mut memory, next);
        state.lock().expect("one thread").0 = [next, next];
        world.mark(CrashPoint::Acknowledged(next));
    }
    world.unobserve();
    let mut state = state.lock().expect("one thread");
    state.1.take()
}

fn told_apart(right: Toy, wrong: Toy) {
    assert_eq!(search(right), None, "{right:?}");
    assert!(search(wrong).is_some(), "{wrong:?} was taken for right");
}

#[test]
fn publishing_before_the_data() {
    told_apart(
        Toy::Publish {
            pointer_first: false,
        },
        Toy::Publish {
            pointer_first: true,
        },
    );
}

#[test]
fn two_words_where_one_is_needed() {
    told_apart(
        Toy::InPlace { two_words: false },
        Toy::InPlace { two_words: true },
    );
}

#[test]
fn recovery_that_is_not_idempotent() {
    told_apart(
        Toy::Redo {
            as_difference: false,
        },
        Toy::Redo {
            as_difference: true,
        },
    );
}

#[test]
fn a_stale_log_record_that_counts() {
    told_apart(
        Toy::Undo {
            ignores_sequence: false,
        },
        Toy::Undo {
            ignores_sequence: true,
        },
    );
}

#[test]
fn recovery_that_acts_on_what_is_not_durable() {
    let [right, wrong] = [false, true].map(|trusts| Toy::Pair { trusts });
    for toy in [right, wrong] {
        assert_eq!(
            search(toy),
            None,
            "{toy:?}: a power cut alone shows nothing"
        );
    }
    let deaths = |toy| search_by(toy, move |world, allowed| death(toy, world, allowed));
    assert_eq!(deaths(right), None);
    assert!(
        deaths(wrong).is_some(),
        "the log was lost, half of its change was not"
    );
}

#[test]
fn recovery_that_shows_what_is_not_durable() {
    let toy = Toy::InPlace { two_words: false };
    let shown = search_by(toy, move |world, allowed| death(toy, world, allowed));
    assert!(shown.is_some(), "a value was read and then lost");
}
