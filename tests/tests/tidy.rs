//! Goal: the rules of the repository hold without anybody remembering them.
//!
//! Method: a rule is a function from files to findings, `file:line: what, and what to do instead`.
//! One test applies all of them to the tree, another one shows each of them a file that breaks it.
//! The rules look at words and lines (`tests::source`); checks that need types are left to rustc
//! and clippy, whose lints are in the root manifest.

#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/house.rs"]
mod house;

use self::cycles::import_cycles_are_short;
use self::house::{ARROWS, FOLDERS, PROTOCOLS, UNSAFE_ROOMS};
use std::collections::{BTreeMap, BTreeSet};
use tests::source::{
    Line, Rule, Source, finding, has_word, is_target, module_files, module_name, quoted,
    rust_files, text_files, words,
};

const CODE_LINES_MAX: usize = 700;
const ROOM_LINES_MAX: usize = 30_000;
const HEADER_LINES_MIN: usize = 3;
const HEADER_LINES_MAX: usize = 60;

/// The findings of a rule that looks at one line of Rust at a time.
fn by_line(
    files: &[Source],
    mut rule: impl FnMut(&Source, &Line) -> Option<String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        for line in &file.lines {
            if let Some(what) = rule(file, line) {
                findings.push(finding(file, line.number, what));
            }
        }
    }
    findings
}

/// The room that a file belongs to.
fn room(path: &str) -> &str {
    let inside = path.strip_prefix("crates/").unwrap_or(path);
    inside.split('/').next().unwrap_or(inside)
}

fn arrows_between_rooms(files: &[Source]) -> Vec<String> {
    let rooms: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut findings = Vec::new();
    let manifests = files.iter().filter(|file| {
        file.path.ends_with("/Cargo.toml")
            && (file.path.starts_with("crates/") || file.path == "tests/Cargo.toml")
    });
    for file in manifests {
        let Some(allowed) = rooms.get(room(&file.path)) else {
            findings.push(finding(
                file,
                1,
                "an unknown room; add it to ARROWS with its reason",
            ));
            continue;
        };
        let mut in_dependencies = false;
        for line in &file.lines {
            let text = line.text.trim();
            if text.starts_with('[') {
                in_dependencies = text.ends_with("dependencies]");
            }
            let name = text.split(['.', '=', ' ']).next().unwrap_or("");
            if in_dependencies && rooms.contains_key(name) && !allowed.contains(&name) {
                let what =
                    format!("may not use `{name}`; move the shared part down to a room below both");
                findings.push(finding(file, line.number, what));
            }
        }
    }
    findings
}

fn arrows_between_folders(files: &[Source]) -> Vec<String> {
    by_line(files, |file, line| {
        let (own, inside) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
        let folder = inside.split(['/', '.']).next()?;
        let of_room = FOLDERS.iter().filter(|(room, ..)| *room == own);
        let (.., allowed) = of_room.clone().find(|(_, name, _)| *name == folder)?;
        let (_, used) = line.code.split_once("crate::")?;
        let other = words(used).next()?;
        let is_folder = of_room.clone().any(|(_, name, _)| *name == other);
        if line.in_test || !is_folder || other == folder || allowed.contains(&other) {
            return None;
        }
        Some(format!(
            "`{folder}` may not use `{other}`; pass it in, or move it down"
        ))
    })
}

fn engines_do_not_use_each_other(files: &[Source]) -> Vec<String> {
    let folder = "crates/serial_engines/src/engine/";
    let engines: Vec<String> = files
        .iter()
        .filter_map(|file| {
            file.path
                .strip_prefix(folder)?
                .strip_suffix(".rs")
                .map(str::to_owned)
        })
        .filter(|name| name != "mod")
        .filter(|name| !name.contains('/') && !name.ends_with("tests"))
        .collect();
    by_line(files, |file, line| {
        let own = file.path.strip_prefix(folder)?.trim_end_matches(".rs");
        if !engines.iter().any(|name| name == own) {
            return None;
        }
        let other = engines.iter().find(|name| {
            // A method may have the name of an engine.
            let code = line.code.replace(&format!(".{name}("), "(");
            *name != own && has_word(&code, name)
        })?;
        Some(format!(
            "engine `{own}` uses engine `{other}`; lower what both need into `table` or `log`"
        ))
    })
}

