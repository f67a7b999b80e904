//! Litmus programs: hand-written outcomes of a power cut, against those that the simulated device
//! enumerates.
//!
//! Goal: the model itself is tested before anything is tested with it. Method: each program stores
//! to a few words that are 0 at first; its legal outcomes are listed as one digit a word; the set
//! of outcomes over all images, torn forms included, must be exactly that list. A and B share a
//! line with E and F; C and D have a line each.
#![allow(
    unsafe_code,
    reason = "a test reads the mapping of a memory, as the arena does"
)]
#![allow(clippy::unwrap_used, reason = "helpers of a test fail the test")]

use pmem::device::simulated::{
    Content, ImageChoices, Profile, SimulatedMemory, SimulatedWorld, WorldOptions,
};
use pmem::{Access, Memory, MemorySource, PowerFailAtomicity, site};
use std::collections::BTreeSet;

const A: u64 = 0;
const B: u64 = 8;
const E: u64 = 16;
const F: u64 = 56;
const C: u64 = 64;
const D: u64 = 128;
const BYTES: u64 = 256;

/// The memories that a program stores to: one, and a second one in the same world.
struct Machine {
    world: SimulatedWorld,
    first: Option<SimulatedMemory>,
    second: SimulatedMemory,
}

impl Machine {
    fn new(profile: Profile) -> Self {
        Self::with(profile, PowerFailAtomicity::Word)
    }

    fn with(profile: Profile, atomicity: PowerFailAtomicity) -> Self {
        let content = Content::Zeros;
        let world = SimulatedWorld::new(WorldOptions {
            profile,
            atomicity,
            content,
            capacity_bytes: 4096,
            ..WorldOptions::default()
        });
        let first = Some(world.source().create("first", BYTES).unwrap());
        let second = world.source().create("second", BYTES).unwrap();
        Self {
            world,
            first,
            second,
        }
    }

    fn first(&mut self) -> &mut SimulatedMemory {
        self.first.as_mut().unwrap()
    }

    fn word(&mut self, offset: u64, value: u64) -> &mut Self {
        self.first().store_word(offset, value);
        self
    }

    fn bulk(&mut self, offset: u64, values: &[u64]) -> &mut Self {
        self.first().store(offset, &bytes(values));
        self
    }

    fn stream(&mut self, offset: u64, values: &[u64]) -> &mut Self {
        self.first()
            .stream(offset, &bytes(values), site!("litmus.stream"));
        self
    }

    /// Stores the line of A and B with one instruction, one value in all of its words.
    fn line(&mut self, value: u64) -> &mut Self {
        let line = bytes(&[value; 8]).try_into().unwrap();
        self.first().store_line(A, &line, site!("litmus.line"));
        self
    }

    fn flush(&mut self, offset: u64) -> &mut Self {
        self.flush_range(offset, 8)
    }

    fn flush_range(&mut self, offset: u64, bytes: usize) -> &mut Self {
        self.first().flush(offset, bytes, site!("litmus.flush"));
        self
    }

    fn fence(&mut self) -> &mut Self {
        self.first().fence(site!("litmus.fence")).unwrap();
        self
    }

    fn other_fence(&mut self) -> &mut Self {
        self.first().fence(site!("litmus.other-fence")).unwrap();
        self
    }

    fn reopen(&mut self) -> &mut Self {
        self.first = None;
        self.first = Some(self.world.source().open("first", Access::Write).unwrap());
        self
    }

    /// The process dies with both memories open, and the next one opens them.
    fn die(&mut self) -> &mut Self {
        let world = self.world.death().unwrap();
        self.first = Some(world.source().open("first", Access::Write).unwrap());
        self.second = world.source().open("second", Access::Write).unwrap();
        self.world = world;
        self
    }

    /// The digits of `words` as they are read now.
    fn visible(&mut self, words: &[u64]) -> String {
        let digits = words.iter().map(|offset| match offset.checked_sub(BYTES) {
            None => read(self.first.as_ref().unwrap(), *offset).to_string(),
            Some(offset) => read(&self.second, offset).to_string(),
        });
        digits.collect()
    }

