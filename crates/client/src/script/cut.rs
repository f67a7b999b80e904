//! Cutting a text into statements and commands of the shell.
//!
//! A statement ends with a semicolon outside of quotes, comments, parentheses and the body of a
//! function between `BEGIN ATOMIC` and `END`. A backslash begins a command that goes to the next
//! backslash outside of quotes, or to the end of its line. That of a dot where a statement would
//! begin, and of commands with a text of their own, such as `\copy`, is always the whole line.
//! `\;` is a semicolon that ends nothing. Comments before a statement are left out, so that
//! positions in messages count from its first word.
//!
//! A text may come line by line. Then a statement is there as soon as its last line is, and no more
//! than a statement is in memory.

use super::token::{Kind, first, tokens};
use std::io;

/// Bytes of COPY data that are handed on at once.
const DATA_BYTES: usize = 1 << 16;

/// The next line of a text with its end; `None` after the last one.
pub type Lines<'a> = Box<dyn FnMut() -> io::Result<Option<Vec<u8>>> + 'a>;

/// A text that is being cut.
pub struct Script<'a> {
    /// The part of the text that is there, and the place in it up to which it is cut.
    text: String,
    at: usize,
    /// The lines that follow.
    lines: Option<Lines<'a>>,
    line: usize,
    /// The line on which the last statement or command began.
    start_line: usize,
    /// The line on which the statement that is under way began.
    buffer_line: usize,
    buffer: String,
    depth: u32,
    /// `BEGIN ATOMIC` of functions and `CASE` in them, whose `END` is not there yet.
    blocks: u32,
    is_closed: bool,
}

/// A part of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A statement, without its semicolon.
    Statement(String),
    /// A command of the shell: the rest of its line, with the backslash or the dot. A statement may
    /// be under way.
    Command(String),
}

/// Data of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyData {
    /// Some lines.
    Lines(Vec<u8>),
    /// The line `\.`.
    End,
    /// The end of the text.
    EndOfText,
}

