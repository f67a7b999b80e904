//! Reports: result rows, and the plots and pages that are made from them.
//!
//! Rows are the truth and plots are rebuilt from them. The room `report` draws.

mod rows;

pub(crate) use ::report::{
    BarChart, BarGroup, Details, LineChart, LineSeries, NumberTable, Page, Scale, Section, Tick,
    short_number,
};
pub(crate) use rows::{
    AreaNumbers, CheckpointNumbers, FootprintBytes, LatencyUs, ModelledNumbers, OwnNumbers,
    PageNumbers, PerTxn, ReadFloor, RunRow, StandardNumbers, TypeNumbers, WrittenBytes,
};