    /// The digits of `words` in every image; a word from `BYTES` on lies in the second memory.
    fn outcomes(&self, words: &[u64]) -> BTreeSet<String> {
        let choices = ImageChoices::every(&self.world, 1 << 20).unwrap();
        let outcome = |choice| {
            let image = self.world.image(&choice).unwrap();
            let first = image.source().open("first", Access::Read).unwrap();
            let second = image.source().open("second", Access::Read).unwrap();
            let digits = words.iter().map(|offset| match offset.checked_sub(BYTES) {
                None => read(&first, *offset).to_string(),
                Some(offset) => read(&second, offset).to_string(),
            });
            digits.collect()
        };
        choices.map(outcome).collect()
    }
}

fn bytes(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn read(memory: &SimulatedMemory, offset: u64) -> u64 {
    assert!(offset + 8 <= memory.bytes() && offset.is_multiple_of(8));
    memory.load(offset, 8);
    // SAFETY: the range lies in the mapping.
    let address = unsafe { memory.base().as_ptr().add(offset as usize) };
    // SAFETY: any bytes are a valid array, and nothing stores while `memory` is borrowed.
    let word = unsafe { address.cast::<[u8; 8]>().read() };
    u64::from_le_bytes(word)
}

/// Runs a program and compares its outcomes with the list.
fn check(profile: Profile, words: &[u64], program: impl Fn(&mut Machine), legal: &str) {
    let mut machine = Machine::new(profile);
    program(&mut machine);
    let legal: BTreeSet<_> = legal.split(' ').map(str::to_owned).collect();
    assert_eq!(machine.outcomes(words), legal);
}

macro_rules! litmus {
    ($($name:ident: $profile:ident $words:expr, $program:expr => $legal:literal;)*) => {
        $(#[test]
        fn $name() {
            check(Profile::$profile, &$words, |m| { $program(m); }, $legal);
        })*
    };
}

fn nothing(_: &mut Machine) {}

// One word.
litmus! {
    no_store_leaves_the_old_value: Default [A], nothing => "0";
    store_alone_may_survive: Default [A], |m: &mut Machine| { m.word(A, 1); } => "0 1";
    flush_without_fence_is_not_certain: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A); } => "0 1";
    fence_without_flush_is_not_certain: Default [A],
        |m: &mut Machine| { m.word(A, 1).fence(); } => "0 1";
    fence_before_flush_is_not_certain: Default [A],
        |m: &mut Machine| { m.word(A, 1).fence().flush(A); } => "0 1";
    flush_before_store_is_not_certain: Default [A],
        |m: &mut Machine| { m.flush(A).word(A, 1).fence(); } => "0 1";
    flush_and_fence_are_certain: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).fence(); } => "1";
    every_value_of_a_word_may_be_the_last: Default [A],
        |m: &mut Machine| { m.word(A, 1).word(A, 2).word(A, 3); } => "0 1 2 3";
    flush_covers_stores_up_to_it: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).word(A, 2).fence(); } => "1 2";
    durable_value_is_never_lost_again: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).fence().word(A, 2); } => "1 2";
}

// Several words of one line persist in order.
litmus! {
    one_line_keeps_a_prefix: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).word(B, 1); } => "00 10 11";
    one_line_keeps_program_order_not_address_order: Default [A, B],
        |m: &mut Machine| { m.word(B, 1).word(A, 1); } => "00 01 11";
    prefix_cuts_between_stores_to_one_word: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).word(B, 1).word(A, 2); } => "00 10 11 21";
    flush_of_one_word_covers_its_line: Default [A, F],
        |m: &mut Machine| { m.word(A, 1).word(F, 1).flush_range(B, 1).fence(); } => "11";
    store_after_flush_is_not_covered: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).flush(A).word(B, 1).fence(); } => "10 11";
    second_flush_before_one_fence_covers_more: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).flush(A).word(B, 1).flush(B).fence(); } => "11";
    prefix_starts_behind_what_is_durable: Default [A, B, E],
        |m: &mut Machine| { m.word(A, 1).flush(A).word(B, 1).word(E, 1).fence(); }
        => "100 110 111";
}

