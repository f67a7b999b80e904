//! How a command fails: with a sentence that names the thing and the remedy, and an exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the command failed; of `verify`: damage was found; of `torture`: a wrong image was found |
//! | 2 | the command line cannot be used; of `verify`: the check could not be made |

use crate::printable::printable_lines;
use crate::streams;
use server::config::ConfigError;
use std::fmt;
use std::io::ErrorKind;

/// Exit code of a failed command.
pub(crate) const FAILED: u8 = 1;
/// Exit code of a command line that cannot be used, and of a check that could not be made.
pub(crate) const UNUSABLE: u8 = 2;

/// A command line that the parser accepts and that still makes no sense.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// An error with a sentence that names the fault and a correct choice.
    pub(crate) fn error(sentence: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(sentence.into()))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Whether a command has done its work when it begins to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It has changed something or written a file, and prints a report of that.
    Done,
    /// Printing is its work, or part of it, for a reader who may have seen enough.
    Printing,
    /// It prints data that are of use only if they are whole.
    Data,
}

/// Tells the user how a command failed, and returns the exit code. A reader of the output that goes
/// away, like `head`, ends the command without a word, unless it was to get a whole copy of data.
pub(crate) fn tell(error: &anyhow::Error, work: Work) -> u8 {
    let refusal = streams::refusal(error);
    if refusal == Some(ErrorKind::BrokenPipe) {
        if work != Work::Data {
            return 0;
        }
        streams::tell(
            "indelible: the reader of standard output has ended before it had all data: what it has is not whole",
        );
        return FAILED;
    }
    let done = match work {
        Work::Done if refusal.is_some() => {
            "; the command has done its work, only its report is lost"
        }
        _ => "",
    };
    streams::tell(&format!("indelible: {}{done}", sentence(error)));
    exit_code(error)
}

/// The exit code of an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let unusable = error.chain().any(|cause| {
        cause.is::<Usage>()
            || cause.is::<ConfigError>()
            || matches!(cause.downcast_ref(), Some(indelible::Error::Option { .. }))
    });
    if unusable { UNUSABLE } else { FAILED }
}

/// One sentence: the chain of causes, outermost first, without causes that their effects quote.
/// Names and values in it are data, so a terminal gets none of their control characters.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = String::new();
    for cause in error.chain().map(words) {
        if sentence.contains(&cause) {
            continue;
        }
        if !sentence.is_empty() {
            sentence.push_str(": ");
        }
        sentence.push_str(&cause);
    }
    printable_lines(&sentence).into_owned()
}

/// The words of a cause. An option of the library has the name that it has on the command line.
fn words(cause: &(dyn std::error::Error + 'static)) -> String {
    let (option, problem, remedy) = match cause.downcast_ref() {
        Some(indelible::Error::Option {
            option,
            problem,
            remedy,
        }) => (option, problem, remedy),
        Some(indelible::Error::TransactionMemory {
            used_bytes,
            limit_bytes,
        }) => {
            return format!(
                "the transaction holds {used_bytes} bytes of memory for its changes, and `--transaction-memory-max` is {limit_bytes}; \
                 raise it, or change fewer rows at once"
            );
        }
        _ => return cause.to_string(),
    };
    let name = match *option {
        "area_bytes" => "area",
        "buffer_bytes" => "pool",
        "outline_bytes" => "outlines",
        "header_images" => "header-log",
        "hint_bytes" => "hints",
        "rotation_bytes" => "rotation",
        "ring_bytes" => "ring",
        "sessions" => "threads",
        option => option,
    };
    format!("option `--{}`: {problem}; {remedy}", name.replace('_', "-"))
}
