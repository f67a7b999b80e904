//! Goal: documents, comments and messages are read without a second look, and name what exists.
//!
//! Method: as in `tidy.rs`, a rule is a function from files to findings. One test applies all of
//! them to the tree, another one shows each of them a text that breaks it. Widths count characters.
//! In documents, tables and examples keep the width that they need.

use std::collections::BTreeSet;
use tests::source::{Rule, Source, finding, quoted, rust_files, text_files};

/// Longest line of a comment, and of a document.
const COMMENT_COLUMNS: usize = 100;
const DOCUMENT_COLUMNS: usize = 120;
/// Sentences of comments among which one may begin with a free relative clause.
const SENTENCES_A_RELATIVE: usize = 100;
const RELATIVES: [&str; 6] = ["What", "Whatever", "Who", "Whoever", "Whichever", "Whose"];

/// Words of ours that every reader would have to translate, and those of the field.
const PHRASES: &[(&str, &str)] = &[
    (concat!("men", "d"), "fix, or name the remedy"),
    (concat!("men", "ds"), "fixes"),
    (concat!("men", "ded"), "fixed"),
    (concat!("in a cir", "cle"), "a deadlock"),
    (concat!("told a", "part"), "distinguished"),
    (concat!("behind the com", "mit"), "after the commit"),
    (concat!("in front of the com", "mit"), "before the commit"),
    (concat!("nobody's busi", "ness"), "not part of the contract"),
];

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, end)| end)
}

fn is_of_today(file: &Source) -> bool {
    let is_past = file.path == "CHANGELOG.md" || file.path.starts_with("docs/results/");
    !is_past && matches!(extension(&file.path), "md" | "rs")
}

/// Prose: lines of documents, and comments in code. Results and the changelog tell of the past, and
/// are left out.
fn prose(files: &[Source]) -> impl Iterator<Item = (&Source, usize, &str)> {
    files
        .iter()
        .filter(|file| is_of_today(file))
        .flat_map(|file| {
            let is_code = extension(&file.path) == "rs";
            file.lines.iter().map(move |line| {
                let text = if is_code { &line.comment } else { &line.text };
                (file, line.number, text.as_str())
            })
        })
}

fn named_files_exist(files: &[Source]) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let exists = |name: &str| {
        let end = format!("/{name}");
        (files.iter()).any(|file| file.path == name || file.path.ends_with(&end))
    };
    let mut findings = Vec::new();
    for (file, number, text) in prose(files) {
        for name in text.split(|letter| !is_part(letter)) {
            let name = name.trim_start_matches(['.', '/']).trim_end_matches('.');
            let is_file = matches!(extension(name), "md" | "rs");
            if is_file && name != "docs.rs" && !exists(name) {
                let what = format!("there is no file `{name}`; name the one that is meant");
                findings.push(finding(file, number, what));
            }
        }
    }
    findings
}

fn named_sites_exist(files: &[Source]) -> Vec<String> {
    let mut sites = BTreeSet::new();
    for line in files.iter().flat_map(|file| &file.lines) {
        for (at, _) in line.text.match_indices("site!(\"") {
            sites.insert(quoted(&line.text[at..]));
        }
    }
    let is_kebab = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '-')
    };
    let mut findings = Vec::new();
    for (file, number, text) in prose(files) {
        for word in text.split('`').skip(1).step_by(2) {
            let is_site = word
                .split_once('.')
                .is_some_and(|(log, step)| is_kebab(log) && is_kebab(step) && step.contains('-'));
            if is_site && !sites.contains(word) {
                let what = format!("there is no site `{word}`; name the one that is meant");
                findings.push(finding(file, number, what));
            }
        }
    }
    findings
}

/// Whether the line is prose that can be broken: not a row of a table, and not in a code block.
/// `fenced` is the state between lines.
fn breaks(text: &str, fenced: &mut bool) -> bool {
    let text = text.trim_start_matches(['!', '/']).trim_start();
    if text.starts_with("```") {
        *fenced = !*fenced;
        return false;
    }
    !*fenced && !text.starts_with('|')
}

fn lines_have_an_end(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_of_today(file)) {
        let is_code = extension(&file.path) == "rs";
        let columns = if is_code {
            COMMENT_COLUMNS
        } else {
            DOCUMENT_COLUMNS
        };
        let mut fenced = false;
        for line in &file.lines {
            let counts = if is_code {
                line.code.trim().is_empty() && !line.comment.is_empty()
            } else {
                breaks(&line.text, &mut fenced) && line.text.trim().contains(' ')
            };
            if counts && line.text.chars().count() > columns {
                let what = format!("prose after column {columns}; break the line");
                findings.push(finding(file, line.number, what));
            }
        }
    }
    findings
}