// Lines are independent.
litmus! {
    two_lines_have_no_order: Default [A, C],
        |m: &mut Machine| { m.word(A, 1).word(C, 1); } => "00 01 10 11";
    three_lines_have_no_order: Default [A, C, D],
        |m: &mut Machine| { m.word(A, 1).word(C, 1).word(D, 1); }
        => "000 001 010 011 100 101 110 111";
    flushed_and_fenced_data_comes_before_its_flag: Default [C, A],
        |m: &mut Machine| { m.word(C, 1).flush(C).fence().word(A, 1); } => "10 11";
    without_fence_the_flag_may_come_first: Default [C, A],
        |m: &mut Machine| { m.word(C, 1).flush(C).word(A, 1).flush(A); } => "00 01 10 11";
    without_flush_the_flag_may_come_first: Default [C, A],
        |m: &mut Machine| { m.word(C, 1).fence().word(A, 1).flush(A).fence(); } => "01 11";
    fence_covers_all_flushes_before_it: Default [A, C],
        |m: &mut Machine| { m.word(A, 1).word(C, 1).flush_range(A, 128).fence(); } => "11";
    flush_ends_with_its_last_line: Default [A, C],
        |m: &mut Machine| { m.word(A, 1).word(C, 1).flush_range(A, 64).fence(); } => "10 11";
    flush_that_crosses_a_line_covers_both: Default [A, C],
        |m: &mut Machine| { m.word(A, 1).word(C, 1).flush_range(60, 8).fence(); } => "11";
    order_inside_each_of_two_lines: Default [A, B, C],
        |m: &mut Machine| { m.word(A, 1).word(C, 1).word(B, 1); }
        => "000 001 100 101 110 111";
}

// Handles.
litmus! {
    fence_of_another_handle_does_not_cover: Default [A],
        |m: &mut Machine| {
            m.word(A, 1).flush(A);
            m.second.fence(site!("litmus.second")).unwrap();
        } => "0 1";
    fence_covers_its_own_handle_only: Default [A, BYTES],
        |m: &mut Machine| {
            m.second.store_word(A, 1);
            m.second.flush(A, 8, site!("litmus.second-flush"));
            m.word(A, 1).flush(A).fence();
        } => "10 11";
    fence_after_reopening_does_not_cover: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).reopen().fence(); } => "0 1";
    flush_after_reopening_covers: Default [A],
        |m: &mut Machine| { m.word(A, 1).reopen().flush(A).fence(); } => "1";
    stream_can_be_flushed_after_reopening: Default [A],
        |m: &mut Machine| { m.stream(A, &[1]).reopen().flush(A).fence(); } => "1";
}

// The process dies, the power stays on, and the next process goes on; then the power goes.
litmus! {
    death_makes_nothing_certain: Default [A], |m: &mut Machine| { m.word(A, 1).die(); } => "0 1";
    death_keeps_what_is_certain: Default [A, C],
        |m: &mut Machine| { m.word(A, 1).flush(A).fence().word(C, 1).die(); } => "10 11";
    write_back_of_the_dead_is_not_certain: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).die(); } => "0 1";
    fence_does_not_cover_a_write_back_of_the_dead: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).die().fence(); } => "0 1";
    flush_and_fence_cover_a_store_of_the_dead: Default [A],
        |m: &mut Machine| { m.word(A, 1).die().flush(A).fence(); } => "1";
    flush_and_fence_cover_a_write_back_of_the_dead: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).die().flush(A).fence(); } => "1";
    line_of_the_dead_keeps_a_prefix: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).word(B, 1).die(); } => "00 10 11";
    next_store_comes_behind_those_of_the_dead: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).die().word(B, 1); } => "00 10 11";
    storing_again_what_the_dead_stored_covers_it: Default [A],
        |m: &mut Machine| { m.word(A, 1).flush(A).die().word(A, 1).flush(A).fence(); } => "1";
    lines_of_the_dead_have_no_order: Default [A, C],
        |m: &mut Machine| { m.word(A, 1).word(C, 1).die(); } => "00 01 10 11";
    acting_on_a_store_of_the_dead_may_outlive_it: Default [A, C],
        |m: &mut Machine| {
            m.word(A, 1).flush(A).die();
            let seen = m.visible(&[A]).parse().unwrap();
            m.word(C, seen).flush(C).fence();
        } => "01 11";
    bulk_of_the_dead_may_tear: Default [A, B],
        |m: &mut Machine| { m.bulk(A, &[1, 1]).die(); } => "00 01 10 11";
    stream_of_the_dead_has_no_order: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1]).stream(B, &[1]).die(); } => "00 01 10 11";
    fence_does_not_cover_a_stream_of_the_dead: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1, 1]).die().fence(); } => "00 01 10 11";
    flush_and_fence_cover_a_stream_of_the_dead: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1, 1]).die().flush(A).fence(); } => "11";
    store_of_the_next_passes_a_stream_of_the_dead: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1]).die().word(B, 1); } => "00 01 10 11";
    stream_of_the_next_passes_a_store_of_the_dead: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).die().stream(B, &[1]).fence(); } => "01 11";
    two_deaths_in_a_row: Default [A, B, C],
        |m: &mut Machine| { m.word(A, 1).flush(A).die().word(B, 1).flush(B).fence().word(C, 1).flush(C).die().fence(); }
        => "110 111";
    death_hits_every_memory: Default [A, BYTES],
        |m: &mut Machine| {
            m.second.store_word(A, 1);
            m.second.flush(A, 8, site!("litmus.second-dead"));
            m.word(A, 1).die().flush(A).fence();
            m.second.fence(site!("litmus.second-next")).unwrap();
        } => "10 11";
    flush_free_death_loses_nothing: FlushFree [A, C],
        |m: &mut Machine| { m.word(A, 1).stream(C, &[1]).die(); } => "11";
}