/// Records of logs and masters are smaller than a block of direct transfers, and several handles
/// write adjacent records. Only files of pages, whose size is checked, are direct.
fn no_database_transfers_directly(files: &[Source]) -> Vec<String> {
    by_line(files, |file, line| {
        let is_used = room(&file.path) != "disk"
            && line.code.contains("NativeDirectory::open")
            && line.code.contains("IoMode::Direct");
        is_used.then(|| {
            "direct transfers write whole blocks, so handles of one file would write over each other's bytes; use IoMode::Buffered, and with_direct for files of pages"
                .to_owned()
        })
    })
}

fn rooms_are_small(files: &[Source]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        *rooms.entry(room(&file.path)).or_default() += code_lines(file);
    }
    let large = rooms.iter().filter(|(_, code)| **code > ROOM_LINES_MAX);
    let found = large.map(|(room, code)| {
        format!("crates/{room}:1: {code} lines of code; make two rooms (at most {ROOM_LINES_MAX})")
    });
    found.collect()
}

fn code_lines(file: &Source) -> usize {
    let lines = file.lines.iter();
    lines.filter(|line| !line.code.trim().is_empty()).count()
}

fn files_are_short(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let code = code_lines(file);
        if code > CODE_LINES_MAX {
            let what = format!(
                "{code} lines of code; split off a noun of its own (at most {CODE_LINES_MAX})"
            );
            findings.push(finding(file, 1, what));
        }
    }
    findings
}

fn files_have_headers(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let header = file
            .lines
            .iter()
            .take_while(|line| line.text.starts_with("//!"))
            .count();
        if header < HEADER_LINES_MIN {
            let what =
                "the header has fewer than 3 lines; say the job, the idea, and what is always true";
            findings.push(finding(file, 1, what));
        }
        // The library's page is its manual, with a running example.
        if header > HEADER_LINES_MAX && !file.path.ends_with("/lib.rs") {
            findings.push(finding(
                file,
                1,
                "a header of more than 60 lines; move the story to docs/",
            ));
        }
    }
    findings
}

fn every_file_is_in_the_module_tree(files: &[Source]) -> Vec<String> {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    for file in files {
        if is_target(&file.path) {
            reached.insert(file.path.clone());
        }
        for (position, line) in file.lines.iter().enumerate() {
            let Some(name) = module_name(&line.code) else {
                continue;
            };
            let before = position.checked_sub(1).map(|at| &file.lines[at]);
            if let Some(before) = before.filter(|before| before.code.contains("#[path")) {
                let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                reached.insert(format!("{folder}/{}", quoted(&before.text)));
            }
            reached.extend(module_files(&file.path, name));
        }
    }
    let dead = files.iter().filter(|file| !reached.contains(&file.path));
    let findings: Vec<String> = dead
        .map(|file| {
            finding(
                file,
                1,
                "no `mod` leads here; name it in its parent or delete it",
            )
        })
        .collect();
    findings
}

fn nothing_is_left_to_do_in_comments(files: &[Source]) -> Vec<String> {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("HA", "CK"),
    ];
    let mut findings = Vec::new();
    for file in files {
        for line in &file.lines {
            if let Some(mark) = marks.iter().find(|mark| has_word(&line.text, mark)) {
                let what =
                    format!("{mark}; open an issue and, if a reader must know, state the limit");
                findings.push(finding(file, line.number, what));
            }
        }
    }
    findings
}