fn phrases_are_plain(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for (file, number, text) in prose(files) {
        for (phrase, plain) in PHRASES {
            let is_whole = |at: usize| {
                let letter = |side: Option<char>| side.is_some_and(char::is_alphanumeric);
                !letter(text[..at].chars().next_back())
                    && !letter(text[at + phrase.len()..].chars().next())
            };
            if text.match_indices(phrase).any(|(at, _)| is_whole(at)) {
                let what = format!("`{phrase}` is a word of our own; say: {plain}");
                findings.push(finding(file, number, what));
            }
        }
    }
    findings
}

/// Sentences of the comments of a file, each with the line in which its paragraph begins.
fn sentences(file: &Source) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let (mut fenced, mut is_open) = (false, false);
    for line in &file.lines {
        let text = line.comment.trim_start_matches(['!', '/']).trim();
        let is_prose = line.code.trim().is_empty() && breaks(&line.comment, &mut fenced);
        if text.is_empty() || !is_prose {
            is_open = false;
            continue;
        }
        let item = text
            .trim_start_matches(|letter: char| "-*.".contains(letter) || letter.is_ascii_digit());
        if !is_open || item.len() < text.len() {
            paragraphs.push((line.number, String::new()));
            is_open = true;
        }
        if let Some((_, paragraph)) = paragraphs.last_mut() {
            paragraph.push_str(item.trim());
            paragraph.push(' ');
        }
    }
    let mut sentences = Vec::new();
    for (number, paragraph) in paragraphs {
        let mut last = ' ';
        let ends = |letter: char| {
            let ends = letter == ' ' && ".!?:".contains(last);
            last = letter;
            ends
        };
        let found = paragraph.split_inclusive(ends);
        sentences.extend(found.map(|sentence| (number, sentence.trim().to_owned())));
    }
    sentences
}

fn sentences_begin_with_their_subject(files: &[Source]) -> Vec<String> {
    let (mut count, mut findings) = (0, Vec::new());
    for file in files {
        for (number, sentence) in sentences(file) {
            count += 1;
            let first = sentence.split(' ').next().unwrap_or_default();
            if RELATIVES.contains(&first) && !sentence.ends_with('?') {
                let what = format!("`{sentence}` begins with a relative clause; name the thing");
                findings.push(finding(file, number, what));
            }
        }
    }
    if findings.len() * SENTENCES_A_RELATIVE <= count {
        findings.clear();
    }
    findings
}

/// Rules of Rust files, each with a text that breaks it.
const RUST_RULES: &[(Rule, &str, &str)] = &[(
    sentences_begin_with_their_subject,
    "crates/pmem/src/ptr.rs",
    "/// Who reads it waits.\nstruct NvPtr;",
)];

/// Rules of all files, each with a text that breaks it.
const TEXT_RULES: &[(Rule, &str, &str)] = &[
    (named_files_exist, "docs/a.md", "as `log/nothing.rs` says"),
    (
        named_sites_exist,
        "docs/a.md",
        "the fence `undo.no-such-step`",
    ),
    (
        lines_have_an_end,
        "docs/a.md",
        "a line that goes on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on",
    ),
    (
        phrases_are_plain,
        "docs/a.md",
        concat!("how to men", "d a file"),
    ),
];

#[test]
fn the_tree_keeps_the_rules() {
    let (sources, texts) = (rust_files(), text_files());
    let findings: BTreeSet<String> = RUST_RULES
        .iter()
        .flat_map(|(rule, ..)| rule(&sources))
        .chain(TEXT_RULES.iter().flat_map(|(rule, ..)| rule(&texts)))
        .collect();
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn every_rule_can_fail() {
    for (rule, path, text) in RUST_RULES.iter().chain(TEXT_RULES) {
        let files = [Source::parse(path, text)];
        let findings = rule(&files);
        assert!(
            findings.iter().any(|found| found.starts_with(path)),
            "{path}: {text}"
        );
    }
}

#[test]
fn tables_examples_and_links_of_documents_keep_their_width() {
    let long = "word ".repeat(30);
    let link = format!("https://{}", "a".repeat(150));
    let text = format!("| {long} |\n```\n{long}\n```\n{link}\n");
    assert!(lines_have_an_end(&[Source::parse("docs/a.md", &text)]).is_empty());
}
