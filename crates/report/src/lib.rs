//! Reports: plots as SVG text, and one HTML page that holds them and needs nothing else.
//!
//! A room of its own, because it knows nothing of databases: names, numbers and sentences come in,
//! text goes out. The SVG writer is our own: its output is deterministic, so a changed figure is a
//! changed result, and the page loads nothing from anywhere.
//!
//! | module | job |
//! |---|---|
//! | `plot` | grouped bars and lines, with intervals |
//! | `stack` | bars of pieces |
//! | `ranges` | stated ranges beside measured intervals |
//! | `html` | the page |

mod html;
mod plot;
mod ranges;
mod stack;

pub use html::{Details, NumberTable, Page, Section, Tone, WordTable};
pub use plot::{BarChart, BarGroup, LineChart, LineSeries, Scale, Tick, short_number};
pub use ranges::{RangeChart, RangeRow};
pub use stack::{StackBar, StackChart};
