//! Templates of `to_char` and `to_number` for numbers, taken apart.
//!
//! A template is a row of words. Each stands in capitals or in small letters throughout; anything
//! else stands for itself. Words that do not go together are an error.

use super::moment_form::{after_word, literal};
use crate::error::{Result, SqlError, SqlState};

/// A part of a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
    Nine,
    Zero,
    Point,
    Group,
    /// `S`: plus or minus where it stands.
    Sign,
    /// `MI`: minus or a blank.
    Minus,
    /// `PL`: plus or a blank.
    Plus,
    /// `SG`: plus or minus.
    Either,
    /// `PR`: angle brackets around negative numbers.
    Brackets,
    Currency,
    /// `TH` or `th`.
    Ordinal(bool),
    Literal(String),
}

impl Pattern {
    /// Its kind, as a bit.
    fn bit(&self) -> u16 {
        1 << match self {
            Self::Nine => 0,
            Self::Zero => 1,
            Self::Point => 2,
            Self::Group => 3,
            Self::Sign => 4,
            Self::Minus => 5,
            Self::Plus => 6,
            Self::Either => 7,
            Self::Brackets => 8,
            Self::Currency => 9,
            Self::Ordinal(_) => 10,
            Self::Literal(_) => 11,
        }
    }
}

#[derive(Default)]
pub(super) struct Template {
    pub(super) parts: Vec<Pattern>,
    /// Bits of the kinds of its words: a template may have so many that nobody looks through them
    /// for each.
    met: u16,
    /// `FM`: no blanks, no zeros that say nothing.
    pub(super) is_short: bool,
    /// Digits before the point.
    pub(super) whole: usize,
    /// Digits after the point.
    pub(super) fraction: usize,
    /// Digits that `V` multiplies the number by.
    pub(super) shift: Option<usize>,
    /// `EEEE`.
    pub(super) is_scientific: bool,
    /// `B` before all digits.
    is_blank: bool,
    /// `RN` or `rn`.
    pub(super) roman: Option<bool>,
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self> {
        const WORDS: &[(&str, Option<Pattern>)] = &[
            ("FM", None),
            ("EEEE", None),
            ("RN", None),
            ("TH", None),
            ("MI", Some(Pattern::Minus)),
            ("PL", Some(Pattern::Plus)),
            ("SG", Some(Pattern::Either)),
            ("PR", Some(Pattern::Brackets)),
            ("SP", None),
            ("S", Some(Pattern::Sign)),
            ("V", None),
            ("B", None),
            ("C", None),
            ("9", Some(Pattern::Nine)),
            ("0", Some(Pattern::Zero)),
            (".", Some(Pattern::Point)),
            ("D", Some(Pattern::Point)),
            (",", Some(Pattern::Group)),
            ("G", Some(Pattern::Group)),
            ("L", Some(Pattern::Currency)),
        ];
        let mut template = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let mut words = WORDS.iter();
            let found = words.find_map(|(word, part)| Some((after_word(rest, word)?, word, part)));
            if let Some((after, word, part)) = found {
                if template.is_scientific && *word != "EEEE" {
                    return Err(bad("\"EEEE\" must be the last pattern used"));
                }
                match part {
                    Some(part) => template.part(part)?,
                    None => template.word(word, rest.starts_with(char::is_uppercase))?,
                }
                rest = after;
            } else if let Some((text, after)) = literal(rest) {
                template.parts.push(Pattern::Literal(text));
                rest = after;
            }
        }
        Ok(template)
    }

    /// Takes a word that is no part, in capitals or in small letters.
    fn word(&mut self, word: &str, is_upper: bool) -> Result<()> {
        match word {
            "FM" => self.is_short = true,
            "EEEE" => self.exponent()?,
            "RN" => self.roman = Some(is_upper),
            "TH" => self.parts.push(Pattern::Ordinal(is_upper)),
            "B" => self.is_blank |= self.whole + self.fraction == 0,
            "V" if self.has(&[Pattern::Point]) => {
                return Err(bad("cannot use \"V\" and decimal point together"));
            }
            "V" => self.shift = self.shift.or(Some(0)),
            _ => {}
        }
        Ok(())
    }

    /// An exponent goes with digits and a point alone.
    fn exponent(&mut self) -> Result<()> {
        if self.is_scientific {
            return Err(bad("cannot use \"EEEE\" twice"));
        }
        let has_sign = self.has(&[Pattern::Sign, Pattern::Plus]) || self.has_minus();
        let has_other = self.is_blank || self.is_short || self.shift.is_some();
        if has_sign || has_other || self.roman.is_some() || self.has(&[Pattern::Brackets]) {
            let detail =
                "\"EEEE\" may only be used together with digit and decimal point patterns.";
            return Err(bad("\"EEEE\" is incompatible with other formats").detail(detail));
        }
        self.is_scientific = true;
        Ok(())
    }

    fn part(&mut self, part: &Pattern) -> Result<()> {
        self.check(part).map_err(|message| bad(&message))?;
        match part {
            Pattern::Nine | Pattern::Zero if self.has(&[Pattern::Point]) => self.fraction += 1,
            Pattern::Nine | Pattern::Zero => self.whole += 1,
            _ => {}
        }
        if *part == Pattern::Nine {
            self.shift = self.shift.map(|shift| shift + 1);
        }
        self.met |= part.bit();
        self.parts.push(part.clone());
        Ok(())
    }

    /// Fails if a part does not go with those before it.
    fn check(&self, part: &Pattern) -> Result<(), String> {
        let is_signed = self.has(&[Pattern::Sign]);
        let has_other = self.has(&[Pattern::Plus]) || self.has_minus();
        let with_sign = |word: &str| Err(format!("cannot use \"S\" and \"{word}\" together"));
        let message = match part {
            Pattern::Nine | Pattern::Zero if self.has(&[Pattern::Brackets]) => {
                let digit = if *part == Pattern::Nine { 9 } else { 0 };
                return Err(format!("\"{digit}\" must be ahead of \"PR\""));
            }
            Pattern::Point if self.has(&[Pattern::Point]) => "multiple decimal points",
            Pattern::Point if self.shift.is_some() => "cannot use \"V\" and decimal point together",
            Pattern::Sign if is_signed => "cannot use \"S\" twice",
            Pattern::Sign if has_other || self.has(&[Pattern::Brackets]) => {
                "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"
            }
            Pattern::Minus if is_signed => return with_sign("MI"),
            Pattern::Plus if is_signed => return with_sign("PL"),
            Pattern::Either if is_signed => return with_sign("SG"),
            Pattern::Brackets if is_signed || has_other => {
                "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"
            }
            _ => return Ok(()),
        };
        Err(message.to_owned())
    }

    fn has(&self, parts: &[Pattern]) -> bool {
        parts.iter().any(|part| self.met & part.bit() != 0)
    }

    fn has_minus(&self) -> bool {
        self.has(&[Pattern::Minus, Pattern::Either])
    }

    /// Whether the sign has a place of its own.
    pub(super) fn has_any_sign(&self) -> bool {
        self.has(&[Pattern::Sign, Pattern::Brackets]) || self.has_minus()
    }
}
