//! The standard streams: output whose errors name it, and notes that cannot fail.
//!
//! The type of an error of standard output tells it from all others, however deep it is in the
//! chain of causes. A reader that goes away, like `head`, is no failure. A full disk under standard
//! output is one, and the error says whether the command had done its work by then.

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Buffered standard output. Bytes left in the buffer are lost unless it is flushed.
pub(crate) struct Output(BufWriter<StdoutLock<'static>>);

/// Standard output refused the data.
#[derive(Debug)]
struct Refused(io::Error);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for Refused {}

fn refused(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Refused(error))
}

/// Standard output.
pub(crate) fn output() -> Output {
    Output(BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(refused)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(refused)
    }
}

/// Writes the rest of the buffer of the standard library.
pub(crate) fn flush() -> io::Result<()> {
    io::stdout().flush().map_err(refused)
}

/// Whether standard output is shown to a person.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The kind of the error of standard output, if that is the cause of an error.
pub(crate) fn refusal(error: &anyhow::Error) -> Option<ErrorKind> {
    let io = error.chain().filter_map(|cause| {
        let io = cause.downcast_ref::<io::Error>()?;
        io.get_ref()?.is::<Refused>().then(|| io.kind())
    });
    io.last()
}

/// Prints the help or the version.
pub(crate) fn help(text: &clap::Error) -> anyhow::Result<()> {
    text.print().map_err(refused)?;
    Ok(flush()?)
}

/// Tells a person something. If standard error takes nothing, there is nobody to tell it to.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn an_error_of_standard_output_is_told_from_others() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        let other = anyhow::Error::new(full()).context("cannot write out.csv");
        assert_eq!(refusal(&other), None);
        let ours = Err::<(), _>(refused(full())).context("while printing");
        let ours = ours.unwrap_err();
        assert_eq!(refusal(&ours), Some(ErrorKind::StorageFull));
        let sentence = crate::failure::sentence(&ours);
        assert!(
            sentence.contains("cannot write to standard output: "),
            "{sentence}"
        );
    }
}
