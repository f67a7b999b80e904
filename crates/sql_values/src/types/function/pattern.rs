//! SIMILAR TO and regular expressions.
//!
//! Regular expressions are PostgreSQL's advanced ones, rewritten for the crate `regex`; SIMILAR TO
//! is rewritten to one of these first, as PostgreSQL does. The crate has neither back references
//! nor constraints on what surrounds a match, which are errors; of several alternatives it takes
//! the first that matches, where PostgreSQL takes the longest.

use super::super::text_io::append;
use super::like::{Case, escape_character};
use crate::error::{Result, SqlError, SqlState};
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Small expressions that a thread keeps compiled.
const CACHE_MAX: usize = 64;
/// Bytes that a small compiled expression takes at most.
const SMALL_BYTES_MAX: usize = 256 << 10;
/// Bytes of each of the two tables that searches of a small one fill.
const SMALL_TABLE_BYTES_MAX: usize = 1 << 20;
/// Bytes that a compiled expression may take.
const COMPILED_BYTES_MAX: usize = 16 << 20;

/// The regular expression of a SIMILAR TO pattern. Two escaped quotes divide it into three parts,
/// of which `substring` returns the second.
pub fn similar(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_character(escape)?;
    let mut out = String::from("^(?:");
    let mut quotes = 0;
    let mut in_bracket = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape && escape.is_some() {
            match characters.next() {
                Some('"') if !in_bracket => {
                    out.push_str(match quotes {
                        0 => "){1,1}?(",
                        1 => "){1,1}(?:",
                        _ => {
                            return Err(SqlError::new(
                                SqlState::NONSTANDARD_USE_OF_ESCAPE_CHARACTER,
                                "SQL regular expression may not contain more than two escape-double-quote separators",
                            ));
                        }
                    });
                    quotes += 1;
                }
                Some(escaped) => {
                    out.push('\\');
                    out.push(escaped);
                }
                None => {}
            }
            continue;
        }
        match character {
            _ if in_bracket => {
                if character == '\\' {
                    out.push('\\');
                }
                out.push(character);
                in_bracket = character != ']';
            }
            '[' => {
                in_bracket = true;
                out.push('[');
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out.push_str(")$");
    Ok(out)
}

/// The options of an expression.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own in PostgreSQL's texts of flags"
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// `i` or `c`.
    pub case: Case,
    /// `n`: a point and negated classes do not match the end of a line.
    stops_at_lines: bool,
    /// `w`: `^` and `$` match at lines.
    anchors_at_lines: bool,
    is_expanded: bool,
    is_literal: bool,
    /// `g`: all matches count, not the first alone.
    pub is_global: bool,
}

impl Options {
    /// The options without flags.
    pub const fn new(case: Case) -> Self {
        Self {
            case,
            stops_at_lines: false,
            anchors_at_lines: false,
            is_expanded: false,
            is_literal: false,
            is_global: false,
        }
    }

    /// The options of a function's flags.
    pub fn parse(flags: &str) -> Result<Self> {
        let mut options = Self::new(Case::Sensitive);
        for flag in flags.chars() {
            match flag {
                'g' => options.is_global = true,
                other if options.set(other) => {}
                other => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("invalid regular expression option: \"{other}\""),
                    ));
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, flag: char) -> bool {
        match flag {
            'i' => self.case = Case::Insensitive,
            'c' => self.case = Case::Sensitive,
            'n' | 'm' => {
                self.stops_at_lines = true;
                self.anchors_at_lines = true;
            }
            's' => {
                self.stops_at_lines = false;
                self.anchors_at_lines = false;
            }
            'p' => {
                self.stops_at_lines = true;
                self.anchors_at_lines = false;
            }
            'w' => {
                self.stops_at_lines = false;
                self.anchors_at_lines = true;
            }
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'q' => self.is_literal = true,
            'b' | 'e' => {}
            _ => return false,
        }
        true
    }
}

type Key = (String, Options);

/// Expressions that a thread has compiled.
#[derive(Default)]
struct Cache {
    small: HashMap<Key, Rc<Regex>>,
    /// The large one that was used last.
    large: Option<(Key, Rc<Regex>)>,
}

impl Cache {
    fn get(&self, key: &Key) -> Option<&Rc<Regex>> {
        let large = self.large.as_ref();
        let large = large.filter(|(known, _)| known == key);
        self.small.get(key).or(large.map(|(_, regex)| regex))
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// The compiled expression; a thread keeps those that it used, of large ones the last. It is
/// shared, as the tables of a copy would be empty.
pub fn compile(pattern: &str, options: Options) -> Result<Rc<Regex>> {
    let key = (pattern.to_owned(), options);
    let cached = CACHE.with_borrow(|cache| cache.get(&key).cloned());
    if let Some(regex) = cached {
        return Ok(regex);
    }
    let builder = builder(pattern, options)?;
    let small = builder
        .clone()
        .size_limit(SMALL_BYTES_MAX)
        .dfa_size_limit(SMALL_TABLE_BYTES_MAX)
        .build();
    if let Ok(regex) = small {
        let regex = Rc::new(regex);
        CACHE.with_borrow_mut(|cache| {
            if cache.small.len() >= CACHE_MAX {
                cache.small.clear();
            }
            cache.small.insert(key, Rc::clone(&regex));
        });
        return Ok(regex);
    }
    let regex = builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => invalid("regular expression is too complex"),
        other => invalid(reason(&other.to_string())),
    })?;
    let regex = Rc::new(regex);
    CACHE.with_borrow_mut(|cache| cache.large = Some((key, Rc::clone(&regex))));
    Ok(regex)
}

fn builder(pattern: &str, mut options: Options) -> Result<RegexBuilder> {
    let mut body = pattern;
    if let Some(rest) = body.strip_prefix("***=") {
        options.is_literal = true;
        body = rest;
    } else if let Some(rest) = body.strip_prefix("***:") {
        body = rest;
    }
    if !options.is_literal
        && let Some(rest) = body.strip_prefix("(?")
        && let Some((flags, rest)) = rest.split_once(')')
        && flags.chars().all(|flag| flag.is_ascii_lowercase())
    {
        for flag in flags.chars() {
            if !options.set(flag) {
                return Err(invalid("invalid embedded option"));
            }
        }
        body = rest;
    }
    let translated = if options.is_literal {
        regex::escape(body)
    } else {
        Translator::new(body, options).run()?
    };
    let mut builder = RegexBuilder::new(&translated);
    builder
        .case_insensitive(options.case == Case::Insensitive)
        .dot_matches_new_line(!options.stops_at_lines)
        .multi_line(options.anchors_at_lines)
        .ignore_whitespace(options.is_expanded)
        .size_limit(COMPILED_BYTES_MAX);
    Ok(builder)
}

/// PostgreSQL's word for the crate's complaint.
fn reason(message: &str) -> &'static str {
    const REASONS: &[(&str, &str)] = &[
        ("unclosed group", "parentheses () not balanced"),
        ("unopened group", "parentheses () not balanced"),
        ("unclosed character class", "brackets [] not balanced"),
        ("invalid character class range", "invalid character range"),
        (
            "repetition operator missing expression",
            "quantifier operand invalid",
        ),
        (
            "invalid repetition count range",
            "invalid repetition count(s)",
        ),
        (
            "repetition quantifier expects",
            "invalid repetition count(s)",
        ),
        ("unclosed counted repetition", "braces {} not balanced"),
        ("unrecognized escape sequence", "invalid escape \\ sequence"),
        ("incomplete escape sequence", "invalid escape \\ sequence"),
        ("ASCII class", "invalid character class"),
    ];
    let found = REASONS.iter().find(|(theirs, _)| message.contains(theirs));
    found.map_or("invalid regexp", |(_, ours)| ours)
}

