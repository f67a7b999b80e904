//! Reports: result rows, plots of them, and one HTML page that needs nothing else.
//!
//! Rows are the truth and plots are rebuilt from them. The SVG writer is our own: its output is
//! deterministic, so a changed figure is a changed result, and the page loads nothing from
//! anywhere.

mod html;
mod plot;
mod ranges;
mod rows;
mod stack;

pub(crate) use html::{Details, NumberTable, Page, Section, Tone, WordTable};
pub(crate) use plot::{BarChart, BarGroup, LineChart, LineSeries, Scale, Tick, short_number};
pub(crate) use ranges::{RangeChart, RangeRow};
pub(crate) use rows::{
    AreaNumbers, CheckpointNumbers, FootprintBytes, LatencyUs, ModelledNumbers, OwnNumbers,
    PageNumbers, PerTxn, ReadFloor, RunRow, StandardNumbers, TypeNumbers, WrittenBytes,
};
pub(crate) use stack::{StackBar, StackChart};
