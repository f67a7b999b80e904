//! Tests of the built program, in one binary so that it is linked once.
//!
//! | module | goal |
//! |---|---|
//! | `data` | what goes in comes out the same |
//! | `bad_input` | each mistake gets a clear sentence and the right exit code |
//! | `measure` | the measuring commands run end to end |

#![allow(
    missing_docs,
    reason = "tests have names, and their modules have headers"
)]

mod bad_input;
mod common;
mod data;
mod measure;