#[test]
fn everything_is_visible_after_a_death() {
    let mut machine = Machine::new(Profile::Default);
    machine.word(A, 1).bulk(B, &[2, 3]).flush(A);
    machine.stream(C, &[4]).word(D, 5);
    machine.second.store_word(A, 6);
    assert_eq!(machine.die().visible(&[A, B, E, C, D, BYTES]), "123456");
}

#[test]
fn successors_made_in_one_world_are_those_of_their_moment() {
    let mut machine = Machine::new(Profile::Default);
    let mut place = machine.world.death().unwrap();
    for value in 1..5 {
        machine.word(A, value).flush(A);
        if value % 2 == 0 {
            machine.fence();
        }
        machine.stream(C, &[value]).word(D, value);
        machine.world.death_into(&mut place).unwrap();
        let fresh = machine.world.death().unwrap();
        let words = [A, C, D];
        let all = |world: &SimulatedWorld| {
            let machine = Machine {
                first: None,
                second: world.source().open("second", Access::Write).unwrap(),
                world: world.clone(),
            };
            machine.outcomes(&words)
        };
        assert_eq!(all(&place), all(&fresh), "value {value}");
        // The successor's stores must not come back in the next one.
        let mut memory = place.source().open("first", Access::Write).unwrap();
        memory.store_word(A, 9);
        memory.store_word(BYTES - 8, 9);
    }
}

// Bulk stores tear at words.
litmus! {
    bulk_may_tear_at_words: Default [A, B],
        |m: &mut Machine| { m.bulk(A, &[1, 1]); } => "00 01 10 11";
    bulk_of_three_words: Default [A, B, E],
        |m: &mut Machine| { m.bulk(A, &[1, 1, 1]); }
        => "000 001 010 011 100 101 110 111";
    bulk_of_one_word_is_atomic: Default [A],
        |m: &mut Machine| { m.first().store(A, &0x0000_0003_u64.to_le_bytes()); } => "0 3";
    bulk_inside_of_a_word_is_atomic: Default [A],
        |m: &mut Machine| { m.first().store(A, &[5, 0]); } => "0 5";
    bulk_across_words_tears_between_them: Default [A, B],
        |m: &mut Machine| { m.first().store(A, &[1, 0, 0, 0, 0, 0, 0, 0, 1]); }
        => "00 01 10 11";
    bulk_across_lines_tears_between_them: Default [F, C],
        |m: &mut Machine| { m.bulk(F, &[1, 1]); } => "00 01 10 11";
    word_after_bulk_needs_all_of_it: Default [A, B, E],
        |m: &mut Machine| { m.bulk(A, &[1, 1]).word(E, 1); } => "000 010 100 110 111";
    bulk_after_word_needs_the_word: Default [A, B, E],
        |m: &mut Machine| { m.word(E, 1).bulk(A, &[1, 1]); } => "000 001 011 101 111";
    bulk_over_bulk: Default [A, B],
        |m: &mut Machine| { m.bulk(A, &[1, 1]).bulk(A, &[2, 2]); }
        => "00 01 10 11 12 21 22";
    bulk_over_word_of_the_same_word: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).bulk(A, &[2, 2]); } => "00 10 12 20 22";
    flushed_bulk_is_whole: Default [A, B],
        |m: &mut Machine| { m.bulk(A, &[1, 1]).flush_range(A, 16).fence(); } => "11";
    partly_flushed_bulk_tears_in_the_other_line: Default [F, C, 72],
        |m: &mut Machine| { m.bulk(F, &[1, 1, 1]).flush(F).fence(); }
        => "100 101 110 111";
}

