//! From text to statements: `sqlparser` with the dialect of PostgreSQL.
//!
//! A text is cut into statements at its semicolons before any of them is parsed, so each one knows
//! its part of the text. All of them are parsed before the first runs: an error of syntax anywhere
//! means that nothing has run. Errors name the token, as PostgreSQL does, and its place.
//!
//! | module | job |
//! |---|---|
//! | `passes` | the order in which the changes of an `ALTER TABLE` happen |
//! | `own`, `alter`, `domain`, `owned` | forms that the parser does not know, read word by word |
//! | `block` | the statements of `DO` |
//! | `refused` | statements that do not exist here |
//! | `tokens` | words, and operators that end where PostgreSQL ends them |
//! | `rewrite` | others of them, written in forms that it knows |
//! | `literal` | literals of several tokens |
//! | `depth` | the nesting of a statement |
//! | `place`, `error` | places in the text, and errors with them |
//! | `copied` | copies of parts of a tree, compiled once for all rooms |
//! | `fingerprint` | a statement without its literals, for the cache of plans |
//! | `missing` | `DROP ... IF EXISTS` of kinds of objects that do not exist here |
//! | `natural` | joins that find their columns, with the columns that they have found |
//! | `redact` | a text without its constants, for people who may not see them |
//! | [`copy`] | rows as text: the formats of `COPY` |

#![allow(
    clippy::single_match_else,
    clippy::unnecessary_wraps,
    clippy::match_same_arms,
    reason = "a match shows all ways side by side, in the order of the grammar or the manual"
)]

mod alter;
mod atomic;
mod block;
mod copied;
pub mod copy;
mod depth;
mod domain;
mod error;
mod fingerprint;
mod literal;
mod missing;
mod natural;
mod own;
mod owned;
mod passes;
mod place;
mod redact;
mod refused;
mod rewrite;
mod tokens;

pub use alter::{Alter, AlterKind, DomainChange, ObjectChange};
pub use copied::{Copied, is_same};
pub use depth::too_deep;
pub use fingerprint::{Class, Fingerprint, Literal};
pub use natural::without_natural;
pub use own::{
    Choice, DropMissing, Handler, IdentityChange, InlineBlock, Own, Path, Reindex, ReindexTarget,
    SequenceChange, SequenceOptions, TwoPhase, identity_change,
};
pub use owned::{DefaultChange, DefaultPrivileges, SessionDefaults};
pub use passes::in_passes;
pub use place::LineIndex;
pub use redact::{with_parameters, without_constants};
pub use rewrite::{
    ALL_FIELDS, COPIED_ROWS, CURRENT_OF, CYCLE, DISTINCT_SETS, DROP_EXPRESSION, EXCLUDE, EXECUTED,
    FETCHED, FORCE_ALL, HEADER_MATCH, LIKE, NO_DATA, NOT_NULL, ONLY, OVERRIDING, ROWS_FROM, SEARCH,
    SET_COLUMNS, WEAKER, shown_text,
};

use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError, ParserOptions};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// The first letter of a name that stands for a form that the parser does not know.
pub const MARK: char = '\0';

/// The deepest nesting of brackets and operators in a statement.
pub const NESTING_MAX: usize = 1000;
/// The deepest nesting that needs no stack of its own.
const NESTING_SHALLOW: usize = 100;
/// The stack of statements that nest more deeply. Of it only what they use is taken.
pub const STACK_BYTES: usize = 1 << 29;

/// A statement and its part of the text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The statement, as the parser reads it.
    pub statement: Arc<Statement>,
    /// The text that it was read from, which positions in errors refer to.
    pub text: Arc<str>,
    /// The lines of the text, which all of its statements share.
    pub places: Arc<LineIndex>,
    /// The statement, if the parser does not know it; `statement` stands for nothing then.
    pub own: Option<Arc<Own>>,
    /// Whether it nests so deeply that it needs a large stack.
    pub is_deep: bool,
    /// Whether it is a `MOVE`, which is a `FETCH` that hands over no rows.
    pub is_move: bool,
    /// Whether its transaction is to be `DEFERRABLE`, if it says so.
    pub deferrable: Option<bool>,
}

