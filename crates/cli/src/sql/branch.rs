//! `\if`, `\elif`, `\else` and `\endif`: parts of a script that run or do not.
//!
//! Commands and statements of a branch that is not taken are read and left out; only these four
//! commands count there, so branches may be in branches.

use super::shell::{Outcome, Shell};
use client::script::substitute;

/// An `\if` that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// Whether the statements that come next run.
    is_taken: bool,
    /// Whether no later branch of it is taken.
    is_decided: bool,
    has_else: bool,
}

impl Shell {
    /// Whether statements are left out.
    pub(super) fn is_skipping(&self) -> bool {
        self.blocks.last().is_some_and(|block| !block.is_taken)
    }

    /// Runs one of the four commands; none if it is another one.
    pub(super) fn branch(&mut self, line: &str, place: &str) -> Option<Outcome> {
        let (name, condition) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match name {
            "\\if" => Some(self.begin_branch(condition, place)),
            "\\elif" | "\\else" | "\\endif" => {
                let Some(mut block) = self.blocks.pop() else {
                    return Some(self.refuse(place, &format!("{name}: no matching \\if")));
                };
                if name == "\\endif" {
                    return Some(Outcome::Done);
                }
                let mut outcome = Outcome::Done;
                if block.has_else {
                    outcome = self.refuse(place, &format!("{name}: cannot occur after \\else"));
                }
                block.is_taken = !block.is_decided
                    && outcome == Outcome::Done
                    && (name == "\\else" || self.holds(condition, place, &mut outcome));
                block.is_decided |= block.is_taken;
                block.has_else |= name == "\\else";
                self.blocks.push(block);
                Some(outcome)
            }
            _ => None,
        }
    }

    fn begin_branch(&mut self, condition: &str, place: &str) -> Outcome {
        let mut outcome = Outcome::Done;
        let is_skipped = self.is_skipping();
        let is_taken = !is_skipped && self.holds(condition, place, &mut outcome);
        self.blocks.push(Branch {
            is_taken,
            is_decided: is_taken || is_skipped,
            has_else: false,
        });
        outcome
    }

    /// The value of a condition; one that is none fails, and does not hold.
    fn holds(&mut self, condition: &str, place: &str, outcome: &mut Outcome) -> bool {
        let text = substitute(condition, |name| self.variable(name)).into_owned();
        let value = truth(text.trim().trim_matches('\''));
        if value.is_none() {
            let text = text.trim();
            let sentence = format!("unrecognized value \"{text}\" for \"\\if\": Boolean expected");
            *outcome = self.refuse(place, &sentence);
        }
        value.unwrap_or(false)
    }
}

/// The truth that a word stands for.
pub(super) fn truth(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "on" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "off" | "of" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}