// Streaming stores.
litmus! {
    stream_has_no_order_before_the_fence: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1, 1]); } => "00 01 10 11";
    stream_is_certain_after_the_fence: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1, 1]).fence(); } => "11";
    flush_does_not_order_a_stream: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1, 1]).flush(A); } => "00 01 10 11";
    stream_passes_an_earlier_store_of_its_line: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).stream(B, &[1]); } => "00 01 10 11";
    store_passes_an_earlier_stream_of_its_line: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1]).word(B, 1); } => "00 01 10 11";
    two_streams_have_no_order: Default [A, B],
        |m: &mut Machine| { m.stream(A, &[1]).stream(B, &[1]); } => "00 01 10 11";
    stream_over_stream_of_one_word: Default [A],
        |m: &mut Machine| { m.stream(A, &[1]).stream(A, &[2]); } => "0 1 2";
    store_over_stream_of_one_word: Default [A],
        |m: &mut Machine| { m.stream(A, &[1]).word(A, 2); } => "0 1 2";
    later_stream_covers_an_unflushed_store: Default [A, B],
        |m: &mut Machine| { m.word(A, 1).word(B, 1).stream(A, &[2]).fence(); } => "20 21";
    store_over_fenced_stream: Default [A],
        |m: &mut Machine| { m.stream(A, &[1]).fence().word(A, 2); } => "1 2";
    fence_covers_streams_and_flushes_but_not_stores: Default [A, C, D],
        |m: &mut Machine| { m.stream(A, &[1]).word(C, 1).flush(C).word(D, 1).fence(); }
        => "110 111";
    stream_over_two_lines: Default [F, C],
        |m: &mut Machine| { m.stream(F, &[1, 1]); } => "00 01 10 11";
}

// The flush-free profile.
litmus! {
    flush_free_store_survives: FlushFree [A], |m: &mut Machine| { m.word(A, 1); } => "1";
    flush_free_stores_survive_in_all_lines: FlushFree [A, B, C],
        |m: &mut Machine| { m.word(A, 1).bulk(B, &[2]).word(C, 3); } => "123";
    flush_free_stream_needs_the_fence: FlushFree [A, B],
        |m: &mut Machine| { m.stream(A, &[1, 1]); } => "00 01 10 11";
    flush_free_stream_is_certain_after_the_fence: FlushFree [A],
        |m: &mut Machine| { m.stream(A, &[1]).fence(); } => "1";
    flush_free_store_over_stream: FlushFree [A],
        |m: &mut Machine| { m.stream(A, &[1]).word(A, 2); } => "2";
    flush_free_stream_over_store: FlushFree [A],
        |m: &mut Machine| { m.word(A, 1).stream(A, &[2]); } => "1 2";
    flush_free_store_passes_a_stream: FlushFree [A, C],
        |m: &mut Machine| { m.stream(A, &[1]).word(C, 1); } => "01 11";
    flush_free_flush_does_nothing_for_a_stream: FlushFree [A],
        |m: &mut Machine| { m.stream(A, &[1]).flush(A); } => "0 1";
}

