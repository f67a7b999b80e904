//! Forms that the parser does not know, in the words of one that it knows.
//!
//! | form | becomes |
//! |---|---|
//! | `FOR NO KEY UPDATE`, `FOR KEY SHARE` | `FOR UPDATE`, `FOR SHARE` of a marked name |
//! | `FOR UPDATE OF a, b` | a clause for each of them |
//! | `TABLE name` | `SELECT * FROM name` |
//! | `MOVE`, `FETCH name` | `FETCH` with its direction and `FROM` |
//! | `VACUUM (ANALYZE, ...)`, `VACUUM FULL` | `VACUUM RECLUSTER`, `VACUUM` |
//! | options of `ANALYZE`, `COLLATE "C"` after a column's new type | nothing |
//! | `USING INDEX TABLESPACE pg_default` of a constraint, `NOT VALID` of a new table's | nothing |
//! | options of `COPY` | those that `stream` lists |
//! | `[NOT] DEFERRABLE` of a transaction | nothing: the isolation that it is about never waits |
//! | `SET LOCAL SESSION AUTHORIZATION` | `SET LOCAL session_authorization TO` |
//! | `USER` in `CREATE`, `ALTER` and `DROP` | `ROLE`; a new one may log in |
//! | `GROUP` in `ALTER` and `DROP` | `ROLE`, `GRANT` and `REVOKE` |
//! | `ENCRYPTED PASSWORD`, `SYSID` of a role | `PASSWORD`, nothing |
//! | `TEMP` of `GRANT` and `REVOKE` | `TEMPORARY` |
//! | `DROP INDEX CONCURRENTLY` | without `CONCURRENTLY` |
//! | a materialized view's `WITH NO DATA` | an option of a marked name |
//! | a view's `WITH CHECK OPTION` | its option `check_option` |
//! | `SUBSTRING(a SIMILAR b ESCAPE c)` | a call of three arguments |
//! | `VARIADIC x` | `variadic => x` |
//! | `ON ONLY table` of an index | a marked name before the table's |
//! | `NOT NULL` of a domain | `CHECK` of a marked name; a default comes before all checks |
//! | `CREATE RECURSIVE VIEW` | a view of a query `WITH RECURSIVE` |
//! | `LIKE table` among columns, a target with a subscript | a marked name |
//! | `ALTER COLUMN a SET GENERATED` and its kin | `SET DEFAULT` of a marked name |
//! | an expression as a key of `ON CONFLICT` | a marked name |
//! | the query of an `INSERT` with `ON CONFLICT` | the same in brackets, as `ON` may end a label |
//! | `WHERE` of `COPY` | a marked column |
//! | `SEARCH`, `CYCLE` of a query of `WITH` | queries with marked names inside of it |
//! | `interval(3) '1 s'` | `interval '1 s' second(3)` |
//! | words that are names, such as `interval` and `top` | the same in quotes |
//! | `NATIONAL CHARACTER`, `NCHAR VARYING` | `CHARACTER`, `CHAR VARYING` |
//! | `ROWS FROM (f(), g())` | a function with a marked name |
//! | names of columns before `AS` of a table | columns of a type |
//! | `ON DELETE SET NULL (columns)` | a marked name before that of the other table |
//! | `CREATE TABLE ... AS EXECUTE` | a query of a marked name |
//! | `AS (columns)` of a function | the same with the function's name before them |
//! | `DROP EXPRESSION` of a column | `SET DEFAULT` of a marked name |
//! | `FOR UPDATE` before `LIMIT` | the other order |
//! | `FOR READ ONLY` | nothing: rows are locked by the other clauses only |
//! | `EXCLUDE` of a frame | a marked key of the partition |
//! | `(row).*` | a field of a marked name |
//! | clauses of queries | those that `query` lists |
//! | `EXPLAIN (query)` | `EXPLAIN (FORMAT TEXT) (query)` |
//! | `INSERT DEFAULT VALUES` of `MERGE` | `INSERT VALUES (DEFAULT)` |
//! | `OVERRIDING` of `MERGE` | a marked condition after the values |
//! | `type ARRAY` | `type[]` |
//! | `SEQUENCE NAME` of an identity column | nothing: the name is the usual one |
//! | `OPERATOR(pg_catalog.=) ANY (...)` | `= ANY (...)` |
//! | `a ISNULL` | `a IS NULL` |
//! | `BETWEEN SYMMETRIC a AND b` | `BETWEEN symmetric(a) AND b` |
//! | `table.*` as a value | `COALESCE(table.*)` |
//! | `NOT EXISTS (...)`, which would bind more closely than `IS` and `::` | `NOT (EXISTS (...))` |
//!
//! A marked name begins with [`MARK`], which no text of a client has, and ends with the tokens that
//! it stands for.