/// Reads all statements of a client's text; empty ones are left out.
pub fn parse(text: &str) -> Result<Vec<Parsed>> {
    if text.contains(MARK) {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        let state = SqlState::CHARACTER_NOT_IN_REPERTOIRE;
        return Err(SqlError::new(state, message));
    }
    parse_any(text)
}

/// Reads the statement of a text that the catalogue keeps. It is read again as a part of others,
/// so it cannot nest deeply.
pub fn parse_stored(text: &str) -> Result<Vec<Parsed>> {
    let parsed = parse_any(text)?;
    if parsed.iter().any(|parsed| parsed.is_deep) {
        return Err(too_deep());
    }
    Ok(parsed)
}

fn parse_any(text: &str) -> Result<Vec<Parsed>> {
    let text: Arc<str> = text.into();
    let places = Arc::new(LineIndex::new(Arc::clone(&text)));
    let tokens = tokens::tokens(&text).map_err(|failure| error::of_tokenizer(&failure, &places))?;
    let tokens = literal::joined(tokens)?;
    error::check_names(&tokens, &places)?;
    let tokens = atomic::bodies_as_texts(tokens, &text, &places);
    let mut statements = Vec::new();
    for tokens in tokens.split(|token| token.token == Token::SemiColon) {
        if tokens.iter().all(is_blank) {
            continue;
        }
        let tokens = &*literal::plain(tokens);
        let is_deep = depth::check(tokens)?;
        if let Some(error) = refused::refused(tokens) {
            return Err(error);
        }
        let own = own::parse(tokens, &places).transpose()?;
        let statement = match own {
            Some(_) => Statement::ShowFunctions { filter: None },
            None if is_deep => on_large_stack(|| parse_one(tokens, &places))?,
            None => parse_one(tokens, &places)?,
        };
        let has_deep = |own: &Own| matches!(own, Own::Do(block) if block.is_deep());
        let is_deep = is_deep || own.as_ref().is_some_and(has_deep);
        statements.push(Parsed {
            statement: Arc::new(statement),
            own: own.map(Arc::new),
            is_deep,
            text: Arc::clone(&text),
            places: Arc::clone(&places),
            is_move: rewrite::is_move(tokens),
            deferrable: rewrite::deferrable(tokens),
        });
    }
    Ok(statements)
}

/// Reads one expression, as it stands in the catalogue.
pub fn parse_expression(text: &str) -> Result<sqlparser::ast::Expr> {
    let dialect = PostgreSqlDialect {};
    let expression = tokens::tokens(text)
        .map_err(ParserError::from)
        .map(|tokens| parser(&dialect).with_tokens_with_locations(tokens))
        .and_then(|mut parser| parser.parse_expr());
    expression.map_err(|failure| {
        let state = SqlState::DATA_CORRUPTED;
        SqlError::new(
            state,
            format!("the stored expression \"{text}\" is damaged: {failure}"),
        )
    })
}

/// Whether the text of an expression has a query in it: in brackets stands a word that begins one.
pub fn has_subquery(text: &str) -> bool {
    let tokens = tokens::tokens(text).unwrap_or_default();
    let mut tokens = tokens.iter().filter(|token| !is_blank(token)).peekable();
    let begins = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && ["select", "with", "values"]
                .iter()
                .any(|one| word.value.eq_ignore_ascii_case(one)))
    };
    while let Some(token) = tokens.next() {
        if token.token == Token::LParen && tokens.peek().is_some_and(|next| begins(next)) {
            return true;
        }
    }
    false
}

/// An identifier: in lower case unless it is quoted, and cut to the length of a name.
pub fn ident_text(ident: &Ident) -> String {
    let text = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    cut(text)
}

/// The content of a name that stands for something else.
pub fn mark_of(name: &Ident) -> Option<&str> {
    name.value.strip_prefix(MARK)
}

/// The text of a part of the tree as the catalogue keeps it: types after `::` in small letters.
pub fn stored_text(part: &impl ToString) -> String {
    let text = part.to_string();
    let Ok(tokens) = tokens::tokens(&text) else {
        return text;
    };
    let places = LineIndex::new(text.as_str());
    let mut stored = text.clone();
    let mut is_type = false;
    for token in &tokens {
        match &token.token {
            Token::DoubleColon => is_type = true,
            Token::Word(word) if is_type && word.quote_style.is_none() => {
                let range = places.byte(token.span.start)..places.byte(token.span.end);
                let small = text[range.clone()].to_ascii_lowercase();
                stored.replace_range(range, &small);
                is_type = OF_TYPES.contains(&small.as_str());
            }
            Token::Whitespace(_) => {}
            Token::LParen | Token::Number(..) | Token::Comma | Token::RParen => {}
            _ => is_type = false,
        }
    }
    stored
}

