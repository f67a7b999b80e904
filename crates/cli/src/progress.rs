//! Progress bars for long work, on standard error and only where that is a terminal.
//!
//! A bar is drawn at most ten times a second and removed when the work is done, so logs and pipes
//! never see one.

use crate::printable::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A bar over a known amount of bytes.
pub(crate) fn bytes(action: &'static str, total: u64) -> ProgressBar {
    bar(
        action,
        total,
        "{msg} {wide_bar} {bytes}/{total_bytes} {eta}",
    )
}

/// A bar over a known number of things.
pub(crate) fn count(action: &'static str, total: u64) -> ProgressBar {
    bar(
        action,
        total,
        "{msg} {wide_bar} {human_pos}/{human_len} {eta}",
    )
}

/// A sign of life where the amount of work is not known.
pub(crate) fn spinner(action: impl Into<String>) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, target());
    tell(&spinner, &action.into());
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// Shows the current work next to a bar.
pub(crate) fn tell(bar: &ProgressBar, text: &str) {
    bar.set_message(printable(text).into_owned());
}

fn bar(action: &'static str, total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates are fixed and valid");
    let bar = ProgressBar::with_draw_target(Some(total), target()).with_style(style);
    bar.set_message(action);
    bar
}

/// Hides itself where standard error is no terminal.
fn target() -> ProgressDrawTarget {
    ProgressDrawTarget::stderr_with_hz(10)
}