mod domain;
mod dropped;
mod frame;
mod merge;
mod null_test;
mod query;
mod role;
mod row;
mod search;
mod stream;
mod table;
mod unreserved;
mod view;

pub use row::shown_text;

use super::MARK;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::Range;

/// A mark of `FOR NO KEY UPDATE` and `FOR KEY SHARE`, the weaker strengths of a lock.
pub const WEAKER: &str = "weaker";
/// A mark of `HEADER MATCH` of `COPY`, as an encoding.
pub const HEADER_MATCH: &str = "header match";
/// A mark of `FORCE_QUOTE *` of `COPY`, as a column.
pub const FORCE_ALL: &str = "all";
/// A mark of `WHERE` of `COPY`, as a column; the condition follows.
pub const COPIED_ROWS: &str = "copied rows ";
/// A mark of `LIKE` in a list of columns; the options follow.
pub const LIKE: &str = "like";
/// A mark of `ONLY` before the table of an index.
pub const ONLY: &str = "only";
/// A mark of `WITH NO DATA` of a materialized view, as an option.
pub const NO_DATA: &str = "no data";
/// A mark of `OVERRIDING` in an `INSERT` of `MERGE`; the kind of the value follows.
pub const OVERRIDING: &str = "overriding ";
/// A mark of `CURRENT OF`; the name of the cursor follows.
pub const CURRENT_OF: &str = "current of ";

/// A mark of `NOT NULL` of a domain, as a condition.
pub const NOT_NULL: &str = "not null";

/// A mark of `SEARCH` before the query of `WITH` that it is about.
pub const SEARCH: &str = "search";
/// A mark of `DROP EXPRESSION` of a column, as its default; `IF EXISTS` may follow.
pub const DROP_EXPRESSION: &str = "drop expression";
/// A mark of `ROWS FROM`, as the name of a function.
pub const ROWS_FROM: &str = "rows from";
/// A mark of the columns of `SET NULL` and `SET DEFAULT`; the event, the action and the columns
/// follow, with marks between them.
pub const SET_COLUMNS: &str = "set columns ";
/// A mark of `EXECUTE` of a table that is made of a prepared statement; the statement follows.
pub const EXECUTED: &str = "executed ";
/// A mark of `EXCLUDE` of a window's frame, as a key of its partition; the word follows.
pub const EXCLUDE: &str = "exclude ";
/// A mark of `*` after a value in brackets, as the name of a field.
pub const ALL_FIELDS: &str = "all fields";
/// A mark of `GROUP BY DISTINCT`, as its first key.
pub const DISTINCT_SETS: &str = "distinct";
/// A mark of the count of `FETCH FIRST (count) ROWS WITH TIES`, which is that of `LIMIT`.
pub const FETCHED: &str = "fetched";
/// A mark of `CYCLE` before the query of `WITH` that it is about.
pub const CYCLE: &str = "cycle";

/// Whether a statement is a `MOVE`.
pub(crate) fn is_move(tokens: &[TokenWithSpan]) -> bool {
    Words::new(tokens).is(0, "MOVE")
}