fn no_test_is_switched_off(files: &[Source]) -> Vec<String> {
    by_line(files, |_, line| {
        let ignored = line.code.contains("#[ignore");
        // Tests of minutes are run by command. Measurements have no verdict, and are benches.
        let has_reason = quoted(&line.text).contains("minute");
        (ignored && !has_reason)
            .then(|| "an ignored test; give it a small size, or delete it".to_owned())
    })
}

fn no_code_in_comments(files: &[Source]) -> Vec<String> {
    let starts = [
        "let ", "use ", "fn ", "pub ", "if ", "for ", "while ", "match ", "return ", "#[",
    ];
    by_line(files, |_, line| {
        let comment = line.comment.trim();
        let is_doc = line.comment.starts_with(['/', '!']);
        let ends = comment.ends_with(';') || comment.ends_with('{');
        let looks_like_code = starts.iter().any(|start| comment.starts_with(start))
            || comment.ends_with(");")
            || comment.contains(" = ");
        let found = !is_doc && ends && looks_like_code || comment == "}";
        found.then(|| "code in a comment; delete it, the history keeps it".to_owned())
    })
}

fn unsafe_stays_in_its_room(files: &[Source]) -> Vec<String> {
    by_line(files, |file, line| {
        let inside = UNSAFE_ROOMS.iter().any(|room| file.path.starts_with(room));
        let found = !inside && has_word(&line.code, "unsafe");
        found.then(|| {
            "`unsafe` outside of pmem and the kernels of join; use the safe verbs of `Arena` and `Memory`".to_owned()
        })
    })
}

fn no_unwrap_outside_of_tests(files: &[Source]) -> Vec<String> {
    by_line(files, |_, line| {
        let found = !line.in_test && line.code.contains(".unwrap()");
        found.then(|| "`unwrap`; return the error, or `expect` the invariant".to_owned())
    })
}

fn sites_have_unique_names(files: &[Source]) -> Vec<String> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    by_line(files, |file, line| {
        if line.in_test || !line.code.contains("site!(\"") {
            return None;
        }
        let (_, behind) = line.text.split_once("site!(")?;
        let name = quoted(behind).to_owned();
        let place = format!("{}:{}", file.path, line.number);
        let first = seen.insert(name.clone(), place)?;
        Some(format!(
            "site `{name}` is also at {first}; crash tests switch sites off by name"
        ))
    })
}

fn protocols_name_their_commit_point(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for (protocol, path) in PROTOCOLS {
        let Some(file) = files.iter().find(|file| file.path == *path) else {
            findings.push(format!(
                "{path}:1: the file of the {protocol} is gone; name the new one in PROTOCOLS"
            ));
            continue;
        };
        let named = file.lines.iter().any(|line| {
            line.comment
                .trim_start()
                .strip_prefix("commit point:")
                .is_some_and(|why| why.len() > 10)
        });
        if !named {
            let what =
                format!("the {protocol} has no `// commit point: <why>` where it becomes durable");
            findings.push(finding(file, 1, what));
        }
    }
    findings
}

fn durable_steps_belong_to_a_protocol(files: &[Source]) -> Vec<String> {
    // Devices carry the steps out, the crash search damages media on purpose, some files write for
    // a protocol whose commit point is elsewhere, and measurements time single steps on bytes that
    // nobody keeps.
    let carriers = [
        "crates/pmem/src/device/",
        "crates/pmem/src/cell.rs",
        "crates/disk/src/",
        "crates/indelible/src/commit_pool.rs",
        "crates/serial_engines/src/index/cow/pool.rs",
        "crates/serial_engines/src/lsm/file/run.rs",
        "crates/storage/src/log/nv_write_set/list.rs",
        "crates/storage/src/log/nv_write_set/recovery.rs",
        "crates/torture/src/",
        "crates/measure/src/chunks.rs",
        "crates/measure/src/static_",
    ];
    by_line(files, |file, line| {
        let durable = line.code.contains(".fence(") || line.code.contains(".sync(");
        let known = carriers.iter().any(|start| file.path.starts_with(start))
            || PROTOCOLS.iter().any(|(_, path)| file.path == *path);
        let found = durable && !known && !line.in_test && line.code.contains("site!(");
        found
            .then(|| "a durable step of an unknown protocol; name its file in PROTOCOLS".to_owned())
    })
}

