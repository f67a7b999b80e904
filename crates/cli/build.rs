//! Tells the program which commit it was built from, and by which compiler, for the rows of its
//! reports.
//!
//! Asks git; where there is no git or no repository (a source archive), the commit is `unknown`. A
//! tree with uncommitted changes is marked with a plus, because its rows cannot be reproduced from
//! the commit alone. The workspace `rivals` includes this file.

use std::process::Command;

pub(crate) fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|status| !status.is_empty());
    let mark = if changed && commit != "unknown" {
        "+"
    } else {
        ""
    };
    println!("cargo::rustc-env=INDELIBLE_COMMIT={commit}{mark}");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(compiler).arg("--version"));
    let version = version.unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=INDELIBLE_COMPILER={version}");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        // The log of HEAD grows with every commit and checkout, unlike HEAD itself.
        for file in ["HEAD", "logs/HEAD", "index"] {
            let path = std::path::Path::new(&directory).join(file);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
            }
        }
    }
    // An edit makes the tree differ from its commit without touching the files of git.
    if let Some(root) = git(&["rev-parse", "--show-toplevel"]) {
        let crates = std::fs::read_dir(std::path::Path::new(&root).join("crates"));
        for room in crates.into_iter().flatten().flatten() {
            println!(
                "cargo::rerun-if-changed={}",
                room.path().join("src").display()
            );
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// Output of git, trimmed; `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    output(Command::new("git").args(arguments))
}

/// Output of a command, trimmed; `None` if it fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    if !output.status.success() {
        return None;
    }
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
