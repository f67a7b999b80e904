//! The configuration of a server: settings from four sources, each with its origin.
//!
//! | module | job |
//! |---|---|
//! | `setting` | the settings that there are, and the forms of their values |
//! | `file` | a file of settings, with the lines that they stand on |
//! | `layers` | flags before the environment before the file before defaults |

mod file;
mod layers;
mod setting;

pub use layers::{ConfigError, Configuration, Origin};
pub use setting::{SETTINGS, Setting};
