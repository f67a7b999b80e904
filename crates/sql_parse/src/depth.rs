//! The nesting of a statement, bounded before a recursive parser sees it.
//!
//! Brackets, `CASE`, operators of one chain and set operations make the tree of a statement deep,
//! and walking or freeing the tree recurses. The parser bounds its own recursion, but it reads
//! chains in a loop, so a long one would overflow the stack of those after it.
//!
//! The height that is computed is never less than that of the tree: each operator adds one to the
//! highest of the operands in its brackets, in whatever order they bind.

use super::{NESTING_MAX, NESTING_SHALLOW};
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Part of the stack of an operator that a set operation takes: a third.
const SET: usize = 1;
/// An operator, a bracket, a `CASE`.
const LINK: usize = 3;
/// A query inside another one.
const QUERY: usize = 8 * LINK;
/// A query of `WITH`, which may name the one before it.
const CHAINED: usize = 2 * LINK;
const HEIGHT_MAX: usize = NESTING_MAX * LINK;
const HEIGHT_SHALLOW: usize = NESTING_SHALLOW * LINK;
/// Conditions joined by `AND` and `OR`: they are walked in a loop, and only freed one in another.
const JUNCTIONS_MAX: usize = 10_000;

/// A tree's height, and that with `AND` and `OR`.
#[derive(Clone, Copy, Default)]
struct Height {
    walked: usize,
    freed: usize,
}

impl Height {
    fn plus(self, walked: usize) -> Self {
        Self {
            walked: self.walked + walked,
            freed: self.freed + walked.div_ceil(LINK),
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            walked: self.walked.max(other.walked),
            freed: self.freed.max(other.freed),
        }
    }

    fn is_too_high(self) -> bool {
        self.walked > HEIGHT_MAX || self.freed > JUNCTIONS_MAX
    }
}

/// The statement, or what brackets or `CASE` enclose.
#[derive(Default)]
struct Level {
    is_query: bool,
    /// Set operations.
    sets: usize,
    /// Queries of its `WITH`.
    chained: usize,
    /// Whether it follows `AS`, as a query of `WITH` does.
    is_named: bool,
    /// The highest element of its list.
    elements: Height,
    /// `AND` and `OR` of this element.
    junctions: usize,
    /// The highest of the conditions that these join.
    conditions: Height,
    /// Operators since the last of them.
    links: usize,
    /// The highest brackets since then.
    brackets: Height,
    /// `BETWEEN` whose `AND` is to come.
    between: usize,
}

impl Level {
    fn new(is_named: bool) -> Self {
        Self {
            is_named,
            ..Self::default()
        }
    }

    fn condition(&self) -> Height {
        self.brackets.plus(self.links * LINK).max(self.conditions)
    }

    fn element(&self) -> Height {
        let Height { walked, freed } = self.condition();
        Height {
            walked: walked + self.junctions.min(1) * LINK,
            freed: freed + self.junctions,
        }
    }

    fn height(&self) -> Height {
        let by_others = self.sets * SET + self.chained * CHAINED;
        self.element().max(self.elements).plus(by_others)
    }

    fn weight(&self) -> usize {
        if self.is_query { LINK + QUERY } else { LINK }
    }

    fn and(&mut self) {
        if self.between > 0 {
            self.between -= 1;
        } else {
            self.junction();
        }
    }

    fn junction(&mut self) {
        self.conditions = self.condition();
        self.brackets = Height::default();
        self.links = 0;
        self.junctions += 1;
    }

    fn end_element(&mut self) {
        *self = Self {
            is_query: self.is_query,
            sets: self.sets,
            chained: self.chained,
            is_named: self.is_named,
            elements: self.element().max(self.elements),
            ..Self::default()
        };
    }
}

/// Fails if a statement is nested too deeply; true if it needs a large stack.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<bool> {
    let mut is_deep = false;
    let (mut outer, mut level) = (Vec::new(), Level::default());
    // Of the brackets that are open.
    let mut weight = 0;
    let (mut is_distinct, mut is_named) = (false, false);
    for token in tokens {
        let was_distinct = std::mem::take(&mut is_distinct);
        let was_named = std::mem::take(&mut is_named);
        let mut opens = false;
        let mut closes = false;
        match &token.token {
            Token::Whitespace(_) => (is_distinct, is_named) = (was_distinct, was_named),
            Token::LParen => opens = true,
            Token::LBracket => {
                level.links += 1;
                opens = true;
            }
            Token::RParen | Token::RBracket => closes = true,
            Token::Comma => level.end_element(),
            Token::Word(word) => match word.keyword {
                Keyword::CASE => opens = true,
                Keyword::END => closes = true,
                Keyword::AND => level.and(),
                Keyword::OR => level.junction(),
                Keyword::FROM if was_distinct => {}
                Keyword::FROM | Keyword::WHERE | Keyword::WHEN | Keyword::THEN | Keyword::ELSE => {
                    level.end_element();
                }
                Keyword::SELECT => {
                    level.end_element();
                    if !outer.is_empty() && !level.is_query {
                        level.is_query = true;
                        weight += QUERY;
                    }
                }
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                    level.end_element();
                    level.sets += 1;
                }
                Keyword::DISTINCT => is_distinct = true,
                Keyword::AS | Keyword::MATERIALIZED => is_named = true,
                keyword => {
                    level.between += usize::from(keyword == Keyword::BETWEEN);
                    let is_isnull = word.value.eq_ignore_ascii_case("isnull");
                    level.links += usize::from(is_operator(keyword) || is_isnull);
                }
            },
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) => {}
            _ => level.links += 1,
        }
        if opens {
            weight += LINK;
            outer.push(std::mem::replace(&mut level, Level::new(was_named)));
        } else if closes && let Some(around) = outer.pop() {
            weight -= level.weight();
            let inner = level.height().plus(level.weight());
            let is_chained = level.is_named && level.is_query;
            level = around;
            level.chained += usize::from(is_chained);
            level.brackets = level.brackets.max(inner);
        }
        let height = level.height().plus(weight);
        if height.is_too_high() {
            return Err(too_deep());
        }
        is_deep |= height.walked > HEIGHT_SHALLOW;
    }
    Ok(is_deep)
}

/// Words that make an expression of the one before them, or of the one after them.
fn is_operator(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::NOT
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::RLIKE
            | Keyword::REGEXP
            | Keyword::SIMILAR
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::OPERATOR
            | Keyword::OVERLAPS
            | Keyword::XOR
            | Keyword::DIV
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::GLOB
            | Keyword::PRIOR
    )
}

/// The error of a statement that is nested too deeply.
pub fn too_deep() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint(format!(
        "Nest the statement at most {NESTING_MAX} deep; a list of values or a temporary table \
         may take the place of a long chain."
    ))
}