impl<'a> Script<'a> {
    /// Begins with a text.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: 0,
            lines: None,
            line: 1,
            start_line: 1,
            buffer_line: 1,
            buffer: String::new(),
            depth: 0,
            blocks: 0,
            is_closed: true,
        }
    }

    /// Begins with the first of these lines. A byte order mark at its start is left out.
    pub fn of_lines(lines: Lines<'a>) -> Self {
        Self {
            lines: Some(lines),
            ..Self::new("")
        }
    }

    /// The line on which the last statement or command began, from 1.
    pub fn piece_line(&self) -> usize {
        self.start_line
    }

    /// The statement that is under way. It is empty if none is.
    pub fn buffer(&self) -> &str {
        &self.buffer
    }

    /// Takes the statement that is under way. It is empty if none is.
    pub fn take_buffer(&mut self) -> String {
        (self.depth, self.blocks) = (0, 0);
        std::mem::take(&mut self.buffer)
    }

    /// Has a text read before the rest.
    pub fn insert(&mut self, text: &str) {
        self.text.insert_str(self.at, text);
    }

    /// The next statement or command; `None` at the end, where a statement may be under way.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let token = first(&self.text[self.at..]);
            let token = token.map(|token| (token.kind, token.text.len(), token.is_closed));
            if token.is_none_or(|(.., is_closed)| !is_closed) && self.read_more()? {
                continue;
            }
            let Some((kind, length, is_closed)) = token else {
                self.start_line = self.buffer_line;
                return Ok(None);
            };
            self.is_closed = is_closed;
            if let Some(piece) = self.take_token(kind, length) {
                return Ok(Some(piece));
            }
        }
    }

    /// The next lines up to `\.`, which a `COPY ... FROM STDIN` of the script reads. The statement
    /// itself has been cut.
    pub fn copy_data(&mut self) -> io::Result<CopyData> {
        let mut data = Vec::new();
        while data.len() < DATA_BYTES {
            let Some(line) = self.data_line()? else {
                return Ok(if data.is_empty() {
                    CopyData::EndOfText
                } else {
                    CopyData::Lines(data)
                });
            };
            if line.trim_ascii_end() == b"\\." {
                if data.is_empty() {
                    return Ok(CopyData::End);
                }
                // It is read again after the lines before it.
                self.line -= 1;
                self.insert("\\.\n");
                break;
            }
            data.extend(line);
        }
        Ok(CopyData::Lines(data))
    }

    /// All lines up to `\.`, as text.
    pub fn take_copy_data(&mut self) -> io::Result<String> {
        self.skip_line();
        let mut all = Vec::new();
        while let CopyData::Lines(lines) = self.copy_data()? {
            all.extend(lines);
        }
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// Leaves the rest of the line of a statement, before its data.
    pub fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.advance(rest.find('\n').map_or(rest.len(), |end| end + 1));
    }

    fn data_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let rest = &self.text[self.at..];
        if !rest.is_empty() {
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            let line = rest.as_bytes()[..length].to_vec();
            self.advance(length);
            return Ok(Some(line));
        }
        let line = match &mut self.lines {
            Some(lines) => lines()?,
            None => None,
        };
        self.line += usize::from(line.is_some());
        Ok(line)
    }

    /// Reads lines, at least as many bytes as are there already, so that a token of many lines is
    /// looked at a few times only. False if there are none.
    fn read_more(&mut self) -> io::Result<bool> {
        let Some(lines) = &mut self.lines else {
            return Ok(false);
        };
        self.text.drain(..self.at);
        self.at = 0;
        let wanted = self.text.len() * 2;
        let mut has_read = false;
        while !has_read || self.text.len() < wanted {
            let Some(line) = lines()? else {
                break;
            };
            let is_first = self.line == 1 && self.text.is_empty() && self.buffer.is_empty();
            let Ok(line) = String::from_utf8(line) else {
                return Err(not_utf8(self.line + self.text.matches('\n').count()));
            };
            let mark = line.strip_prefix('\u{feff}').filter(|_| is_first);
            self.text.push_str(mark.unwrap_or(&line));
            has_read = true;
        }
        Ok(has_read)
    }

    fn advance(&mut self, bytes: usize) {
        let taken = &self.text[self.at..self.at + bytes];
        self.line += taken.matches('\n').count();
        self.at += bytes;
    }

    fn command(&mut self) -> Piece {
        self.start_line = self.line;
        let rest = &self.text[self.at..];
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let command = line[..command_end(line)].to_owned();
        // Two backslashes end a command within its line, and begin no other one.
        let is_separated = line[command.len()..].starts_with("\\\\");
        self.advance(command.len() + if is_separated { 2 } else { 0 });
        Piece::Command(command.trim_end().to_owned())
    }

    /// Takes the token that comes next; the piece that it completes.
    fn take_token(&mut self, kind: Kind, length: usize) -> Option<Piece> {
        let rest = &self.text[self.at..];
        let text = &rest[..length];
        let is_empty = self.buffer.is_empty();
        match (kind, text) {
            (Kind::Blank | Kind::Comment, _) if is_empty && self.is_closed => {
                self.advance(length);
                return None;
            }
            (Kind::Symbol, "\\") if rest.starts_with("\\;") => {
                self.advance(2);
                self.buffer.push(';');
                return None;
            }
            (Kind::Symbol, "\\") => return Some(self.command()),
            (Kind::Symbol, ".") if is_empty => return Some(self.command()),
            (Kind::Symbol, ";") if self.depth == 0 && self.blocks == 0 => {
                self.advance(1);
                self.start_line = self.buffer_line;
                return (!is_empty).then(|| Piece::Statement(self.take_buffer()));
            }
            (Kind::Word, word) if word.eq_ignore_ascii_case("end") => {
                self.blocks = self.blocks.saturating_sub(1);
            }
            (Kind::Word, word) if self.blocks > 0 => {
                self.blocks += u32::from(word.eq_ignore_ascii_case("case"));
            }
            (Kind::Word, word) if word.eq_ignore_ascii_case("begin") => {
                self.blocks = u32::from(makes_function(&self.buffer));
            }
            (Kind::Symbol, "(" | "[") => self.depth += 1,
            (Kind::Symbol, ")" | "]") => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if is_empty {
            self.buffer_line = self.line;
            self.start_line = self.line;
        }
        let text = &self.text[self.at..self.at + length];
        self.buffer.push_str(text);
        self.advance(length);
        None
    }
}

