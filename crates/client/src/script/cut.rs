//! Cutting a text into statements and commands of the shell.
//!
//! A statement ends with a semicolon outside of quotes, comments and parentheses. A backslash
//! begins a command that goes to the end of its line, as does a dot where a statement would begin.
//! `\;` is a semicolon that ends nothing. Comments before a statement are left out, so that
//! positions in messages count from its first word.

use super::token::{Kind, first};

/// A text that is being cut.
pub struct Script<'a> {
    rest: &'a str,
    line: usize,
    start_line: usize,
    buffer: String,
    depth: u32,
    is_closed: bool,
}

/// A part of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A statement, without its semicolon.
    Statement(String),
    /// A command of the shell: the rest of its line, with the backslash or the dot. A statement may
    /// be under way.
    Command(&'a str),
}

impl<'a> Script<'a> {
    /// Begins with a text.
    pub fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            line: 1,
            start_line: 1,
            buffer: String::new(),
            depth: 0,
            is_closed: true,
        }
    }

    /// The line on which the last statement began, from 1.
    pub fn statement_line(&self) -> usize {
        self.start_line
    }

    /// Takes the statement that is under way. It is empty if none is.
    pub fn take_buffer(&mut self) -> String {
        self.depth = 0;
        std::mem::take(&mut self.buffer)
    }

    /// Takes the lines up to `\.`, which a `COPY ... FROM STDIN` of the script reads.
    pub fn take_copy_data(&mut self) -> &'a str {
        // The rest of the line of the statement itself.
        let start = self.rest.find('\n').map_or(self.rest.len(), |end| end + 1);
        let text = &self.rest[start..];
        let (mut length, mut taken) = (0, text.len());
        for line in text.split_inclusive('\n') {
            if line.trim_end() == "\\." {
                taken = length + line.len();
                break;
            }
            length += line.len();
        }
        self.advance(start + taken);
        &text[..length]
    }

    fn advance(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
    }

    fn command(&mut self) -> &'a str {
        let line = &self.rest[..self.rest.find('\n').unwrap_or(self.rest.len())];
        // Two backslashes end a command within its line.
        let command = &line[..line[1..].find("\\\\").map_or(line.len(), |end| end + 1)];
        self.advance(command.len());
        if self.rest.starts_with("\\\\") {
            self.advance(2);
        }
        command.trim_end()
    }
}

impl<'a> Iterator for Script<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        while let Some(token) = first(self.rest) {
            let is_empty = self.buffer.is_empty();
            self.is_closed = token.is_closed;
            match (token.kind, token.text) {
                (Kind::Blank | Kind::Comment, _) if is_empty && token.is_closed => {
                    self.advance(token.text.len());
                    continue;
                }
                (Kind::Symbol, "\\") if self.rest.starts_with("\\;") => {
                    self.advance(2);
                    self.buffer.push(';');
                    continue;
                }
                (Kind::Symbol, "\\") => return Some(Piece::Command(self.command())),
                (Kind::Symbol, ".") if is_empty => return Some(Piece::Command(self.command())),
                (Kind::Symbol, ";") if self.depth == 0 => {
                    self.advance(1);
                    if is_empty {
                        continue;
                    }
                    return Some(Piece::Statement(self.take_buffer()));
                }
                (Kind::Symbol, "(" | "[") => self.depth += 1,
                (Kind::Symbol, ")" | "]") => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if is_empty {
                self.start_line = self.line;
            }
            self.buffer.push_str(token.text);
            self.advance(token.text.len());
        }
        None
    }
}

/// Whether a text ends outside of a statement.
pub fn is_complete(text: &str) -> bool {
    let mut script = Script::new(text);
    while script.next().is_some() {}
    script.is_closed && script.buffer.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let pieces = Script::new(text).map(|piece| match piece {
            Piece::Statement(text) => text,
            Piece::Command(text) => format!("command {text}"),
        });
        pieces.collect()
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
        assert_eq!(script.next(), Some(Piece::Command("\\set x 1")));
        assert_eq!(script.next(), Some(Piece::Command(".tables")));
        assert_eq!(script.next(), Some(Piece::Command("\\gset")));
        assert_eq!(script.take_buffer(), "select 1 ");
        assert_eq!(script.statement_line(), 3);
        assert_eq!(
            script.next(),
            Some(Piece::Statement("select .5".to_owned()))
        );
        assert_eq!(script.next(), Some(Piece::Command("\\echo a")));
        assert_eq!(script.next(), Some(Piece::Statement("select 2".to_owned())));
        assert_eq!(script.next(), None);
    }

    #[test]
    fn data_of_a_copy_stand_between_statements() {
        let mut script = Script::new("copy t from stdin;\n1\t;\n2\n\\.\nselect 1;");
        assert_eq!(
            script.next(),
            Some(Piece::Statement("copy t from stdin".to_owned()))
        );
        assert_eq!(script.take_copy_data(), "1\t;\n2\n");
        assert_eq!(script.next(), Some(Piece::Statement("select 1".to_owned())));
        assert_eq!(script.statement_line(), 5);
        let mut script = Script::new("copy t from stdin;");
        script.next();
        assert_eq!(script.take_copy_data(), "");
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
        ] {
            assert!(!is_complete(text), "{text}");
        }
    }
}
