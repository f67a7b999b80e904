//! Script files: commands with the output that they must have.
//!
//! A script is a list of blocks. A block is some command lines, a line `---`, and the expected
//! output up to an empty line. Lines that begin with `#` among the commands are comments. A block
//! whose commands print nothing says `ok`.
//!
//! With `UPDATE_SCRIPTS=1` the runners write their findings into the files instead of comparing;
//! the difference is then read before it is committed, because a changed golden file is a changed
//! promise.

use crate::source;
use std::fs;
use std::path::{Path, PathBuf};

/// One script file.
pub struct Script {
    /// Where it is.
    pub path: PathBuf,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
}

/// Commands and their output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Lines, comments included.
    pub commands: Vec<String>,
    /// Lines.
    pub output: Vec<String>,
}

impl Script {
    /// Reads a script.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let mut blocks = Vec::new();
        let mut commands = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line == "---" {
                let output = lines.by_ref().take_while(|line| !line.is_empty());
                let output = output.map(str::to_owned).collect();
                let commands = std::mem::take(&mut commands);
                blocks.push(Block { commands, output });
            } else if !line.trim().is_empty() || !commands.is_empty() {
                commands.push(line.to_owned());
            }
        }
        if commands.is_empty() {
            return Ok(Self {
                path: path.to_owned(),
                blocks,
            });
        }
        Err(format!(
            "{}: the last commands have no `---` behind them",
            path.display()
        ))
    }

    /// The script's text with these outputs, one for each block.
    pub fn render(&self, outputs: &[Vec<String>]) -> String {
        let mut blocks = Vec::new();
        for (block, output) in self.blocks.iter().zip(outputs) {
            let mut lines = block.commands.clone();
            lines.push("---".to_owned());
            lines.extend(output.iter().cloned());
            blocks.push(lines.join("\n"));
        }
        format!("{}\n", blocks.join("\n\n"))
    }

    /// The first difference to the expected output, as text for a failed test.
    pub fn difference(&self, outputs: &[Vec<String>]) -> Option<String> {
        let pairs = self.blocks.iter().zip(outputs);
        let (block, found) = pairs
            .into_iter()
            .find(|(block, found)| block.output != **found)?;
        Some(format!(
            "{}\n{}\nexpected:\n  {}\nfound:\n  {}",
            self.path.display(),
            block.commands.join("\n"),
            block.output.join("\n  "),
            found.join("\n  ")
        ))
    }
}

impl Block {
    /// The command lines without comments.
    pub fn statements(&self) -> impl Iterator<Item = &str> {
        let lines = self.commands.iter().map(|line| line.trim());
        lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
    }
}

/// The scripts in a folder of `crates/storage/testscripts`, by name.
pub fn scripts(folder: &str) -> Result<Vec<Script>, String> {
    let root = source::root().join("crates/storage/testscripts");
    let path = root.join(folder);
    let entries =
        fs::read_dir(&path).map_err(|error| format!("cannot list {}: {error}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files.iter().map(|file| Script::read(file)).collect()
}

/// Whether the files shall be rewritten.
pub fn update_wanted() -> bool {
    std::env::var_os("UPDATE_SCRIPTS").is_some_and(|value| value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_read_back() {
        let text = "# one\nbegin\n---\nok\n\nscan t\n---\n1\n2\n";
        let script = Script::parse(Path::new("a.txt"), text).unwrap();
        assert_eq!(script.blocks[0].statements().collect::<Vec<_>>(), ["begin"]);
        let outputs: Vec<_> = script
            .blocks
            .iter()
            .map(|block| block.output.clone())
            .collect();
        assert_eq!(script.render(&outputs), text);
        assert_eq!(script.difference(&outputs), None);
        let other = [vec!["ok".to_owned()], vec!["1".to_owned()]];
        assert!(
            script
                .difference(&other)
                .is_some_and(|text| text.contains("scan t"))
        );
        assert!(Script::parse(Path::new("a.txt"), "begin\n").is_err());
    }
}