/// Whether a statement about modes of a transaction has `DEFERRABLE`, without `NOT` before it.
pub(crate) fn deferrable(tokens: &[TokenWithSpan]) -> Option<bool> {
    let words = Words::new(tokens);
    if !words.is_any(0, &["BEGIN", "START", "SET"]) {
        return None;
    }
    let at = (1..words.len()).rfind(|at| words.is(*at, "DEFERRABLE"))?;
    Some(!words.is(at - 1, "NOT"))
}

/// The tokens of a statement as the parser is to read them.
pub(crate) fn rewrite(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut words = Words::new(tokens);
    let kinds = ["ROLE", "USER", "GROUP"];
    if words.is_any(0, &["CREATE", "ALTER"]) && words.is_any(1, &kinds) {
        words.role_options();
    }
    match words.word(0).as_str() {
        "FETCH" | "MOVE" => words.fetch(),
        "BEGIN" | "START" | "SET" => words.modes(),
        "CREATE" | "ALTER" | "DROP" if words.is(1, "USER") && !words.is(2, "MAPPING") => {
            words.user();
        }
        "ALTER" | "DROP" if words.is(1, "GROUP") => words.group(),
        "DROP" if words.is(1, "INDEX") && words.is(2, "CONCURRENTLY") => words.replace(2..3, &[]),
        "GRANT" | "REVOKE" => {
            let before = (1..words.len()).take_while(|at| !words.is(*at, "ON"));
            if let Some(at) = before.into_iter().find(|at| words.is(*at, "TEMP")) {
                words.replace(at..at + 1, &[Token::make_keyword("TEMPORARY")]);
            }
        }
        "COPY" => {
            words.copied_rows();
            words.stream_options();
        }
        "CREATE" => words.create(),
        "ALTER" if words.is(1, "TABLE") => {
            words.set_columns();
            words.identity();
            words.drop_expression();
            words.collated_types();
            words.index_tablespace();
        }
        "INSERT" | "UPDATE" | "WITH" => words.targets(),
        "VACUUM" => words.vacuum(),
        "ANALYZE" | "ANALYSE" => words.analyze(),
        "MERGE" => words.merge(),
        "EXPLAIN" => words.explained(),
        "TABLE" => {
            let all = ["SELECT", "*", "FROM"].map(|word| match word {
                "*" => Token::Mul,
                word => Token::make_keyword(word),
            });
            words.replace(0..1, &all);
        }
        _ => {}
    }
    words.anywhere();
    words.finish()
}

/// The tokens of a statement that are no blanks, and the changes of them.
pub(crate) struct Words<'t> {
    tokens: &'t [TokenWithSpan],
    places: Vec<usize>,
    changes: Vec<(Range<usize>, Vec<Token>)>,
}

