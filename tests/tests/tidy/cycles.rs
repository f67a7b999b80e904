//! Import cycles between the files of a room.
//!
//! A file imports another one if a path in its code leads there, through the names that files in
//! between give on with `pub use`. To give names on is no import. Tests do not count.
//!
//! Files of a cycle can only be understood together. So a cycle has at most three files, such as a
//! type and the parts of its `impl` that have files of their own, and a room has few cycles.

use std::collections::{BTreeMap, BTreeSet};
use tests::source::{Source, finding};

/// Most files of a cycle, and most cycles of a room.
const FILES_MAX: usize = 3;
const CYCLES_MAX: usize = 6;

/// The path of a module or name, from the root of its room.
type Path = Vec<String>;

/// One file of a room.
struct Module<'s> {
    file: &'s Source,
    /// Paths that its code has.
    imports: Vec<Path>,
    /// Names that it gives on, and where they are.
    given_on: BTreeMap<String, Path>,
}

pub(crate) fn import_cycles_are_short(files: &[Source]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, BTreeMap<Path, Module<'_>>> = BTreeMap::new();
    for file in files {
        let inside = file.path.strip_prefix("crates/");
        let Some((room, path)) = inside.and_then(|inside| inside.split_once("/src/")) else {
            continue;
        };
        let own = module_path(path);
        let module = Module::read(file, &own);
        rooms.entry(room).or_default().insert(own, module);
    }
    rooms
        .iter()
        .flat_map(|(room, modules)| cycles_of(room, modules))
        .collect()
}

fn cycles_of(room: &str, modules: &BTreeMap<Path, Module<'_>>) -> Vec<String> {
    let cycles = cycles(modules);
    let long = cycles.iter().filter(|cycle| cycle.len() > FILES_MAX);
    let mut found: Vec<String> = long
        .map(|cycle| {
            let names: Vec<String> = cycle.iter().map(|path| path.join("::")).collect();
            let what = format!(
                "{} files import each other: {}; move what they share to a file below them (at most {FILES_MAX})",
                cycle.len(),
                names.join(", ")
            );
            finding(modules[cycle[0]].file, 1, what)
        })
        .collect();
    if cycles.len() > CYCLES_MAX {
        let what = format!("{} import cycles (at most {CYCLES_MAX})", cycles.len());
        found.push(format!("crates/{room}:1: {what}"));
    }
    found
}

/// The sets of modules that reach each other.
fn cycles<'m>(modules: &'m BTreeMap<Path, Module<'_>>) -> Vec<Vec<&'m Path>> {
    let edges: BTreeMap<&Path, BTreeSet<&Path>> = modules
        .iter()
        .map(|(own, module)| {
            let leads_to = |path: &Path| module_of(modules, path.clone());
            let used = module.imports.iter().filter_map(leads_to);
            (own, used.filter(|used| *used != own).collect())
        })
        .collect();
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = edges
        .keys()
        .map(|own| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![*own]);
            while let Some(path) = next.pop() {
                let new = edges[path].iter().copied().filter(|to| seen.insert(*to));
                next.extend(new);
            }
            (*own, seen)
        })
        .collect();
    let mut cycles: Vec<Vec<&Path>> = Vec::new();
    for (own, seen) in &reached {
        let is_known = cycles.iter().any(|cycle| cycle.contains(own));
        if seen.contains(own) && !is_known {
            let both = |other: &&&Path| reached[**other].contains(own);
            cycles.push(seen.iter().filter(both).copied().collect());
        }
    }
    cycles
}

/// The module in which a path ends, wherever its name is given on.
fn module_of<'m>(modules: &'m BTreeMap<Path, Module<'_>>, mut path: Path) -> Option<&'m Path> {
    // A name is not given on more often than that.
    for _ in 0..8 {
        let known = (0..=path.len())
            .rev()
            .find(|&end| modules.contains_key(&path[..end]))?;
        let (own, module) = modules.get_key_value(&path[..known])?;
        let Some(further) = path.get(known).and_then(|name| module.given_on.get(name)) else {
            return Some(own);
        };
        path = further.iter().chain(&path[known + 1..]).cloned().collect();
    }
    None
}

/// `log/mod.rs` is the module `log`, `log/wal.rs` is `log::wal`.
fn module_path(file: &str) -> Path {
    let mut path: Path = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if matches!(
        path.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        path.pop();
    }
    path
}

impl<'s> Module<'s> {
    fn read(file: &'s Source, own: &[String]) -> Self {
        let lines = file.lines.iter().filter(|line| !line.in_test);
        let code: Vec<&str> = lines.map(|line| line.code.as_str()).collect();
        let code = code.join(" ");
        let tokens = tokens(&code);
        let mut module = Self {
            file,
            imports: Vec::new(),
            given_on: BTreeMap::new(),
        };
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map_or("", |at| tokens[at]);
            let is_use = tokens[at] == "use";
            let begins = matches!(tokens[at], "crate" | "super" | "self")
                && tokens.get(at + 1) == Some(&"::")
                // Who may use an item is no import.
                && !matches!(before, "::" | "in");
            if !is_use && !begins {
                at += 1;
                continue;
            }
            let is_given_on = is_use && matches!(before, "pub" | ")");
            at += usize::from(is_use);
            for (path, name) in tree(&tokens, &mut at, &[]) {
                let Some(path) = absolute(own, &path) else {
                    continue;
                };
                if is_given_on {
                    module.given_on.insert(name, path);
                } else {
                    module.imports.push(path);
                }
            }
        }
        module
    }
}

/// Words, `::` and single signs.
fn tokens(code: &str) -> Vec<&str> {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (mut tokens, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = if is_of_word(first) {
            rest.find(|letter| !is_of_word(letter))
                .unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

/// The paths of a tree of imports, each with the name that it gets.
fn tree(tokens: &[&str], at: &mut usize, before: &[String]) -> Vec<(Path, String)> {
    let mut path = before.to_vec();
    let mut found = Vec::new();
    let token = |at: usize| tokens.get(at).copied().unwrap_or("");
    loop {
        if token(*at) == "{" {
            while !matches!(token(*at), "}" | "") {
                *at += 1;
                if token(*at) != "}" {
                    found.extend(tree(tokens, at, &path));
                }
            }
            *at += 1;
            return found;
        }
        path.push(token(*at).to_owned());
        *at += 1;
        if token(*at) != "::" {
            break;
        }
        *at += 1;
    }
    if token(*at) == "as" {
        let name = token(*at + 1).to_owned();
        *at += 2;
        return vec![(path, name)];
    }
    let name = path.last().cloned().unwrap_or_default();
    vec![(path, name)]
}

/// A path from the root of the room; none if it leads to another one.
fn absolute(own: &[String], path: &[String]) -> Option<Path> {
    let (first, mut rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Path::new(),
        "super" => own.split_last()?.1.to_vec(),
        "self" => own.to_vec(),
        _ => return Some(own.iter().chain(path).cloned().collect()),
    };
    while let Some((_, further)) = rest.split_first().filter(|(name, _)| *name == "super") {
        base.pop();
        rest = further;
    }
    let rest = rest.iter().filter(|name| *name != "self");
    base.extend(rest.cloned());
    Some(base)
}