/// Words of types before others of their names.
const OF_TYPES: [&str; 9] = [
    "double",
    "character",
    "char",
    "timestamp",
    "time",
    "with",
    "without",
    "bit",
    "national",
];

/// Bytes of the longest name.
pub const NAME_BYTES_MAX: usize = 63;

/// A name that is too long without its end.
pub fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(NAME_BYTES_MAX));
    text
}

/// The schema and the name of an object.
pub fn object_name(name: &ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = Vec::new();
    for part in &name.0 {
        match part {
            ObjectNamePart::Identifier(ident) => parts.push(ident_text(ident)),
            ObjectNamePart::Function(_) => {
                return Err(SqlError::new(SqlState::INVALID_NAME, "invalid name"));
            }
        }
    }
    match (parts.pop(), parts.pop(), parts.len()) {
        (Some(name), schema, 0 | 1) => Ok((schema, name)),
        _ => {
            let message = format!("improper qualified name (too many dotted names): {name}");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

fn parser(dialect: &PostgreSqlDialect) -> Parser<'_> {
    Parser::new(dialect)
        .with_options(ParserOptions::new().with_unescape(true))
        .with_recursion_limit(3 * NESTING_MAX)
}

/// Calls `body` on a thread with a large stack.
fn on_large_stack<R: Send>(body: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        let worker = builder.spawn_scoped(scope, body).map_err(|error| {
            let message = format!("cannot start a thread for a deep statement: {error}");
            SqlError::new(SqlState::OUT_OF_MEMORY, message)
        })?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn parse_one(tokens: &[TokenWithSpan], places: &LineIndex) -> Result<Statement> {
    let dialect = PostgreSqlDialect {};
    let mut parser = parser(&dialect).with_tokens_with_locations(rewrite::rewrite(tokens));
    let statement = parser.parse_statement();
    let statement = statement.map_err(|failure| error::of_parser(&failure, tokens, places))?;
    let next = parser.next_token();
    if next.token == Token::EOF {
        Ok(statement)
    } else {
        Err(error::near(&next, places))
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_semicolons() {
        let parsed = parse("select ';' ; ; -- ;\n select 2;").unwrap();
        let texts: Vec<String> = parsed.iter().map(|one| one.statement.to_string()).collect();
        assert_eq!(texts, ["SELECT ';'", "SELECT 2"]);
        assert!(parse(" ; ").unwrap().is_empty());
    }

    #[test]
    fn options_of_vacuum_are_read() {
        for (text, read) in [
            ("vacuum", "VACUUM"),
            ("vacuum full verbose t", "VACUUM t"),
            ("vacuum analyze s.t", "VACUUM RECLUSTER s.t"),
            (
                "VACUUM (freeze, ANALYZE, parallel 2) t",
                "VACUUM RECLUSTER t",
            ),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed[0].statement.to_string(), read);
        }
        assert!(parse("vacuum (analyze t").is_err());
    }

    /// `QUOTE` after `DELIMITER` was a syntax error in the old syntax.
    #[test]
    fn options_of_csv_may_come_in_any_order() {
        for (text, read) in [
            (
                "copy t from stdin csv header delimiter ';' quote 'q' null 'n' force not null a",
                "COPY t FROM STDIN CSV HEADER DELIMITER ';' CSV QUOTE 'q' NULL 'n' CSV FORCE NOT NULL a",
            ),
            (
                "copy (select 'x' like 'y' escape 'z') to stdout with delimiter ';' quote 'q' csv",
                "COPY (SELECT 'x' LIKE 'y' ESCAPE 'z') TO STDOUT DELIMITER ';' CSV QUOTE 'q' CSV",
            ),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed[0].statement.to_string().trim_end_matches(';'), read);
        }
        assert!(parse("copy t to stdout delimiter ';' quote 'q'").is_err());
        assert!(parse("copy t from stdin csv where a like 'x' escape 'y'").is_ok());
    }

    #[test]
    fn statements_that_do_not_exist_say_so() {
        for text in [
            "do 'begin raise notice ''x''; end'",
            "create database a owner b",
            "create procedure p() language sql as 'select 1'",
            "create or replace procedure p() as 'select 1'",
            "create function f(variadic a int[]) returns int as 'select 1'",
            "copy t to stdout (delimiter 'ab')",
        ] {
            let refused = parse(text).unwrap_err();
            assert_eq!(refused.state, SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
    }

    #[test]
    fn errors_name_the_token_and_its_place() {
        let refused = parse("select 1;\nselect from where 1").unwrap_err();
        assert_eq!(refused.message, "syntax error at or near \"where\"");
        assert_eq!(refused.position, Some(23));
        let refused = parse("select (1").unwrap_err();
        assert_eq!(refused.message, "syntax error at end of input");
        assert_eq!(
            parse("select 'a").unwrap_err().state,
            SqlState::SYNTAX_ERROR
        );
    }

    #[test]
    fn deep_nesting_is_read_on_a_large_stack() {
        let brackets = NESTING_MAX - 1;
        let text = format!("select {}1{}", "(".repeat(brackets), ")".repeat(brackets));
        let parsed = parse(&text).unwrap();
        assert!(parsed[0].is_deep && !parse("select (1)").unwrap()[0].is_deep);
        assert_eq!(
            parse_stored(&text).unwrap_err().state,
            SqlState::STATEMENT_TOO_COMPLEX
        );
    }

    #[test]
    fn queries_of_with_are_a_chain() {
        let text = |count: usize| {
            let links = (1..count).map(|at| format!(", c{at} as (select * from c{})", at - 1));
            let links: String = links.collect();
            format!(
                "with c0 as (select 1 a){links} select * from c{}",
                count - 1
            )
        };
        assert!(!parse(&text(20)).unwrap()[0].is_deep);
        assert!(parse(&text(400)).unwrap()[0].is_deep);
        let refused = parse(&text(600)).unwrap_err();
        assert_eq!(refused.state, SqlState::STATEMENT_TOO_COMPLEX);
    }

    #[test]
    fn deep_nesting_is_one_error() {
        for text in [
            format!("select {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
            format!("select {}1", "- ".repeat(10_000)),
            format!("select {}true", "not ".repeat(10_000)),
        ] {
            let refused = parse(&text).unwrap_err();
            assert_eq!(refused.state, SqlState::STATEMENT_TOO_COMPLEX);
        }
    }

    #[test]
    fn long_chains_are_one_error() {
        for (first, link) in [
            ("true", " or true"),
            ("true", " and (1, 2) = (1, 2)"),
            ("1", " is null"),
            ("1", " isnull"),
            ("1", " notnull"),
            ("1", " in (2)"),
            ("1", " is distinct from 1"),
            ("1", " between 1 and 2"),
            ("1", " + f(1, 2)"),
            ("1", " operator(pg_catalog.+) 2"),
            ("'a'", " like 'a'"),
            ("'a'", " collate \"C\""),
            ("now()", " at time zone 'utc'"),
            ("a", "[1]"),
            ("1", " union all select 1"),
            ("1", " except select 1"),
        ] {
            let refused = parse(&format!("select {first}{}", link.repeat(20_000))).unwrap_err();
            assert_eq!(refused.state, SqlState::STATEMENT_TOO_COMPLEX, "{link}");
        }
    }

    #[test]
    fn long_lists_and_conditions_are_read() {
        for (text, is_deep) in [
            (format!("select true{}", " or a = 1".repeat(9000)), false),
            (
                format!("select case{} end", " when a = 1 then 2".repeat(9000)),
                false,
            ),
            (format!("select 1{}", ", a + 1".repeat(9000)), false),
            (
                format!("select 1{}", " union all select 1".repeat(2500)),
                true,
            ),
            (
                format!(
                    "select * from (select 1{}) t",
                    " union all select 1".repeat(2500)
                ),
                true,
            ),
            (format!("select 1{}", " + f(1, 2)".repeat(900)), true),
        ] {
            let parsed = parse(&text).unwrap();
            assert_eq!(parsed[0].is_deep, is_deep, "{text:.60}");
        }
    }
}