impl<'t> Words<'t> {
    pub(crate) fn new(tokens: &'t [TokenWithSpan]) -> Self {
        let places = (0..tokens.len())
            .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_) | Token::EOF));
        Self {
            tokens,
            places: places.collect(),
            changes: Vec::new(),
        }
    }

    pub(crate) fn token(&self, at: usize) -> Option<&'t Token> {
        self.places.get(at).map(|place| &self.tokens[*place].token)
    }

    /// The word at a place in capitals; empty if there is none, or a quoted one.
    fn word(&self, at: usize) -> String {
        match self.token(at) {
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                word.value.to_ascii_uppercase()
            }
            _ => String::new(),
        }
    }

    pub(crate) fn is(&self, at: usize, wanted: &str) -> bool {
        matches!(self.token(at), Some(Token::Word(word))
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    }

    pub(crate) fn is_token(&self, at: usize, wanted: &Token) -> bool {
        self.token(at) == Some(wanted)
    }

    pub(crate) fn is_any(&self, at: usize, wanted: &[&str]) -> bool {
        wanted.iter().any(|word| self.is(at, word))
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn replace(&mut self, range: Range<usize>, new: &[Token]) {
        self.changes.push((range, new.to_vec()));
    }

    /// The text of tokens.
    fn text(&self, range: Range<usize>) -> String {
        let tokens = range.filter_map(|at| self.token(at));
        let tokens: Vec<String> = tokens.map(super::tokens::token_text).collect();
        tokens.join(" ")
    }

    /// The place after the bracket that closes the one at a place.
    pub(crate) fn after_bracket(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.len() {
            match self.token(at) {
                Some(Token::LParen | Token::LBracket) => depth += 1,
                Some(Token::RParen | Token::RBracket) => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        }
        self.len()
    }

    /// `FETCH` and `MOVE` with all of their words.
    fn fetch(&mut self) {
        if self.is(0, "MOVE") {
            self.replace(0..1, &[Token::make_keyword("FETCH")]);
        }
        let last = self.len().saturating_sub(1);
        let from = (1..self.len()).find(|at| self.is_any(*at, &["FROM", "IN"]));
        let end = from.unwrap_or(last);
        let direction = match end {
            1 => vec![Token::make_keyword("NEXT")],
            2 if self.is_any(1, &["FORWARD", "BACKWARD"]) => {
                vec![Token::Number("1".to_owned(), false)]
            }
            _ => Vec::new(),
        };
        // `FETCH -3` and `FETCH ABSOLUTE -1`: a count with a sign is one token.
        for at in 1..end {
            let sign = match self.token(at) {
                Some(Token::Minus) => "-",
                Some(Token::Plus) => "",
                _ => continue,
            };
            if let Some(Token::Number(digits, _)) = self.token(at + 1) {
                let number = Token::Number(format!("{sign}{digits}"), false);
                self.replace(at..at + 2, &[number]);
            }
        }
        let mut words = direction;
        if from.is_none() {
            words.push(Token::make_keyword("FROM"));
        }
        self.replace(end..end, &words);
    }

    /// `VACUUM` without its options; `RECLUSTER`, which only the parser has, stands for `ANALYZE`.
    fn vacuum(&mut self) {
        let end = if self.is_token(1, &Token::LParen) {
            let end = self.after_bracket(1);
            if !self.is_token(end - 1, &Token::RParen) {
                return;
            }
            end
        } else {
            let is_option =
                |at: &usize| self.is_any(*at, &["FULL", "FREEZE", "VERBOSE", "ANALYZE"]);
            (1..self.len())
                .find(|at| !is_option(at))
                .unwrap_or(self.len())
        };
        let analyzes = (1..end).any(|at| self.is(at, "ANALYZE"));
        let kept = [Token::make_keyword("RECLUSTER")];
        self.replace(1..end, if analyzes { &kept } else { &[] });
    }

    /// Modes of a transaction that mean nothing here.
    fn modes(&mut self) {
        if self.is(0, "SET") {
            if self.is(1, "LOCAL") && self.is(2, "SESSION") && self.is(3, "AUTHORIZATION") {
                let words = ["session_authorization", "TO"].map(Token::make_keyword);
                self.replace(2..4, &words);
            }
            let session = self.is(1, "SESSION") && self.is(2, "CHARACTERISTICS");
            if !session && !self.is(1, "TRANSACTION") {
                return;
            }
        }
        let mut at = 1;
        while at < self.len() {
            let start = at;
            at += 1;
            let end = match () {
                () if self.is(start, "DEFERRABLE") => start + 1,
                () if self.is(start, "NOT") && self.is(start + 1, "DEFERRABLE") => start + 2,
                () => continue,
            };
            at = end;
            if self.is_token(end, &Token::Comma) {
                self.replace(start..end + 1, &[]);
                at += 1;
            } else if self.is_token(start - 1, &Token::Comma) {
                self.replace(start - 1..end, &[]);
            } else {
                self.replace(start..end, &[]);
            }
        }
    }

    fn create(&mut self) {
        self.named_columns();
        let at = if self.is(1, "OR") && self.is(2, "REPLACE") {
            3
        } else {
            1
        };
        let is_index = self.is(1, "INDEX") || self.is(1, "UNIQUE") && self.is(2, "INDEX");
        let on = (2..self.len()).find(|at| self.is(*at, "ON"));
        if let (true, Some(on)) = (is_index, on.filter(|on| self.is(on + 1, "ONLY"))) {
            self.replace(on + 1..on + 2, &[marked(ONLY), Token::Period]);
        }
        if self.is(at, "RECURSIVE") && self.is(at + 1, "VIEW") {
            self.recursive_view(at);
            return;
        }
        if self.is(1, "DOMAIN") {
            self.domain(2);
            return;
        }
        if self.is(1, "UNLOGGED") && self.is(2, "SEQUENCE") {
            self.replace(1..2, &[]);
        }
        if self.is(1, "MATERIALIZED") {
            self.with_data();
            return;
        }
        if (at..at + 2).any(|at| self.is(at, "VIEW")) {
            self.check_option();
            return;
        }
        let is_table = (1..4).any(|at| self.is(at, "TABLE"));
        if is_table {
            self.set_columns();
            self.executed();
        }
        let open = (1..self.len()).find(|at| self.is_token(*at, &Token::LParen));
        if let (true, Some(open)) = (is_table, open) {
            self.elements(open);
        }
    }

    /// Elements of a new table: `LIKE table` and its options, and `NOT VALID` of a constraint,
    /// which means nothing where there are no rows.
    fn elements(&mut self, open: usize) {
        let close = self.after_bracket(open) - 1;
        let (mut at, mut is_constraint) = (open, false);
        while at < close {
            let is_element = self.is_token(at, &Token::Comma) || at == open;
            if is_element && self.is(at + 1, "LIKE") {
                let mut end = at + 3;
                while self.is_token(end, &Token::Period) {
                    end += 2;
                }
                let options = end;
                while end < close && !self.is_token(end, &Token::Comma) {
                    end += 1;
                }
                let mark = marked(&format!("{LIKE} {}", self.text(options..end)));
                self.replace(at + 1..at + 2, &[mark]);
                self.replace(options..end, &[]);
                at = end;
                continue;
            }
            if is_element {
                is_constraint = self.is_any(at + 1, &["CONSTRAINT", "CHECK", "FOREIGN"]);
            }
            if is_constraint && self.is(at, "NOT") && self.is(at + 1, "VALID") {
                self.replace(at..at + 2, &[]);
            }
            at = match self.token(at) {
                Some(Token::LParen | Token::LBracket) if at != open => self.after_bracket(at),
                _ => at + 1,
            };
        }
    }

    /// Changes of identity columns.
    fn identity(&mut self) {
        for at in 2..self.len() {
            let name = match () {
                () if self.is(at, "ALTER") && self.is(at + 1, "COLUMN") => at + 2,
                () if self.is(at, "ALTER") => at + 1,
                () => continue,
            };
            let start = name + 1;
            let is_identity = self.is_any(start, &["RESTART"])
                || self.is(start, "DROP") && self.is(start + 1, "IDENTITY")
                || self.is(start, "SET")
                    && self.is_any(
                        start + 1,
                        &[
                            "GENERATED",
                            "INCREMENT",
                            "MINVALUE",
                            "MAXVALUE",
                            "NO",
                            "START",
                            "CACHE",
                            "CYCLE",
                            "RESTART",
                            "SEQUENCE",
                        ],
                    );
            if is_identity {
                let end = (start..self.len()).find(|at| self.is_token(*at, &Token::Comma));
                let end = end.unwrap_or(self.len());
                let mark = marked(&self.text(start..end));
                let set = [
                    Token::make_keyword("SET"),
                    Token::make_keyword("DEFAULT"),
                    mark,
                ];
                self.replace(start..end, &set);
            }
        }
    }

    /// Targets with subscripts: in the list of columns of `INSERT`, and after `SET`.
    fn targets(&mut self) {
        let mut at = 0;
        while at < self.len() {
            if self.is(at, "INSERT") && self.is(at + 1, "INTO") {
                self.query_before_conflict(at + 2);
                let open = (at + 2..self.len().min(at + 9))
                    .take_while(|at| !self.is_any(*at, &["VALUES", "SELECT", "DEFAULT"]))
                    .find(|at| self.is_token(*at, &Token::LParen));
                if let Some(open) = open {
                    let close = self.after_bracket(open);
                    self.targets_in(open, close);
                    at = close;
                    continue;
                }
            }
            if self.is(at, "SET") {
                self.targets_in(at, self.len());
            }
            if self.is(at, "CONFLICT") && self.is_token(at + 1, &Token::LParen) {
                self.conflict_keys(at + 1);
            }
            at += 1;
        }
    }

    /// Targets that begin after a place or after a comma on its level.
    fn targets_in(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            let begins = at == start || self.is_token(at, &Token::Comma);
            if begins && self.is_token(at + 2, &Token::LBracket) {
                let mut close = at + 2;
                while self.is_token(close, &Token::LBracket) {
                    close = self.after_bracket(close);
                }
                let is_target = close >= end - 1
                    || matches!(
                        self.token(close),
                        Some(Token::Eq | Token::Comma | Token::RParen)
                    );
                if is_target {
                    let mark = marked(&self.text(at + 1..close));
                    self.replace(at + 1..close, &[mark]);
                }
                at = close;
                continue;
            }
            at = match self.token(at) {
                Some(Token::LParen | Token::LBracket) if at != start => self.after_bracket(at),
                Some(Token::RParen) => return,
                _ if self.is_any(at, &["WHERE", "FROM", "RETURNING"]) => return,
                _ => at + 1,
            };
        }
    }

    /// Keys of `ON CONFLICT`: expressions are marked names, collations and classes are left out.
    fn conflict_keys(&mut self, open: usize) {
        let close = self.after_bracket(open) - 1;
        let mut start = open + 1;
        while start < close {
            let mut end = start;
            while end < close && !self.is_token(end, &Token::Comma) {
                end = match self.token(end) {
                    Some(Token::LParen | Token::LBracket) => self.after_bracket(end),
                    _ => end + 1,
                };
            }
            let is_bracket = self.is_token(start, &Token::LParen);
            let key = match self.token(start + 1) {
                _ if is_bracket => self.after_bracket(start),
                Some(Token::LParen) => self.after_bracket(start + 1),
                _ => start + 1,
            };
            if key > start + 1 {
                let mark = marked(&self.text(start..key));
                self.replace(start..end, &[mark]);
            } else if end > key {
                self.replace(key..end, &[]);
            }
            start = end + 1;
        }
    }

    /// Gives `EXPLAIN` of a query in brackets options before them, which the parser looks for.
    fn explained(&mut self) {
        let first = (1..self.len()).find(|at| !self.is_token(*at, &Token::LParen));
        let is_query = |at| at > 1 && self.is_any(at, &["SELECT", "WITH", "VALUES"]);
        if first.is_some_and(is_query) {
            let options = ["FORMAT", "TEXT"].map(Token::make_keyword);
            let [format, text] = options;
            self.replace(1..1, &[Token::LParen, format, text, Token::RParen]);
        }
    }

    /// Whether `ARRAY` follows a type, and neither makes a value nor is a name.
    fn ends_type(&self, at: usize) -> bool {
        let follows = at > 0
            && matches!(
                self.token(at - 1),
                Some(Token::Word(_) | Token::RParen | Token::RBracket)
            );
        let is_value =
            self.is_token(at + 1, &Token::LBracket) || self.is_token(at + 1, &Token::LParen);
        follows && !is_value && !self.is(at - 1, "AS")
    }

    /// Leaves out `SEQUENCE NAME name` of an identity column.
    fn sequence_name(&mut self, at: usize) {
        let has_schema = self.is_token(at + 3, &Token::Period);
        let end = if has_schema { at + 5 } else { at + 3 };
        if self.is_token(end, &Token::RParen) {
            self.replace(at - 1..end + 1, &[]);
        } else {
            self.replace(at..end, &[]);
        }
    }

    /// `OPERATOR(pg_catalog.=) ANY (...)`.
    fn named_operator(&mut self, at: usize) {
        let end = self.after_bracket(at + 1);
        if self.is_any(end, &["ALL", "ANY", "SOME"]) {
            let is_full = self.is_token(at + 3, &Token::Period);
            let start = if is_full { at + 4 } else { at + 2 };
            let operator = (start..end - 1).filter_map(|at| self.token(at).cloned());
            let operator: Vec<Token> = operator.collect();
            self.replace(at..end, &operator);
        }
    }

    fn anywhere(&mut self) {
        let mut at = 0;
        while at < self.len() {
            if self.is_token(at, &Token::Mul) && at > 1 && self.is_token(at - 1, &Token::Period) {
                match self.token(at - 2) {
                    Some(Token::RParen | Token::RBracket) => {
                        self.replace(at..at + 1, &[marked(ALL_FIELDS)]);
                    }
                    _ => self.whole_row(at),
                }
            }
            match self.word(at).as_str() {
                "VARIADIC" if at > 0 && !self.is_token(at + 1, &Token::RArrow) => {
                    let is_argument = self.is_token(at - 1, &Token::LParen)
                        || self.is_token(at - 1, &Token::Comma);
                    if is_argument {
                        let name = Token::make_word("variadic", None);
                        self.replace(at..at + 1, &[name, Token::RArrow]);
                    }
                }
                "AS" => self.unnamed_columns(at),
                "BETWEEN" => self.symmetric(at + 1),
                "ISNULL" => self.null_test(at),
                "FETCH" if self.is_any(at + 1, &["FIRST", "NEXT"]) => self.fetched(at),
                "GROUP" => self.grouped(at + 1),
                "NORMALIZE" if self.is_token(at + 1, &Token::LParen) => self.normal_form(at + 1),
                "ARRAY" if self.ends_type(at) => {
                    self.replace(at..at + 1, &[Token::LBracket, Token::RBracket]);
                }
                "SEQUENCE"
                    if at > 1
                        && self.is(at - 2, "IDENTITY")
                        && self.is_token(at - 1, &Token::LParen)
                        && self.is(at + 1, "NAME") =>
                {
                    self.sequence_name(at);
                }
                "NOT" if self.is(at + 1, "EXISTS") && self.is_token(at + 2, &Token::LParen) => {
                    let end = self.after_bracket(at + 2);
                    self.replace(end..end, &[Token::RParen]);
                    self.replace(at + 1..at + 1, &[Token::LParen]);
                }
                "OPERATOR" if self.is_token(at + 1, &Token::LParen) => self.named_operator(at),
                "SUBSTRING" if self.is_token(at + 1, &Token::LParen) => self.similar(at + 1),
                "FOR" => self.lock(at),
                "ROWS" => self.rows_from(at),
                "INTERVAL" => self.interval(at),
                "NATIONAL" | "NCHAR" => self.national(at),
                "EXCLUDE" => self.excluded(at),
                "PRECEDING" | "FOLLOWING" => self.frame_offset(at),
                "SEARCH" | "CYCLE" if at > 0 && self.is_token(at - 1, &Token::RParen) => {
                    self.search_clauses(at - 1);
                }
                "ALL" | "ANY" | "SOME"
                    if self.is_token(at + 1, &Token::LParen) && self.is(at + 2, "VALUES") =>
                {
                    self.quantified_values(at + 1);
                }
                "WHERE" if self.is(at + 1, "CURRENT") && self.is(at + 2, "OF") => {
                    self.current_of(at + 1);
                }
                _ => self.unreserved(at),
            }
            at += 1;
        }
    }

    /// `BETWEEN SYMMETRIC a AND b`: the first end is the argument of a call.
    fn symmetric(&mut self, at: usize) {
        if self.is(at, "ASYMMETRIC") {
            self.replace(at..at + 1, &[]);
        }
        if !self.is(at, "SYMMETRIC") {
            return;
        }
        let (mut end, mut cases) = (at + 1, 0_usize);
        while end < self.len() && (cases > 0 || !self.is(end, "AND")) {
            cases += usize::from(self.is(end, "CASE"));
            cases = cases.saturating_sub(usize::from(self.is(end, "END")));
            end = match self.token(end) {
                Some(Token::LParen | Token::LBracket) => self.after_bracket(end),
                _ => end + 1,
            };
        }
        let name = Token::make_word("symmetric", None);
        self.replace(at..at + 1, &[name, Token::LParen]);
        self.replace(end..end, &[Token::RParen]);
    }

    /// `SUBSTRING(a SIMILAR b ESCAPE c)`.
    fn similar(&mut self, open: usize) {
        let close = self.after_bracket(open);
        let mut at = open + 1;
        while at < close {
            let is_similar = self.is(at, "SIMILAR") && !self.is(at + 1, "TO");
            if is_similar || self.is(at, "ESCAPE") {
                self.replace(at..at + 1, &[Token::Comma]);
            }
            at = match self.token(at) {
                Some(Token::LParen | Token::LBracket) => self.after_bracket(at),
                _ => at + 1,
            };
        }
    }

    /// The strength of a lock, and the tables that it is for.
    fn lock(&mut self, at: usize) {
        if self.is(at + 1, "READ") && self.is(at + 2, "ONLY") {
            return self.replace(at..at + 3, &[]);
        }
        let (strength, is_weaker) = match () {
            () if self.is_any(at + 1, &["UPDATE", "SHARE"]) => (at + 1, false),
            () if self.is(at + 1, "KEY") && self.is(at + 2, "SHARE") => (at + 2, true),
            () if self.is(at + 1, "NO") && self.is(at + 2, "KEY") && self.is(at + 3, "UPDATE") => {
                (at + 3, true)
            }
            () => return,
        };
        let mut names: Vec<Vec<Token>> = Vec::new();
        let mut end = strength + 1;
        if self.is(end, "OF") {
            loop {
                let start = end + 1;
                end = start + 1;
                while self.is_token(end, &Token::Period) {
                    end += 2;
                }
                names.push(
                    (start..end)
                        .filter_map(|at| self.token(at).cloned())
                        .collect(),
                );
                if !self.is_token(end, &Token::Comma) {
                    break;
                }
            }
        }
        let mut rest = end;
        while self.is_any(rest, &["NOWAIT", "SKIP", "LOCKED"]) {
            rest += 1;
        }
        let last = self.after_limits(at, rest);
        if last == rest {
            self.end_items(at);
        }
        if !is_weaker && names.len() < 2 && last == rest {
            return;
        }
        let take = |at: usize| self.token(at).cloned();
        let waits: Vec<Token> = (end..rest).filter_map(take).collect();
        let mut clauses = Vec::new();
        if names.is_empty() {
            names.push(Vec::new());
        }
        for name in names {
            clauses.extend(take(at));
            clauses.extend(take(strength));
            if is_weaker || !name.is_empty() {
                clauses.push(Token::make_keyword("OF"));
            }
            if is_weaker {
                clauses.push(marked(WEAKER));
                if !name.is_empty() {
                    clauses.push(Token::Period);
                }
            }
            clauses.extend(name);
            clauses.extend(waits.iter().cloned());
        }
        self.replace(at..rest, &[]);
        self.replace(last..last, &clauses);
    }

    /// The tokens with their changes; new ones are where the first old one was.
    fn finish(mut self) -> Vec<TokenWithSpan> {
        let mut kept = Vec::with_capacity(self.tokens.len());
        self.changes.sort_by_key(|(range, _)| range.start);
        let mut next = 0;
        for (range, new) in &self.changes {
            let place = |at: usize| self.places.get(at).copied().unwrap_or(self.tokens.len());
            let (start, end) = (place(range.start), place(range.end));
            kept.extend_from_slice(&self.tokens[next.min(start)..start]);
            let near = start.min(self.tokens.len().saturating_sub(1));
            let span = self.tokens[near].span;
            let new = new.iter().cloned();
            kept.extend(new.map(|token| TokenWithSpan { token, span }));
            next = if range.is_empty() { start } else { end };
        }
        kept.extend_from_slice(&self.tokens[next.min(self.tokens.len())..]);
        kept
    }
}

/// A name that stands for something else.
fn marked(content: &str) -> Token {
    Token::make_word(&format!("{MARK}{content}"), Some('"'))
}