/// The place in a line where the command ends that it begins with.
fn command_end(line: &str) -> usize {
    let name = line[1..].find(|letter: char| letter.is_whitespace() || letter == '\\');
    let name = name.map_or(line.len(), |end| end + 1);
    let goes_to_program = line[name..].trim_start().starts_with('|');
    let is_whole = match &line[..name] {
        "\\copy" | "\\!" | "\\h" | "\\help" | "\\sf" | "\\sv" | "\\ef" | "\\ev" => true,
        "\\g" | "\\gx" | "\\o" | "\\w" => goes_to_program,
        dotted => dotted.starts_with('.'),
    };
    if is_whole {
        return line.len();
    }
    let (mut quote, mut is_escaped) = (None, false);
    for (at, letter) in line[name..].char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            None if letter == '\\' => return name + at,
            None => quote = Some(letter).filter(|letter| "'\"`".contains(*letter)),
            Some('\'') if letter == '\\' => is_escaped = true,
            Some(begun) => quote = Some(begun).filter(|begun| *begun != letter),
        }
    }
    line.len()
}

/// Whether a statement begins with `CREATE FUNCTION`.
fn makes_function(statement: &str) -> bool {
    let words = tokens(statement).filter(|token| token.kind == Kind::Word);
    let words = words.take(4).map(|token| token.text.to_ascii_lowercase());
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["create", "function" | "procedure", ..]
            | ["create", "or", "replace", "function" | "procedure"]
    )
}

fn not_utf8(line: usize) -> io::Error {
    let sentence = format!("line {line} is not UTF-8; convert it, for example with iconv");
    io::Error::new(io::ErrorKind::InvalidData, sentence)
}

/// Whether a text ends outside of a statement, or with a command.
pub fn is_complete(text: &str) -> bool {
    let mut script = Script::new(text);
    // The part of a statement that stands before a command of the shell is complete with that.
    let mut before_command = 0;
    while let Ok(Some(piece)) = script.next_piece() {
        before_command = match piece {
            Piece::Statement(statement) => {
                if reads_copy_data(&statement) && !skip_data(&mut script) {
                    return true;
                }
                0
            }
            Piece::Command(_) => script.buffer.len(),
        };
    }
    let rest = script.buffer.get(before_command..).unwrap_or("");
    script.is_closed && rest.trim().is_empty()
}

/// Leaves the data of a COPY; false if the text ends in them.
fn skip_data(script: &mut Script<'_>) -> bool {
    script.skip_line();
    loop {
        match script.copy_data() {
            Ok(CopyData::Lines(_)) => {}
            Ok(CopyData::End) => return true,
            Ok(CopyData::EndOfText) | Err(_) => return false,
        }
    }
}

