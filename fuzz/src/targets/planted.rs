//! Targets with a fault each, which show that faults are found. They are no part of `all`.
//!
//! The fault is met by a few of the inputs, so that finding it takes a mutation, and so that the
//! run goes on before and after it.

use super::Target;
use crate::input::Input;
use crate::mutate::Seed;
use std::time::Duration;

/// The targets of this file.
pub(crate) fn targets() -> Vec<Target> {
    vec![
        planted("planted-panic", || panic!("a planted panic")),
        planted("planted-abort", || std::process::abort()),
        planted("planted-memory", || {
            drop(std::hint::black_box(vec![1_u8; 300 << 20]));
        }),
        planted("planted-sleep", || {
            std::thread::sleep(Duration::from_millis(1100));
        }),
    ]
}

fn planted(name: &str, fault: fn()) -> Target {
    let seeds = || Ok(vec![Seed::plain(Input::of("bytes", vec![5; 64]))]);
    let run = move |input: &Input| {
        if input.part("bytes").first() == Some(&0xff) {
            fault();
        }
        true
    };
    Target::new(name, seeds, run)
}