fn invalid(reason: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_REGULAR_EXPRESSION,
        format!("invalid regular expression: {reason}"),
    )
}

/// Rewrites PostgreSQL's syntax to that of the crate.
struct Translator<'p> {
    characters: std::iter::Peekable<std::str::Chars<'p>>,
    out: String,
    options: Options,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str, options: Options) -> Self {
        Self {
            characters: pattern.chars().peekable(),
            out: String::with_capacity(pattern.len()),
            options,
        }
    }

    fn run(mut self) -> Result<String> {
        // Whether something stands before that may be repeated: neither the start of a branch, nor
        // a constraint, nor another quantifier.
        let mut may_repeat = false;
        while let Some(character) = self.characters.next() {
            may_repeat = match character {
                '\\' => self.escape()?,
                '[' => self.bracket()?,
                '(' => {
                    self.group()?;
                    false
                }
                '|' | '^' | '$' => {
                    self.out.push(character);
                    false
                }
                // A brace that begins no count stands for itself.
                '{' if !self.characters.peek().is_some_and(char::is_ascii_digit) => {
                    self.out.push_str("\\{");
                    true
                }
                '}' => {
                    self.out.push_str("\\}");
                    true
                }
                '*' | '+' | '?' | '{' if !may_repeat => {
                    return Err(invalid("quantifier operand invalid"));
                }
                '*' | '+' | '?' | '{' => {
                    self.quantifier(character);
                    false
                }
                blank if self.options.is_expanded && blank.is_whitespace() => {
                    self.out.push(blank);
                    may_repeat
                }
                '#' if self.options.is_expanded => {
                    self.out.push('#');
                    let line = self.characters.by_ref().take_while(|next| *next != '\n');
                    self.out.extend(line);
                    self.out.push('\n');
                    may_repeat
                }
                other => {
                    self.out.push(other);
                    true
                }
            };
        }
        Ok(self.out)
    }

    /// A quantifier, and the `?` that makes it take as little as it can.
    fn quantifier(&mut self, first: char) {
        self.out.push(first);
        if first == '{' {
            let is_count = |next: &char| next.is_ascii_digit() || *next == ',';
            while let Some(next) = self.characters.next_if(is_count) {
                self.out.push(next);
            }
            self.out.extend(self.characters.next_if_eq(&'}'));
        }
        self.out.extend(self.characters.next_if_eq(&'?'));
    }

    fn group(&mut self) -> Result<()> {
        self.out.push('(');
        if self.characters.peek() != Some(&'?') {
            return Ok(());
        }
        self.characters.next();
        match self.characters.next() {
            Some(':') => self.out.push_str("?:"),
            Some('=' | '!' | '<') => {
                return Err(SqlError::unsupported(
                    "a regular expression with lookahead or lookbehind",
                    "Match the surroundings with groups, or use several conditions.",
                ));
            }
            Some('#') => {
                for skipped in self.characters.by_ref() {
                    if skipped == ')' {
                        break;
                    }
                }
                self.out.push_str("?:)");
            }
            _ => return Err(invalid("quantifier operand invalid")),
        }
        Ok(())
    }

    /// An escape; false if it is a constraint, which cannot be repeated.
    fn escape(&mut self) -> Result<bool> {
        let Some(character) = self.characters.next() else {
            return Err(invalid("invalid escape \\ sequence"));
        };
        let (replacement, may_repeat) = match character {
            'm' => ("\\b{start}", false),
            'M' => ("\\b{end}", false),
            'y' => ("\\b", false),
            'Y' => ("\\B", false),
            'A' => ("\\A", false),
            'Z' => ("\\z", false),
            'd' => ("[0-9]", true),
            'D' => ("[^0-9]", true),
            'w' | 'W' | 's' | 'S' => {
                self.out.push('\\');
                self.out.push(character);
                return Ok(true);
            }
            _ => return self.character_escape(character, false).map(|()| true),
        };
        self.out.push_str(replacement);
        Ok(may_repeat)
    }

    /// An escape that stands for one character.
    fn character_escape(&mut self, character: char, in_bracket: bool) -> Result<()> {
        let meant = match character {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0' => '\0',
            'c' => {
                let control = self.characters.next().map(|c| (c as u8 & 0x1f) as char);
                control.ok_or_else(|| invalid("invalid escape \\ sequence"))?
            }
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            'x' => self.code(usize::MAX)?,
            '1'..='9' if !in_bracket => {
                return Err(SqlError::unsupported(
                    "a regular expression with back references",
                    "Compare the parts of regexp_match instead.",
                ));
            }
            other if other.is_ascii_alphanumeric() => {
                return Err(invalid("invalid escape \\ sequence"));
            }
            other => other,
        };
        self.literal(meant);
        Ok(())
    }

    fn code(&mut self, digits_max: usize) -> Result<char> {
        let mut code = 0_u32;
        let mut count = 0;
        while count < digits_max
            && let Some(digit) = self.characters.peek().and_then(|c| c.to_digit(16))
        {
            code = code.wrapping_mul(16).wrapping_add(digit);
            count += 1;
            self.characters.next();
        }
        let is_complete = count == digits_max || (digits_max == usize::MAX && count > 0);
        char::from_u32(code)
            .filter(|_| is_complete)
            .ok_or_else(|| invalid("invalid escape \\ sequence"))
    }

    /// Appends a character that stands for itself.
    fn literal(&mut self, character: char) {
        let is_special = character.is_ascii_punctuation() || character.is_whitespace();
        if is_special {
            self.out.push('\\');
        }
        if is_special && character.is_whitespace() && character != ' ' {
            // The crate has no escape of a blank other than its code.
            append(&mut self.out, format_args!("x{{{:x}}}", character as u32));
        } else {
            self.out.push(character);
        }
    }

    /// An expression in brackets; false if it is a constraint.
    fn bracket(&mut self) -> Result<bool> {
        if self.word_boundary() {
            return Ok(false);
        }
        self.out.push('[');
        if self.characters.next_if_eq(&'^').is_some() {
            self.out.push('^');
            if self.options.stops_at_lines {
                self.out.push_str("\\n");
            }
        }
        // A bracket right at the start stands for itself.
        if self.characters.next_if_eq(&']').is_some() {
            self.out.push_str("\\]");
        }
        loop {
            let Some(character) = self.characters.next() else {
                return Err(invalid("brackets [] not balanced"));
            };
            match character {
                ']' => {
                    self.out.push(']');
                    return Ok(true);
                }
                '[' => match self.characters.peek() {
                    Some(':') => self.class()?,
                    Some('.' | '=') => self.element()?,
                    _ => self.out.push_str("\\["),
                },
                '\\' => {
                    let Some(escaped) = self.characters.next() else {
                        return Err(invalid("invalid escape \\ sequence"));
                    };
                    match escaped {
                        'd' => self.out.push_str("0-9"),
                        'D' | 'w' | 'W' | 's' | 'S' => {
                            self.out.push('\\');
                            self.out.push(escaped);
                        }
                        other => self.character_escape(other, true)?,
                    }
                }
                '-' => self.out.push('-'),
                // Two of these in a row would be an operation on sets.
                '&' | '~' | '^' | ' ' | '#' => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                other => self.out.push(other),
            }
        }
    }

    /// `[[:<:]]` and `[[:>:]]`.
    fn word_boundary(&mut self) -> bool {
        let rest: String = self.characters.clone().take(6).collect();
        let boundary = match rest.as_str() {
            "[:<:]]" => "\\b{start}",
            "[:>:]]" => "\\b{end}",
            _ => return false,
        };
        self.out.push_str(boundary);
        self.characters.nth(5);
        true
    }

    fn class(&mut self) -> Result<()> {
        self.characters.next();
        let mut name = String::new();
        while let Some(character) = self.characters.next_if(|c| *c != ':') {
            name.push(character);
        }
        self.characters.next();
        if self.characters.next() != Some(']') {
            return Err(invalid("invalid character class"));
        }
        self.out.push_str(match name.as_str() {
            "alnum" => "\\p{L}\\p{N}",
            "alpha" => "\\p{L}",
            "blank" => " \\t",
            "cntrl" => "\\p{Cc}",
            "digit" => "0-9",
            "graph" => "\\p{L}\\p{N}\\p{P}\\p{S}",
            "lower" => "\\p{Ll}",
            "print" => "\\p{L}\\p{N}\\p{P}\\p{S} ",
            "punct" => "!-/:-@\\[-`{-~",
            "space" => "\\s",
            "upper" => "\\p{Lu}",
            "xdigit" => "0-9A-Fa-f",
            "word" => "\\w",
            _ => return Err(invalid("invalid character class")),
        });
        Ok(())
    }

    /// `[.x.]` and `[=x=]` of one character.
    fn element(&mut self) -> Result<()> {
        let mark = self.characters.next();
        let element = self.characters.next();
        let ends = (self.characters.next(), self.characters.next());
        match element {
            Some(element) if ends == (mark, Some(']')) => {
                self.literal(element);
                Ok(())
            }
            _ => Err(invalid("invalid collating element")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_rewritten() {
        let matches = |pattern: &str, text: &str| {
            let regex = compile(pattern, Options::new(Case::Sensitive)).expect(pattern);
            regex.is_match(text)
        };
        assert!(matches("^[[:alpha:]_]+$", "ab_c"));
        assert!(matches("\\mfoo\\M", "a foo b"));
        assert!(!matches("\\mfoo\\M", "afoob"));
        assert!(matches("a{2}b{c", "aab{c"));
        assert!(matches("[]a]+", "a]"));
        assert!(matches("(?i)ABC", "abc"));
        assert!(matches("***=a.b", "a.b"));
        assert!(!matches("***=a.b", "axb"));
        assert!(matches("a.b", "a\nb"));
        assert!(compile("(a)\\1", Options::new(Case::Sensitive)).is_err());
        assert!(compile("*a", Options::new(Case::Sensitive)).is_err());
    }

    /// Large expressions took 16 MiB each, for as long as their thread lived.
    #[test]
    fn of_large_expressions_the_last_is_kept() {
        let options = Options::new(Case::Sensitive);
        CACHE.take();
        compile("^a+$", options).expect("it is small");
        for times in 20..24 {
            compile(&format!("\\w{{{times}}}"), options).expect("it is not too large");
        }
        CACHE.with_borrow(|cache| {
            let small: Vec<&str> = cache.small.keys().map(|(text, _)| text.as_str()).collect();
            let large = cache.large.as_ref().map(|((text, _), _)| text.as_str());
            assert_eq!((small.as_slice(), large), (&["^a+$"][..], Some("\\w{23}")));
        });
    }
}
