//! Shared parts of the tests that span rooms: devices to run on, the script language, the source
//! tree.
//!
//! The tests themselves are in `tests/`: a file each for behaviour, cost, random operations, golden
//! images, damaged files, full devices and the rules of the repository. Tests of one room stay in
//! that room.
//!
//! | module | job |
//! |---|---|
//! | [`place`] | a simulated world or a scratch directory that holds one partition |
//! | [`script`] | files of commands with expected output |
//! | [`session`] | runs commands on one engine |
//! | [`literal`] | values as scripts write them |
//! | [`random`] | seeded numbers |
//! | [`source`] | the source files of the workspace, for the rules |

pub mod literal;
pub mod place;
pub mod random;
pub mod script;
pub mod session;
pub mod source;

/// Whether tests take their long settings, as `.ci/run` wants it: the environment has `LONG_TESTS`.
/// Without it `cargo test` does a part of each.
pub fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}
