//! `DO`: a block of statements in plain SQL, with handlers of exceptions.
//!
//! Migrations of many programs have no other statement that goes on where an object is there
//! already: `BEGIN statement; EXCEPTION WHEN duplicate_object THEN null; END`. There is no
//! PL/pgSQL, so a block with any other word of that language is refused as a whole, before it runs.

use super::own::{Handler, InlineBlock, Own, Words};
use super::{LineIndex, Parsed, parse_any, tokens};
use sql_values::condition::{Condition, conditions};
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::{SetExpr, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// First words of statements that are no plain SQL, or not in a block.
const REFUSED: [&str; 40] = [
    "ABORT",
    "ASSERT",
    "BEGIN",
    "CALL",
    "CASE",
    "CLOSE",
    "COMMIT",
    "CONTINUE",
    "COPY",
    "DEALLOCATE",
    "DECLARE",
    "DISCARD",
    "DO",
    "ELSE",
    "ELSIF",
    "EXECUTE",
    "EXIT",
    "EXPLAIN",
    "FETCH",
    "FOR",
    "FOREACH",
    "GET",
    "IF",
    "LISTEN",
    "LOOP",
    "MOVE",
    "OPEN",
    "PERFORM",
    "PREPARE",
    "RAISE",
    "RELEASE",
    "RETURN",
    "ROLLBACK",
    "SAVEPOINT",
    "SHOW",
    "START",
    "UNLISTEN",
    "VACUUM",
    "WHEN",
    "WHILE",
];

impl Words<'_> {
    /// `DO`, after the word.
    pub(super) fn block(&mut self) -> Result<Own> {
        let mut language = self.language()?;
        let text = self.string()?;
        if language.is_none() {
            language = self.language()?;
        }
        self.end()?;
        match language.as_deref() {
            None | Some("plpgsql") => Ok(Own::Do(block(&text)?)),
            Some("sql") => {
                let message = "language \"sql\" does not support inline code execution";
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            Some(other) => {
                let message = format!("language \"{other}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// `LANGUAGE` and its name, as a name or a string.
    fn language(&mut self) -> Result<Option<String>> {
        if !self.accept("LANGUAGE") {
            return Ok(None);
        }
        match self.peek() {
            Some(Token::Word(_)) => self.name().map(Some),
            _ => self.string().map(Some),
        }
    }

    /// The conditions of a handler, to its `THEN`.
    fn conditions(&mut self) -> Result<Vec<Condition>> {
        let mut found = Vec::new();
        loop {
            if self.accept("SQLSTATE") {
                let code = self.string()?;
                found.push(Condition::of_code(&code).ok_or_else(|| {
                    SqlError::new(SqlState::SYNTAX_ERROR, "invalid SQLSTATE code")
                })?);
            } else {
                let name = self.name()?;
                let named = conditions(&name);
                if named.is_empty() {
                    let message = format!("unrecognized exception condition \"{name}\"");
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                }
                found.extend(named);
            }
            if !self.accept("OR") {
                self.expect("THEN")?;
                return Ok(found);
            }
        }
    }
}

/// The block of a text.
fn block(text: &str) -> Result<InlineBlock> {
    let places = LineIndex::new(text);
    let tokens =
        tokens::tokens(text).map_err(|failure| super::error::of_tokenizer(&failure, &places))?;
    let mut words = Words::new(&tokens, &places);
    if !words.accept("BEGIN") {
        return Err(refused());
    }
    let statements = statements(&mut words, text).map_err(elsewhere)?;
    let mut handlers = Vec::new();
    let has_handlers = words.accept("EXCEPTION");
    if has_handlers {
        while words.accept("WHEN") {
            let conditions = words.conditions().map_err(elsewhere)?;
            let statements = self::statements(&mut words, text).map_err(elsewhere)?;
            handlers.push(Handler {
                conditions,
                statements,
            });
        }
    }
    let is_ended = words.accept("END");
    while words.peek() == Some(&Token::SemiColon) {
        words.advance();
    }
    if !is_ended || has_handlers == handlers.is_empty() || words.end().is_err() {
        return Err(refused());
    }
    Ok(InlineBlock {
        statements,
        handlers,
    })
}

/// The statements up to a word that ends them.
fn statements(words: &mut Words<'_>, text: &str) -> Result<Vec<Parsed>> {
    let mut found = Vec::new();
    loop {
        if ["EXCEPTION", "END", "WHEN"].iter().any(|end| words.is(end)) {
            return Ok(found);
        }
        let start = words.next;
        while words.peek().is_some_and(|token| *token != Token::SemiColon) {
            words.advance();
        }
        if words.peek().is_none() {
            return Err(refused());
        }
        let tokens = words.tokens[start..words.next].to_vec();
        words.advance();
        found.extend(statement(&tokens, words.places, text)?);
    }
}

/// The statement of some tokens; none for `NULL`.
fn statement(tokens: &[&TokenWithSpan], places: &LineIndex, text: &str) -> Result<Option<Parsed>> {
    let word = |at: usize| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
        return Ok(None);
    };
    if word(0) == "NULL" && tokens.len() == 1 {
        return Ok(None);
    }
    let is_assigned = tokens
        .get(1)
        .is_some_and(|token| matches!(token.token, Token::Assignment | Token::Eq));
    if REFUSED.contains(&word(0).as_str()) || is_assigned {
        return Err(refused());
    }
    let text = &text[places.byte(first.span.start)..places.byte(last.span.end)];
    let parsed = parse_any(text)?.pop();
    if parsed.as_ref().is_some_and(answers_rows) {
        let message = "query has no destination for result data";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok(parsed)
}

/// Whether a statement has rows, which nobody takes in a block.
fn answers_rows(parsed: &Parsed) -> bool {
    match &*parsed.statement {
        Statement::Query(query) => match &*query.body {
            SetExpr::Insert(changing) | SetExpr::Update(changing) | SetExpr::Delete(changing) => {
                returns_rows(changing)
            }
            _ => true,
        },
        statement => returns_rows(statement),
    }
}

/// Whether a change of rows returns them.
fn returns_rows(statement: &Statement) -> bool {
    match statement {
        Statement::Insert(insert) => insert.returning.is_some(),
        Statement::Update(update) => update.returning.is_some(),
        Statement::Delete(delete) => delete.returning.is_some(),
        _ => false,
    }
}

/// The error of a block that is not plain SQL.
fn refused() -> SqlError {
    let instead = "A block has statements in SQL between BEGIN and END, and \
        EXCEPTION WHEN condition THEN. Compute in the client.";
    SqlError::unsupported("a DO block in PL/pgSQL", instead)
}

/// An error without its place, which is one in the text of the block.
fn elsewhere(error: SqlError) -> SqlError {
    SqlError {
        position: None,
        ..error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn blocks_are_read() {
        let text = "DO $$ BEGIN create table a(b int); null; update a set b = 1;
            EXCEPTION WHEN duplicate_table OR sqlstate '42710' THEN null;
            WHEN others THEN drop table a; END; $$ language plpgsql";
        let parsed = parse(text).unwrap();
        let Some(Own::Do(block)) = parsed[0].own.as_deref() else {
            panic!("{parsed:?}");
        };
        assert_eq!(block.statements.len(), 2);
        assert_eq!(&*block.statements[1].text, "update a set b = 1");
        let counts: Vec<_> = block
            .handlers
            .iter()
            .map(|one| one.conditions.len())
            .collect();
        assert_eq!(counts, [2, 1]);
        assert_eq!(block.handlers[1].statements.len(), 1);
    }

    #[test]
    fn a_block_is_as_deep_as_its_statements() {
        let deep = format!("update a set b = {}1{}", "(".repeat(500), ")".repeat(500));
        for text in [
            format!("do $$ begin {deep}; end $$"),
            format!("do $$ begin exception when others then {deep}; end $$"),
        ] {
            assert!(parse(&text).unwrap()[0].is_deep);
        }
        assert!(!parse("do $$ begin end $$").unwrap()[0].is_deep);
    }

    #[test]
    fn other_blocks_are_refused() {
        for (text, state) in [
            ("declare a int; begin end", "0A000"),
            ("begin if true then null; end if; end", "0A000"),
            ("begin a := 1; end", "0A000"),
            ("begin commit; end", "0A000"),
            ("begin null; end; select 1", "0A000"),
            ("begin null", "0A000"),
            ("begin select 1; end", "42601"),
            ("begin selec 1; end", "42601"),
            ("begin null; exception when nosuch then null; end", "42704"),
        ] {
            let refused = parse(&format!("do $${text}$$")).unwrap_err();
            assert_eq!((refused.state.0, refused.position), (state, None), "{text}");
        }
    }
}
