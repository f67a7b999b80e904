//! The source files of the workspace, cut into code, comments and text.
//!
//! A small lexer, not a parser: it knows strings, characters and comments, which is enough to look
//! for words in code without finding them in a message, and to distinguish test code from the rest.
//! A rule that needs more than words belongs into clippy.

use std::fs;
use std::path::{Path, PathBuf};

/// One file.
#[derive(Debug)]
pub struct Source {
    /// Relative to the root, with slashes.
    pub path: String,
    /// All lines.
    pub lines: Vec<Line>,
}

/// One line of a file.
#[derive(Debug)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// As it is.
    pub text: String,
    /// Without comments, and with empty strings; of files that are not Rust, everything.
    pub code: String,
    /// The text after `//`, further slashes and exclamation marks included.
    pub comment: String,
    /// Whether it belongs to a test.
    pub in_test: bool,
}

/// A rule of the repository: its findings in these files, each with the place.
pub type Rule = fn(&[Source]) -> Vec<String>;

/// A finding in a line of a file.
pub fn finding(file: &Source, line: usize, what: impl std::fmt::Display) -> String {
    format!("{}:{line}: {what}", file.path)
}

/// The directory of this package. Where the test runs, not where it was built: a target directory
/// may be kept from another checkout.
pub fn package() -> PathBuf {
    let built = || env!("CARGO_MANIFEST_DIR").into();
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built, PathBuf::from)
}

/// The root of the repository.
pub fn root() -> PathBuf {
    package().join("..")
}

/// All Rust files of the workspace, sorted.
pub fn rust_files() -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    for folder in ["crates", "tests"] {
        collect(&root.join(folder), &["rs"], &mut paths);
    }
    let mut files: Vec<Source> = paths.iter().map(|path| read(&root, path)).collect();
    mark_test_modules(&mut files);
    files
}

/// All files that people write: sources, manifests, documents, scripts.
pub fn text_files() -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root, &["rs", "toml", "md", "txt", "sh", "yml"], &mut paths);
    paths.iter().map(|path| read(&root, path)).collect()
}

fn collect(folder: &Path, extensions: &[&str], paths: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, extensions, paths);
            }
        } else if path
            .extension()
            .is_some_and(|found| extensions.iter().any(|one| found == *one))
        {
            paths.push(path);
        }
    }
}

fn read(root: &Path, path: &Path) -> Source {
    // A file that is being replaced at this moment has no lines, and so breaks no rule.
    let text = fs::read_to_string(path).unwrap_or_default();
    let relative = path.strip_prefix(root).unwrap_or(path);
    Source::parse(&relative.to_string_lossy().replace('\\', "/"), &text)
}

impl Source {
    /// Cuts a file into its lines; the path says whether it is Rust and whether it is a test.
    pub fn parse(path: &str, text: &str) -> Self {
        let is_rust = Path::new(path)
            .extension()
            .is_some_and(|found| found == "rs");
        let mut lines = if is_rust { lex(text) } else { plain(text) };
        let folders = ["/tests/", "/benches/", "/examples/"];
        let is_test =
            folders.iter().any(|folder| path.contains(folder)) || path.starts_with("tests/");
        mark_tests(&mut lines, is_test);
        let path = path.to_owned();
        Self { path, lines }
    }
}

fn plain(text: &str) -> Vec<Line> {
    let line = |(index, text): (usize, &str)| Line {
        number: index + 1,
        text: text.to_owned(),
        code: text.to_owned(),
        comment: String::new(),
        in_test: false,
    };
    text.lines().enumerate().map(line).collect()
}

/// The construct that the lexer is inside of at the end of a line.
enum Inside {
    Code,
    Text,
    /// A raw text that ends in a quote and this many hashes.
    RawText(usize),
    /// A block comment of this depth.
    Comment(usize),
}

fn lex(text: &str) -> Vec<Line> {
    let mut inside = Inside::Code;
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let (mut code, mut comment) = (String::new(), String::new());
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let mut step = letter.len_utf8();
            match inside {
                Inside::Comment(depth) => {
                    if rest.starts_with("*/") {
                        inside = if depth == 1 {
                            Inside::Code
                        } else {
                            Inside::Comment(depth - 1)
                        };
                        step = 2;
                    } else if rest.starts_with("/*") {
                        inside = Inside::Comment(depth + 1);
                        step = 2;
                    }
                }
                Inside::Text if letter == '\\' => step = rest.len().min(2),
                Inside::Text if letter == '"' => {
                    inside = Inside::Code;
                    code.push('"');
                }
                Inside::Text => {}
                Inside::RawText(hashes) => {
                    let end = format!("\"{}", "#".repeat(hashes));
                    if rest.starts_with(&end) {
                        inside = Inside::Code;
                        code.push('"');
                        step = end.len();
                    }
                }
                Inside::Code => {
                    if let Some(found) = rest.strip_prefix("//") {
                        found.clone_into(&mut comment);
                        break;
                    }
                    (inside, step) = lex_code(rest, letter, &mut code);
                }
            }
            rest = rest.get(step..).unwrap_or("");
        }
        let (text, number) = (text.to_owned(), index + 1);
        lines.push(Line {
            number,
            text,
            code,
            comment,
            in_test: false,
        });
    }
    lines
}