fn no_paths_of_one_machine(files: &[Source]) -> Vec<String> {
    let starts = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
    ];
    let mut findings = Vec::new();
    for file in files {
        for line in &file.lines {
            let found = starts.iter().any(|start| {
                line.text.match_indices(start).any(|(at, _)| {
                    !line.text[..at].ends_with(|letter: char| {
                        letter.is_alphanumeric() || ".-_/".contains(letter)
                    })
                })
            });
            if found {
                findings.push(finding(
                    file,
                    line.number,
                    "a path of one machine; make it relative or an option",
                ));
            }
        }
    }
    findings
}

fn names_say_what_things_do(files: &[Source]) -> Vec<String> {
    let ends = ["_inner", "_helper", "_impl"];
    by_line(files, |file, line| {
        // In a tree, an inner node is a thing.
        let is_tree = file.path.starts_with("crates/serial_engines/src/index/");
        let word = words(&line.code)
            .filter(|word| !(is_tree && word.ends_with("_inner")))
            .find(|word| {
                let stem = word.trim_end_matches(|digit: char| digit.is_ascii_digit());
                !["into_inner", "set_helper"].contains(word)
                    && ends.iter().any(|end| stem.ends_with(end))
            })?;
        Some(format!("`{word}`; name what it does, not where it stands"))
    })
}

fn dependencies_say_what_they_save(files: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for root in files.iter().filter(|file| file.path == "Cargo.toml") {
        let mut inside = false;
        for pair in root.lines.windows(2) {
            let text = pair[1].text.trim();
            inside = if text.starts_with('[') {
                text == "[workspace.dependencies]"
            } else {
                inside
            };
            let is_foreign =
                text.contains('=') && !text.contains("path =") && !text.starts_with('#');
            let name = pair[0].text.split([' ', '.']).next().unwrap_or("");
            let is_companion = !name.is_empty() && text.starts_with(&format!("{name}_"));
            if inside && is_foreign && !pair[0].text.starts_with('#') && !is_companion {
                findings.push(finding(
                    root,
                    pair[1].number,
                    "a dependency without a sentence above it that says what it saves",
                ));
            }
        }
    }
    for file in files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
    {
        let has_lints = file
            .lines
            .windows(2)
            .any(|pair| pair[0].text == "[lints]" && pair[1].text == "workspace = true");
        let is_member = file.path.starts_with("crates/") || file.path.starts_with("tests/");
        if is_member && !has_lints {
            findings.push(finding(file, 1, "no `[lints] workspace = true`"));
        }
    }
    findings
}

/// Rules of Rust files, each with a file that breaks it.
const RUST_RULES: &[(Rule, &str, &str)] = &[
    (
        arrows_between_folders,
        "crates/storage/src/record/row.rs",
        "use crate::log::Lsn;",
    ),
    (
        arrows_between_folders,
        "crates/storage/src/log/wal.rs",
        "use crate::engine::EngineOptions;",
    ),
    (
        files_have_headers,
        "crates/pmem/src/ptr.rs",
        "//! One line.\nstruct NvPtr;",
    ),
    (
        every_file_is_in_the_module_tree,
        "crates/pmem/src/old.rs",
        "//! Nobody names it.",
    ),
    (
        no_test_is_switched_off,
        "crates/pmem/tests/heap.rs",
        "#[ignore]\nfn slow() {}",
    ),
    (
        no_code_in_comments,
        "crates/pmem/src/ptr.rs",
        "// let old = pointer.offset();",
    ),
    (
        unsafe_stays_in_its_room,
        "crates/disk/src/native.rs",
        "let x = unsafe { y() };",
    ),
    (
        no_unwrap_outside_of_tests,
        "crates/disk/src/native.rs",
        "fn f() { g().unwrap(); }",
    ),
    (
        sites_have_unique_names,
        "crates/pmem/src/pool.rs",
        "a(site!(\"x.y\"));\nb(site!(\"x.y\"));",
    ),
    (
        protocols_name_their_commit_point,
        "crates/pmem/src/pool.rs",
        "memory.fence(site)?;",
    ),
    (
        durable_steps_belong_to_a_protocol,
        "crates/cli/src/new.rs",
        "m.fence(site!(\"a.b\"))?;",
    ),
    (
        no_database_transfers_directly,
        "crates/indelible/src/platform.rs",
        "NativeDirectory::open(path, IoMode::Direct)",
    ),
    (
        names_say_what_things_do,
        "crates/disk/src/native.rs",
        "fn write_helper2() {}",
    ),
];