/// Whether a statement is a `COPY ... FROM STDIN`.
pub fn reads_copy_data(statement: &str) -> bool {
    let words = tokens(statement).filter(|token| token.kind == Kind::Word);
    let mut words = words.map(|token| token.text.to_ascii_lowercase());
    if words.next().as_deref() != Some("copy") {
        return false;
    }
    let mut last = String::new();
    words.any(|word| {
        let is_source = last == "from" && word == "stdin";
        last = word;
        is_source
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let mut script = Script::new(text);
        let pieces = std::iter::from_fn(|| script.next_piece().unwrap());
        let pieces = pieces.map(|piece| match piece {
            Piece::Statement(text) => text,
            Piece::Command(text) => format!("command {text}"),
        });
        pieces.collect()
    }

    fn command(text: &str) -> Piece {
        Piece::Command(text.to_owned())
    }

    fn statement(text: &str) -> Piece {
        Piece::Statement(text.to_owned())
    }

    /// The lines of a text, each as it is asked for.
    fn lines(text: &'static str) -> Lines<'static> {
        let mut lines = text.split_inclusive('\n');
        Box::new(move || Ok(lines.next().map(|line| line.as_bytes().to_vec())))
    }

    #[test]
    fn semicolons_in_quotes_and_parentheses_end_nothing() {
        let text =
            "select ';';; -- no; \n create rule r as (a; b);\nselect $$;$$ ; select 1\\; select 2;";
        assert_eq!(
            cut(text),
            [
                "select ';'",
                "create rule r as (a; b)",
                "select $$;$$ ",
                "select 1; select 2"
            ]
        );
    }

    #[test]
    fn commands_go_to_the_end_of_their_line() {
        let text = "\\set x 1\n.tables\nselect 1 \\gset\nselect .5;\\echo a \\\\ select 2;";
        let mut script = Script::new(text);
        assert_eq!(script.next_piece().unwrap().unwrap(), command("\\set x 1"));
        assert_eq!(script.next_piece().unwrap().unwrap(), command(".tables"));
        assert_eq!(script.piece_line(), 2);
        assert_eq!(script.next_piece().unwrap().unwrap(), command("\\gset"));
        assert_eq!(script.take_buffer(), "select 1 ");
        assert_eq!(script.piece_line(), 3);
        assert_eq!(
            script.next_piece().unwrap().unwrap(),
            statement("select .5")
        );
        assert_eq!(script.next_piece().unwrap().unwrap(), command("\\echo a"));
        assert_eq!(script.next_piece().unwrap().unwrap(), statement("select 2"));
        assert_eq!(script.next_piece().unwrap(), None);
    }

    /// The commands after the first one of a line were its arguments, and a backslash in quotes
    /// ended a command.
    #[test]
    fn a_line_may_have_several_commands() {
        for (text, pieces) in [
            ("\\d a \\d b", vec!["command \\d a", "command \\d b"]),
            (
                "\\x\\g\\x",
                vec!["command \\x", "command \\g", "command \\x"],
            ),
            (
                "\\set a 'x\\\\y\\' z' \\echo `printf '\\n'`",
                vec![
                    "command \\set a 'x\\\\y\\' z'",
                    "command \\echo `printf '\\n'`",
                ],
            ),
            (
                "\\copy t from 'x' (delimiter E'\\t') \\\\ y\n.read a\\b",
                vec![
                    "command \\copy t from 'x' (delimiter E'\\t') \\\\ y",
                    "command .read a\\b",
                ],
            ),
            ("\\! echo \\\\ a\\b", vec!["command \\! echo \\\\ a\\b"]),
            ("\\echo it's a\\b", vec!["command \\echo it's a\\b"]),
            ("\\p\\\\select 1;", vec!["command \\p", "select 1"]),
        ] {
            assert_eq!(cut(text), pieces, "{text}");
        }
    }

    #[test]
    fn data_of_a_copy_stand_between_statements() {
        let text = "copy t from stdin;\n1\t;\n2\n\\.\nselect 1;";
        for mut script in [Script::new(text), Script::of_lines(lines(text))] {
            assert_eq!(
                script.next_piece().unwrap().unwrap(),
                statement("copy t from stdin")
            );
            script.skip_line();
            let data = CopyData::Lines(b"1\t;\n2\n".to_vec());
            assert_eq!(script.copy_data().unwrap(), data);
            assert_eq!(script.copy_data().unwrap(), CopyData::End);
            assert_eq!(script.next_piece().unwrap().unwrap(), statement("select 1"));
            assert_eq!(script.piece_line(), 5);
        }
        let mut script = Script::new("copy t from stdin;");
        script.next_piece().unwrap();
        script.skip_line();
        assert_eq!(script.copy_data().unwrap(), CopyData::EndOfText);
    }

    #[test]
    fn a_statement_is_there_with_its_last_line() {
        let mut given = 0;
        let text = [
            "\u{feff}select '\n",
            "a;\n",
            "', $$\n",
            "$$; select\n",
            "2;\n",
        ];
        let next = Box::new(|| {
            given += 1;
            Ok(text.get(given - 1).map(|line| line.as_bytes().to_vec()))
        });
        let mut script = Script::of_lines(next);
        let first = "select '\na;\n', $$\n$$";
        assert_eq!(script.next_piece().unwrap().unwrap(), statement(first));
        assert_eq!(
            script.next_piece().unwrap().unwrap(),
            statement("select\n2")
        );
        assert_eq!(script.piece_line(), 4);
        drop(script);
        assert_eq!(given, 5);
        let mut script = Script::of_lines(Box::new(|| Ok(Some(vec![0xff]))));
        let error = script.next_piece().unwrap_err().to_string();
        assert!(error.starts_with("line 1 is not UTF-8"), "{error}");
    }

    #[test]
    fn a_text_is_complete_outside_of_statements() {
        for text in [
            "",
            "select 1;",
            "\\d t",
            "  -- a\n",
            ".tables",
            "select 1; -- b",
            "select 1 \\g",
            "select 1\n\\p\n",
            "copy t from stdin;",
            "copy t from stdin;\n1\n2",
            "copy t from stdin;\n1\n\\.\nselect 1;",
        ] {
            assert!(is_complete(text), "{text}");
        }
        for text in [
            "select 1",
            "select '1;",
            "/* a",
            "select (1;",
            "select $$;",
            "select 1; select",
            "select 1 \\p\n, 2",
            "copy t from stdin;\n1\n\\.\nselect 1",
        ] {
            assert!(!is_complete(text), "{text}");
        }
    }
}
