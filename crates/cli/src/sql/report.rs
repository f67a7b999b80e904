//! Errors and notices of statements, as PostgreSQL's shell shows them.
//!
//! The line of the text that is meant comes with a mark below its place. A long line is cut around
//! it. Colours are for terminals only.

use crate::printable::{printable, printable_lines};
use crate::streams;
use client::Report;
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// Most characters of a line that are shown, and those that stay on each side of the mark.
const LINE_MAX: usize = 70;
const BEFORE_MARK: usize = 40;

/// How much of a report is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbosity {
    Default,
    /// With the SQLSTATE.
    Verbose,
}

/// Prints a report to standard error; `place` is that of the statement in a file.
pub(super) fn tell(report: &Report, place: &str, text: Option<&str>) {
    tell_as(report, place, text, Verbosity::Default);
}

/// The same with more or less of it.
pub(super) fn tell_as(report: &Report, place: &str, text: Option<&str>, verbosity: Verbosity) {
    let mut shown = sentence(report, text, verbosity);
    if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        let severity = report.severity();
        shown = shown.replacen(severity, &format!("\u{1b}[1;31m{severity}\u{1b}[0m"), 1);
    }
    streams::tell(&format!("{}{shown}", printable(place)));
}

fn sentence(report: &Report, text: Option<&str>, verbosity: Verbosity) -> String {
    let state = match verbosity {
        Verbosity::Default => String::new(),
        Verbosity::Verbose => format!("{}: ", report.state),
    };
    let severity = report.severity();
    let mut shown = format!("{severity}:  {state}{}", printable_lines(&report.message));
    let parts = [
        ("DETAIL", &report.detail),
        ("HINT", &report.hint),
        ("CONTEXT", &report.context),
    ];
    if let (Some(text), Some(position)) = (text, report.position) {
        shown.push_str(&marked_line(text, position).unwrap_or_default());
    }
    for (name, part) in parts {
        if let Some(part) = part {
            shown.extend(["\n", name, ":  ", &printable_lines(part)]);
        }
    }
    shown
}

/// The line of a text that has the character at `position`, from 1, with a mark below it.
fn marked_line(text: &str, position: usize) -> Option<String> {
    // An error at the end of the text is behind its last character.
    let (at, _) = text
        .char_indices()
        .map(Some)
        .chain([None])
        .nth(position.checked_sub(1)?)?
        .unwrap_or((text.len(), ' '));
    let before = &text[..at];
    let number = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next().unwrap_or("");
    let mark = text[start..at].chars().count();
    let cut_before = mark.saturating_sub(BEFORE_MARK);
    let first = if cut_before > 3 { cut_before } else { 0 };
    let kept: String = line.chars().skip(first).take(LINE_MAX).collect();
    let dots = |is_cut: bool| if is_cut { "..." } else { "" };
    let lead = format!("LINE {number}: {}", dots(first > 0));
    let end = dots(line.chars().count() > first + LINE_MAX);
    // Blanks stand for tabs, so that the mark is below its place.
    let kept = kept.replace('\t', " ");
    let left: String = kept.chars().take(mark - first).collect();
    let blanks = lead.width() + printable(&left).width();
    Some(format!(
        "\n{lead}{}{end}\n{:blanks$}^",
        printable(&kept),
        ""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_below_its_place() {
        assert_eq!(
            marked_line("select 1,\n\tä, x\nfrom t", 15).unwrap(),
            "\nLINE 2:  ä, x\n            ^"
        );
        assert_eq!(
            marked_line("select", 7).unwrap(),
            "\nLINE 1: select\n              ^"
        );
        assert_eq!(marked_line("select", 9), None);
        assert_eq!(marked_line("select", 0), None);
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let text = format!("{}X{}", "a".repeat(100), "b".repeat(100));
        let shown = marked_line(&text, 101).unwrap();
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert!(
            lines[0].starts_with("LINE 1: ...aaa") && lines[0].ends_with("b..."),
            "{shown}"
        );
        assert_eq!(lines[0].find('X'), lines[1].find('^'));
    }

    #[test]
    fn details_and_hints_have_lines() {
        let report = Report {
            detail: Some("d".to_owned()),
            hint: Some("h\u{1b}".to_owned()),
            position: Some(8),
            ..Report::error("42703", "column \"x\" does not exist")
        };
        let shown = sentence(&report, Some("select x"), Verbosity::Verbose);
        assert_eq!(
            shown,
            "ERROR:  42703: column \"x\" does not exist\nLINE 1: select x\n               ^\n\
             DETAIL:  d\nHINT:  h\\u{1b}"
        );
    }
}