/// One step in code: the next construct, and how many bytes were read.
fn lex_code(rest: &str, letter: char, code: &mut String) -> (Inside, usize) {
    if rest.starts_with("/*") {
        return (Inside::Comment(1), 2);
    }
    if letter == '"' {
        code.push('"');
        return (Inside::Text, 1);
    }
    let is_word = |last: char| last.is_alphanumeric() || last == '_';
    if letter == 'r' && !code.ends_with(is_word) {
        let hashes = rest[1..]
            .chars()
            .take_while(|letter| *letter == '#')
            .count();
        if rest[1 + hashes..].starts_with('"') {
            code.push('"');
            return (Inside::RawText(hashes), hashes + 2);
        }
    }
    if letter == '\'' {
        // A character ends in a quote after one letter or an escape; anything else is a lifetime.
        let mut letters = rest.char_indices().skip(1);
        let escaped = letters.next().is_some_and(|(_, letter)| letter == '\\');
        let end = if escaped {
            rest[3.min(rest.len())..].find('\'').map(|at| at + 3)
        } else {
            letters
                .next()
                .filter(|(_, letter)| *letter == '\'')
                .map(|(at, _)| at)
        };
        if let Some(end) = end {
            code.push_str("' '");
            return (Inside::Code, end + 1);
        }
    }
    code.push(letter);
    (Inside::Code, letter.len_utf8())
}

/// Marks the modules with `#[cfg(test)]` in one file, or all of it.
fn mark_tests(lines: &mut [Line], all: bool) {
    let mut depth = 0_i64;
    let mut test_depth = None;
    let mut pending = false;
    for line in lines {
        pending |= line.code.contains("#[cfg(test)]");
        if pending && line.code.contains('{') && test_depth.is_none() {
            (test_depth, pending) = (Some(depth), false);
        }
        pending &= !line.code.trim_end().ends_with(';');
        line.in_test = all || test_depth.is_some();
        let count = |letter| line.code.matches(letter).count().cast_signed() as i64;
        depth += count('{') - count('}');
        if test_depth == Some(depth) {
            test_depth = None;
        }
    }
}

/// Marks files that are modules by `#[cfg(test)] mod name;`.
fn mark_test_modules(files: &mut [Source]) {
    let mut names = Vec::new();
    for file in files.iter() {
        for pair in file.lines.windows(2) {
            let name = module_name(&pair[1].code);
            if let Some(name) = name.filter(|_| pair[0].code.contains("#[cfg(test)]")) {
                names.extend(module_files(&file.path, name));
            }
            if let Some(path) = pair[0]
                .code
                .contains("#[path")
                .then(|| quoted(&pair[0].text))
            {
                let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                if path.contains("test") {
                    names.push(format!("{folder}/{path}"));
                }
            }
        }
    }
    for file in files.iter_mut().filter(|file| names.contains(&file.path)) {
        mark_tests(&mut file.lines, true);
    }
}

/// The name in `mod name;`.
pub fn module_name(code: &str) -> Option<&str> {
    let code = code.trim().strip_suffix(';')?;
    let (before, name) = code.rsplit_once("mod ")?;
    let is_module = before.is_empty() || before.ends_with(' ') && before.starts_with("pub");
    is_module.then_some(name.trim())
}

/// Where a module of the file at `path` may lie.
pub fn module_files(path: &str, module: &str) -> [String; 2] {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    let is_root = matches!(stem, "lib" | "main" | "mod") || is_target(path);
    let base = if is_root {
        folder.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    [
        format!("{base}/{module}.rs"),
        format!("{base}/{module}/mod.rs"),
    ]
}

/// Whether cargo builds this file by itself: a library, a program, a test, a benchmark, an example.
pub fn is_target(path: &str) -> bool {
    let Some((folder, file)) = path.rsplit_once('/') else {
        return false;
    };
    let is_entry = folder.ends_with("/src") && matches!(file, "lib.rs" | "main.rs");
    let is_flat = ["/tests", "/benches", "/examples", "/src/bin"];
    let is_folder = file == "main.rs"
        && folder
            .rsplit_once('/')
            .is_some_and(|(parent, _)| parent.ends_with("/tests") || parent.ends_with("/examples"));
    is_entry || is_folder || file == "build.rs" || is_flat.iter().any(|end| folder.ends_with(end))
}

/// The text between the first two quotes.
pub fn quoted(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or("")
}

/// Whether `text` has `word` with no letter, digit or underscore around it.
pub fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

/// The identifiers and numbers in a line of code.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<String> {
        Source::parse("a/src/lib.rs", text)
            .lines
            .into_iter()
            .map(|line| line.code)
            .collect()
    }

    #[test]
    fn texts_and_comments_are_no_code() {
        assert_eq!(codes(r#"a("x // \" y", b); // c"#), [r#"a("", b); "#]);
        assert_eq!(codes("a /* b /* c */ d\ne */ f"), ["a ", " f"]);
        assert_eq!(codes("r#\"one \" two\nthree\"# + 1"), ["\"", "\" + 1"]);
        assert_eq!(codes("f('\"', '\\'', &'a str)"), ["f(' ', ' ', &'a str)"]);
    }

    #[test]
    fn tests_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}";
        let source = Source::parse("a/src/lib.rs", text);
        let marks: Vec<bool> = source.lines.iter().map(|line| line.in_test).collect();
        assert_eq!(marks, [false, false, true, true, true, false]);
        assert!(Source::parse("a/tests/b.rs", "fn c() {}").lines[0].in_test);
    }

    #[test]
    fn modules_are_found() {
        assert_eq!(module_name("pub(crate) mod heap;"), Some("heap"));
        assert_eq!(module_name("mod heap {"), None);
        assert_eq!(module_files("a/src/lib.rs", "b")[0], "a/src/b.rs");
        assert_eq!(module_files("a/src/b.rs", "c")[1], "a/src/b/c/mod.rs");
        assert!(has_word("the unsafe word", "unsafe") && !has_word("unsafe_code", "unsafe"));
    }
}