// Sites that are switched off.
litmus! {
    disabled_flush_leaves_the_line_undecided: Default [A],
        |m: &mut Machine| {
            m.world.disable("litmus.flush");
            m.word(A, 1).flush(A).fence();
        } => "0 1";
    disabled_fence_leaves_the_flush_undecided: Default [A],
        |m: &mut Machine| {
            m.world.disable("litmus.fence");
            m.word(A, 1).flush(A).fence();
        } => "0 1";
    later_fence_does_the_work_of_a_disabled_one: Default [A, C],
        |m: &mut Machine| {
            m.world.disable("litmus.fence");
            m.word(A, 1).flush(A).fence().word(C, 1).flush(C).other_fence();
        } => "11";
    disabled_stream_is_an_unflushed_store: Default [A, B],
        |m: &mut Machine| {
            m.world.disable("litmus.stream");
            m.stream(A, &[1, 1]).word(E, 1).fence();
        } => "00 01 10 11";
    disabled_flush_can_be_enabled_again: Default [A],
        |m: &mut Machine| {
            m.world.disable("litmus.flush");
            m.word(A, 1).flush(A).fence();
            m.world.enable("litmus.flush");
            m.flush(A).fence();
        } => "1";
    one_execution_is_disabled: Default [A, C],
        |m: &mut Machine| {
            m.world.disable_nth("litmus.flush", 1);
            m.word(A, 1).flush(A).word(C, 1).flush(C).fence();
        } => "10 11";
}

/// Runs a program on a platform that promises 64 bytes, and compares its outcomes for A and B with
/// the list.
fn check_whole_lines(profile: Profile, program: impl Fn(&mut Machine), legal: &str) {
    let mut machine = Machine::with(profile, PowerFailAtomicity::Line);
    program(&mut machine);
    let legal: BTreeSet<_> = legal.split(' ').map(str::to_owned).collect();
    assert_eq!(machine.outcomes(&[A, B]), legal);
}

// A line stored by one instruction tears at words; where the platform promises 64 bytes it does
// not.
litmus! {
    line_tears_at_words: Default [A, B], |m: &mut Machine| { m.line(1); } => "00 01 10 11";
    flush_free_line_tears_at_words: FlushFree [A, B], |m: &mut Machine| { m.line(1); } => "00 01 10 11";
    line_is_certain_after_the_fence: Default [A, B], |m: &mut Machine| { m.line(1).fence(); } => "11";
}

#[test]
fn a_whole_line_survives_or_does_not() {
    for profile in [Profile::Default, Profile::FlushFree] {
        check_whole_lines(profile, |m| _ = m.line(1), "00 11");
        check_whole_lines(profile, |m| _ = m.line(1).fence(), "11");
        check_whole_lines(profile, |m| _ = m.line(1).line(2), "00 11 22");
        check_whole_lines(profile, |m| _ = m.line(1).fence().line(2), "11 22");
    }
    // Other stores behave as elsewhere.
    check_whole_lines(Profile::Default, |m| _ = m.bulk(A, &[1, 1]), "00 01 10 11");
    check_whole_lines(
        Profile::Default,
        |m| _ = m.stream(A, &[1, 1]),
        "00 01 10 11",
    );
}

#[test]
fn a_whole_line_has_no_order_with_other_stores_of_the_line() {
    let program = |m: &mut Machine| _ = m.word(A, 1).line(2);
    check_whole_lines(Profile::Default, program, "00 10 22");
    let program = |m: &mut Machine| _ = m.line(1).word(B, 2);
    check_whole_lines(Profile::Default, program, "00 02 11 12");
}

#[test]
fn a_whole_line_of_the_dead_is_whole() {
    check_whole_lines(Profile::Default, |m| _ = m.line(1).die(), "00 11");
    check_whole_lines(Profile::Default, |m| _ = m.line(1).die().fence(), "00 11");
    check_whole_lines(
        Profile::Default,
        |m| _ = m.line(1).die().flush(A).fence(),
        "11",
    );
}

#[test]
fn a_line_whose_store_is_switched_off_tears() {
    let program = |m: &mut Machine| {
        m.world.disable("litmus.line");
        m.line(1).fence();
    };
    check_whole_lines(Profile::Default, program, "00 01 10 11");
}
