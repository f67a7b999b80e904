//! The source tree: placeholder.
//!
//! x