/// Rules of all files, each with a file that breaks it.
const TEXT_RULES: &[(Rule, &str, &str)] = &[
    (
        arrows_between_rooms,
        "crates/disk/Cargo.toml",
        "[dependencies]\nstorage.workspace = true",
    ),
    (
        nothing_is_left_to_do_in_comments,
        "docs/a.md",
        concat!("- TO", "DO: the rest"),
    ),
    (
        no_paths_of_one_machine,
        "docs/a.md",
        concat!("see /ho", "me/somebody/notes"),
    ),
    (
        dependencies_say_what_they_save,
        "Cargo.toml",
        "\n[workspace.dependencies]\n\nserde = \"1\"",
    ),
];

/// The findings of the rules; a rule that is listed twice reports once.
fn broken(rules: &[(Rule, &str, &str)], files: &[Source]) -> BTreeSet<String> {
    rules.iter().flat_map(|(rule, ..)| rule(files)).collect()
}

#[test]
fn the_tree_keeps_the_rules() {
    let (sources, texts) = (rust_files(), text_files());
    let mut findings = broken(RUST_RULES, &sources);
    findings.extend(broken(TEXT_RULES, &texts));
    findings.extend(files_are_short(&sources));
    findings.extend(rooms_are_small(&sources));
    findings.extend(engines_do_not_use_each_other(&sources));
    findings.extend(import_cycles_are_short(&sources));
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn every_rule_can_fail() {
    for (rule, path, text) in RUST_RULES.iter().chain(TEXT_RULES) {
        let files = [Source::parse(path, text)];
        assert!(
            rule(&files).iter().any(|found| found.starts_with(path)),
            "{path}: {text}"
        );
    }
    let long = Source::parse(
        "crates/pmem/src/long.rs",
        &"fn f() {}\n".repeat(CODE_LINES_MAX + 1),
    );
    assert_eq!(files_are_short(&[long]).len(), 1);
    let large = Source::parse(
        "crates/pmem/src/all.rs",
        &"fn f() {}\n".repeat(ROOM_LINES_MAX + 1),
    );
    assert_eq!(rooms_are_small(&[large]).len(), 1);
    let folder = "crates/serial_engines/src/engine";
    let engines = [
        Source::parse(&format!("{folder}/cow.rs"), "use super::in_place::InPlace;"),
        Source::parse(&format!("{folder}/in_place.rs"), "struct InPlace;"),
    ];
    assert_eq!(engines_do_not_use_each_other(&engines).len(), 1);
    let names = ["a", "b", "c", "d"];
    let circle: Vec<Source> = names
        .iter()
        .zip(names.iter().cycle().skip(1))
        .map(|(own, next)| {
            let text = format!("use crate::{{self as room, {next}::Next}};");
            Source::parse(&format!("crates/pmem/src/{own}.rs"), &text)
        })
        .collect();
    assert_eq!(import_cycles_are_short(&circle).len(), 1);
    assert!(import_cycles_are_short(&circle[1..]).is_empty());
}
