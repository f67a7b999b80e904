//! Statements that the parser does not know at all: `REINDEX`, `CLUSTER`, `CHECKPOINT`, `ALTER` of
//! sequences, names, schemas and owners, `SET CONSTRAINTS`, `COMMENT` on parts of a table, and the
//! steps of a commit in two phases.
//!
//! They are read word by word. Options of sequences are also those of identity columns, which
//! reach `ALTER TABLE` as text.

use super::alter::Alter;
use super::owned::{DefaultPrivileges, SessionDefaults};
use super::{LineIndex, Parsed, cut, error};
use sql_values::condition::Condition;
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::{ConstraintCharacteristics, DeferrableInitial};
use sqlparser::ast::{Owner, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// A statement that the parser does not know.
#[derive(Clone, Debug)]
pub enum Own {
    /// `REINDEX`.
    Reindex(Reindex),
    /// `CLUSTER`: a table and its index, where they are given.
    Cluster(Option<(Path, Option<String>)>),
    /// `ALTER SEQUENCE`.
    AlterSequence {
        /// Whether the sequence may be missing.
        if_exists: bool,
        /// The sequence.
        name: Path,
        /// The change.
        change: SequenceChange,
    },
    /// `ALTER TABLE` or `ALTER VIEW` with `SET SCHEMA`.
    SetSchema {
        /// Whether the relation may be missing.
        if_exists: bool,
        /// The relation.
        name: Path,
        /// Its new schema.
        schema: String,
        /// Whether the statement says that it is a view.
        is_view: bool,
    },
    /// `ALTER` of another object's name, schema or owner.
    Alter(Alter),
    /// A change of how a table should be stored, which means nothing here.
    Storage {
        /// Whether there may be no such relation.
        if_exists: bool,
        /// The table, or an index.
        name: Path,
        /// The column that is meant, if it is one.
        column: Option<String>,
    },
    /// A comment on a function, which the `DROP FUNCTION` would drop.
    CommentOnFunction {
        /// The statement.
        function: Arc<Statement>,
        /// The comment; none removes it.
        comment: Option<String>,
    },
    /// `CREATE SCHEMA` with its objects: the statements that make them, itself first.
    CreateSchema(Vec<Arc<Statement>>),
    /// `CHECKPOINT`.
    Checkpoint,
    /// `DROP ... IF EXISTS` of objects of a kind that does not exist here.
    DropMissing(DropMissing),
    /// `ALTER DEFAULT PRIVILEGES`.
    DefaultPrivileges(DefaultPrivileges),
    /// Settings with which sessions begin.
    SessionDefaults(SessionDefaults),
    /// `REASSIGN OWNED`.
    ReassignOwned {
        /// The owners.
        from: Vec<String>,
        /// The new owner.
        to: String,
    },
    /// `DROP OWNED`.
    DropOwned {
        /// The owners.
        roles: Vec<String>,
        /// Whether objects that need those of the roles go too.
        cascade: bool,
    },
    /// `ALTER INDEX ... ATTACH PARTITION`.
    AttachIndex {
        /// The index of the partitioned table.
        index: Path,
        /// The index of a partition.
        partition: Path,
    },
    /// `PREPARE TRANSACTION`, and the two ends of such a transaction.
    TwoPhase {
        /// The step.
        phase: TwoPhase,
        /// The name of the transaction.
        name: String,
    },
    /// Another moment for the checks of a constraint.
    AlterConstraint {
        /// The table, and whether there may be none.
        table: (Path, bool),
        /// The constraint.
        constraint: String,
        /// The moment.
        deferral: ConstraintCharacteristics,
    },
    /// `SET CONSTRAINTS`.
    SetConstraints {
        /// The constraints; none for all.
        names: Option<Vec<Path>>,
        /// Whether their checks are put off until the transaction ends.
        deferred: bool,
    },
    /// `DO`.
    Do(InlineBlock),
    /// A comment on a constraint of a table or a domain.
    CommentOnConstraint {
        /// The constraint.
        constraint: String,
        /// Its table or domain.
        of: Path,
        /// Whether it is a domain.
        is_domain: bool,
        /// The comment; none removes it.
        comment: Option<String>,
    },
}

/// A block of statements.
#[derive(Clone, Debug, Default)]
pub struct InlineBlock {
    /// The statements.
    pub statements: Vec<Parsed>,
    /// The handlers, of which the first one that catches an error runs.
    pub handlers: Vec<Handler>,
}

impl InlineBlock {
    /// Whether one of its statements nests so deeply that it needs a large stack.
    pub(crate) fn is_deep(&self) -> bool {
        let handled = self.handlers.iter().flat_map(|one| &one.statements);
        self.statements.iter().chain(handled).any(|one| one.is_deep)
    }
}

/// A handler of exceptions.
#[derive(Clone, Debug)]
pub struct Handler {
    /// The errors that it catches.
    pub conditions: Vec<Condition>,
    /// The statements that run then.
    pub statements: Vec<Parsed>,
}

/// `DROP ... IF EXISTS` of objects of a kind that does not exist here.
#[derive(Clone, Debug)]
pub struct DropMissing {
    /// `DROP` and the words of the kind.
    pub command: &'static str,
    /// The objects, as a notice names them.
    pub objects: Vec<String>,
    /// The table that has them.
    pub table: Option<Path>,
}

/// A step of a commit in two phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoPhase {
    /// `PREPARE TRANSACTION`.
    Prepare,
    /// `COMMIT PREPARED`.
    Commit,
    /// `ROLLBACK PREPARED`.
    RollBack,
}

/// A name with its schema, if it has one.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// The schema.
    pub schema: Option<String>,
    /// The name in it.
    pub name: String,
}

/// `REINDEX`: indexes are never out of order here, so it is checked and does nothing.
#[derive(Clone, Debug)]
pub struct Reindex {
    /// The indexes that are meant.
    pub target: ReindexTarget,
    /// Whether `CONCURRENTLY` stands there.
    pub is_concurrent: bool,
}

/// The target of `REINDEX`.
#[derive(Clone, Debug)]
pub enum ReindexTarget {
    /// One index.
    Index(Path),
    /// Those of a table.
    Table(Path),
    /// Those of a schema.
    Schema(String),
    /// All.
    Database,
}

/// Changes of a sequence.
#[derive(Clone, Debug)]
pub enum SequenceChange {
    /// Other options.
    Options(SequenceOptions),
    /// A new name.
    Rename(String),
    /// A new schema.
    SetSchema(String),
    /// A new owner.
    Owner(Owner),
    /// Logging means nothing here.
    Nothing,
}

/// An option that is left as it is, set to its default, or given.
#[derive(Clone, Debug, Default)]
pub enum Choice<T> {
    /// Left as it is.
    #[default]
    Kept,
    /// Set to its default.
    Reset,
    /// Given.
    Given(T),
}

impl<T> From<Option<T>> for Choice<T> {
    fn from(given: Option<T>) -> Self {
        given.map_or(Self::Reset, Self::Given)
    }
}

/// Options of a sequence; those that are not given are none.
#[derive(Clone, Debug, Default)]
pub struct SequenceOptions {
    /// The type.
    pub data_type: Option<String>,
    /// The step.
    pub increment: Option<i64>,
    /// The least value.
    pub min: Choice<i64>,
    /// The greatest value.
    pub max: Choice<i64>,
    /// The first value.
    pub start: Option<i64>,
    /// The next value; reset means the first.
    pub restart: Choice<i64>,
    /// The numbers that a session takes at once.
    pub cache: Option<i64>,
    /// Whether it begins again after its last value.
    pub cycles: Option<bool>,
    /// The table and the column that it goes with.
    pub owner: Choice<(Path, String)>,
    /// Of an identity column, whether it is `ALWAYS`.
    pub always: Option<bool>,
}

/// A change of an identity column.
#[derive(Clone, Debug)]
pub enum IdentityChange {
    /// Options of its sequence.
    Set(SequenceOptions),
    /// The column becomes an ordinary one.
    Drop {
        /// Whether it may be an ordinary one already.
        if_exists: bool,
    },
}

/// The statement, if it is one of these.
pub(crate) fn parse(tokens: &[TokenWithSpan], places: &LineIndex) -> Option<Result<Own>> {
    let mut words = Words::new(tokens, places);
    if words.accept("CHECKPOINT") {
        return Some(words.end().map(|()| Own::Checkpoint));
    }
    if words.accept("REINDEX") {
        return Some(words.reindex());
    }
    if words.accept("CLUSTER") {
        return Some(words.cluster());
    }
    if words.accept("DO") {
        return Some(words.block());
    }
    if words.accept("DROP")
        && let Some(dropped) = words.drop_missing()
    {
        return Some(dropped);
    }
    let mut words = Words::new(tokens, places);
    if words.accept("ALTER") && words.accept("SEQUENCE") {
        return Some(words.alter_sequence());
    }
    let mut words = Words::new(tokens, places);
    if words.accept("CREATE") && words.accept("SCHEMA") {
        return schema_with_objects(tokens, places);
    }
    if let Some(of_role) = Words::new(tokens, places).of_role() {
        return Some(of_role);
    }
    let mut words = Words::new(tokens, places);
    let is_alter = words.accept("ALTER");
    let is_view = is_alter && words.accept("VIEW");
    if is_view || words.accept("TABLE") {
        let moved = words.set_schema(is_view);
        if moved.is_some() || !is_view {
            return moved.map(Ok);
        }
    }
    let mut words = Words::new(tokens, places);
    if words.accept("ALTER")
        && let Some(altered) = words.alter()
    {
        return Some(altered);
    }
    if let Some(parsed) = two_phase(tokens, places) {
        return Some(parsed);
    }
    let mut words = Words::new(tokens, places);
    if words.accept("ALTER") && words.accept("INDEX") {
        return words.changed_index().map(Ok);
    }
    let mut words = Words::new(tokens, places);
    if words.accept("SET") && words.accept("CONSTRAINTS") {
        return Some(words.set_constraints());
    }
    let mut words = Words::new(tokens, places);
    if words.accept("COMMENT") && words.accept("ON") {
        if words.accept("CONSTRAINT") {
            return Some(words.comment());
        }
        if words.accept("FUNCTION") || words.accept("ROUTINE") {
            return Some(words.comment_on_function());
        }
    }
    None
}

/// A step of a commit in two phases. `PREPARE transaction AS ...` is another statement.
fn two_phase(tokens: &[TokenWithSpan], places: &LineIndex) -> Option<Result<Own>> {
    for (first, second, phase) in [
        ("PREPARE", "TRANSACTION", TwoPhase::Prepare),
        ("COMMIT", "PREPARED", TwoPhase::Commit),
        ("ROLLBACK", "PREPARED", TwoPhase::RollBack),
    ] {
        let mut words = Words::new(tokens, places);
        if words.accept(first) && words.accept(second) {
            if words.peek() == Some(&Token::LParen) || words.accept("AS") {
                return None;
            }
            let name = words.string();
            let ended = name.and_then(|name| words.end().map(|()| name));
            return Some(ended.map(|name| Own::TwoPhase { phase, name }));
        }
    }
    None
}

/// `CREATE SCHEMA` that is followed by statements for objects in it; none if nothing follows.
fn schema_with_objects(tokens: &[TokenWithSpan], places: &LineIndex) -> Option<Result<Own>> {
    let mut depth = 0_usize;
    let mut starts = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word)
                if depth == 0
                    && word.quote_style.is_none()
                    && ["CREATE", "GRANT"]
                        .iter()
                        .any(|one| word.value.eq_ignore_ascii_case(one)) =>
            {
                starts.push(at);
            }
            _ => {}
        }
    }
    if starts.len() < 2 {
        return None;
    }
    let ends = starts.iter().skip(1).copied().chain([tokens.len()]);
    let parts = starts.iter().zip(ends);
    let parts =
        parts.map(|(start, end)| super::parse_one(&tokens[*start..end], places).map(Arc::new));
    Some(parts.collect::<Result<_>>().map(Own::CreateSchema))
}

/// A change of an identity column, from its words.
pub fn identity_change(text: &str) -> Result<IdentityChange> {
    let places = LineIndex::new(text);
    let tokens =
        super::tokens::tokens(text).map_err(|failure| error::of_tokenizer(&failure, &places))?;
    let mut words = Words::new(&tokens, &places);
    if words.accept("DROP") {
        words.expect("IDENTITY")?;
        let if_exists = words.accept("IF");
        if if_exists {
            words.expect("EXISTS")?;
        }
        words.end()?;
        return Ok(IdentityChange::Drop { if_exists });
    }
    let mut options = SequenceOptions::default();
    while words.peek().is_some() {
        let is_set = words.accept("SET");
        if is_set && words.accept("GENERATED") {
            let always = words.accept("ALWAYS");
            if !always {
                words.expect("BY")?;
                words.expect("DEFAULT")?;
            }
            options.always = Some(always);
        } else {
            words.sequence_option(&mut options)?;
        }
    }
    Ok(IdentityChange::Set(options))
}

/// The words of a statement, from the first that has not been read.
pub(super) struct Words<'w> {
    pub(super) tokens: Vec<&'w TokenWithSpan>,
    pub(super) places: &'w LineIndex,
    pub(super) next: usize,
}

impl<'w> Words<'w> {
    pub(super) fn new(tokens: &'w [TokenWithSpan], places: &'w LineIndex) -> Self {
        let tokens = tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        Self {
            tokens: tokens.collect(),
            places,
            next: 0,
        }
    }

    pub(super) fn peek(&self) -> Option<&'w Token> {
        self.tokens.get(self.next).map(|token| &token.token)
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// The error of the next word, which cannot stand there.
    pub(super) fn unexpected(&self) -> SqlError {
        match self.tokens.get(self.next) {
            Some(token) => error::near(token, self.places),
            None => SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"),
        }
    }

    /// Whether the next word is this one.
    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word))
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    }

    pub(super) fn accept(&mut self, wanted: &str) -> bool {
        let is_it = self.is(wanted);
        if is_it {
            self.advance();
        }
        is_it
    }

    pub(super) fn accept_token(&mut self, wanted: &Token) -> bool {
        let is_it = self.peek() == Some(wanted);
        if is_it {
            self.advance();
        }
        is_it
    }

    pub(super) fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.accept(wanted) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(super) fn end(&self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected()),
        }
    }

    pub(super) fn name(&mut self) -> Result<String> {
        let Some(Token::Word(word)) = self.peek() else {
            return Err(self.unexpected());
        };
        let name = match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        };
        self.advance();
        Ok(cut(name))
    }

    pub(super) fn string(&mut self) -> Result<String> {
        let text = match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
                text.clone()
            }
            Some(Token::DollarQuotedString(quoted)) => quoted.value.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(text)
    }

    fn names(&mut self) -> Result<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.accept_token(&Token::Period) {
            names.push(self.name()?);
        }
        Ok(names)
    }

    pub(super) fn path(&mut self) -> Result<Path> {
        let mut names = self.names()?;
        let name = names.pop().unwrap_or_default();
        Ok(Path {
            schema: names.pop(),
            name,
        })
    }

    fn number(&mut self) -> Result<i64> {
        let is_negative = self.accept_token(&Token::Minus);
        let Some(Token::Number(digits, _)) = self.peek() else {
            return Err(self.unexpected());
        };
        let sign = if is_negative { "-" } else { "" };
        let number = format!("{sign}{digits}").parse().map_err(|_| {
            let message = format!("value \"{sign}{digits}\" is out of range for type bigint");
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
        });
        self.advance();
        number
    }

    fn reindex(&mut self) -> Result<Own> {
        let mut is_concurrent = false;
        if self.accept_token(&Token::LParen) {
            loop {
                let option = self.name()?;
                let value = match self.peek() {
                    Some(Token::Word(_)) => self.name()?,
                    _ => "on".to_owned(),
                };
                match option.as_str() {
                    "concurrently" => is_concurrent = !matches!(value.as_str(), "off" | "false"),
                    "verbose" | "tablespace" => {}
                    _ => {
                        let message = format!("unrecognized REINDEX option \"{option}\"");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                }
                if !self.accept_token(&Token::Comma) {
                    break;
                }
            }
            if !self.accept_token(&Token::RParen) {
                return Err(self.unexpected());
            }
        }
        let kinds = ["INDEX", "TABLE", "SCHEMA", "DATABASE", "SYSTEM"];
        let kind = kinds.into_iter().find(|kind| self.accept(kind));
        let kind = kind.ok_or_else(|| self.unexpected())?;
        is_concurrent |= self.accept("CONCURRENTLY");
        let target = match kind {
            "INDEX" => ReindexTarget::Index(self.path()?),
            "TABLE" => ReindexTarget::Table(self.path()?),
            "SCHEMA" => ReindexTarget::Schema(self.name()?),
            _ => {
                if kind == "SYSTEM" && is_concurrent {
                    let message = "cannot reindex system catalogs concurrently";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.name()?;
                ReindexTarget::Database
            }
        };
        self.end()?;
        Ok(Own::Reindex(Reindex {
            target,
            is_concurrent,
        }))
    }

    /// `CLUSTER`, also in the old form of an index `ON` a table.
    fn cluster(&mut self) -> Result<Own> {
        if self.accept_token(&Token::LParen) {
            while !self.accept_token(&Token::RParen) {
                self.name()?;
                self.accept_token(&Token::Comma);
            }
        } else {
            self.accept("VERBOSE");
        }
        if self.end().is_ok() {
            return Ok(Own::Cluster(None));
        }
        let first = self.path()?;
        let target = if self.accept("USING") {
            (first, Some(self.name()?))
        } else if self.accept("ON") {
            (self.path()?, Some(first.name))
        } else {
            (first, None)
        };
        self.end()?;
        Ok(Own::Cluster(Some(target)))
    }

    /// `[NOT] DEFERRABLE` and `INITIALLY ...`.
    fn deferral(&mut self) -> ConstraintCharacteristics {
        let mut deferral = ConstraintCharacteristics {
            deferrable: None,
            initially: None,
            enforced: None,
        };
        loop {
            let is_not = self.accept("NOT");
            match () {
                () if self.accept("DEFERRABLE") => deferral.deferrable = Some(!is_not),
                () if !is_not && self.accept("INITIALLY") => {
                    deferral.initially = if self.accept("DEFERRED") {
                        Some(DeferrableInitial::Deferred)
                    } else if self.accept("IMMEDIATE") {
                        Some(DeferrableInitial::Immediate)
                    } else {
                        return deferral;
                    };
                }
                () => return deferral,
            }
        }
    }

    /// `SET SCHEMA` of a table or view, or `ALTER CONSTRAINT`; none for another change.
    fn set_schema(&mut self, is_view: bool) -> Option<Own> {
        let if_exists = self.accept("IF") && self.accept("EXISTS");
        self.accept("ONLY");
        let name = self.path().ok()?;
        let start = self.next;
        if !is_view && self.accept("ALTER") && self.accept("CONSTRAINT") {
            let constraint = self.name().ok()?;
            let deferral = self.deferral();
            self.end().ok()?;
            return Some(Own::AlterConstraint {
                table: (name, if_exists),
                constraint,
                deferral,
            });
        }
        self.next = start;
        if !is_view && let Some(stored) = self.storage(if_exists, &name) {
            return Some(stored);
        }
        self.next = start;
        let is_move = self.accept("SET") && self.accept("SCHEMA");
        let schema = self.name().ok().filter(|_| is_move)?;
        self.end().ok()?;
        Some(Own::SetSchema {
            if_exists,
            name,
            schema,
            is_view,
        })
    }

    fn changed_index(&mut self) -> Option<Own> {
        let if_exists = self.accept("IF") && self.accept("EXISTS");
        let index = self.path().ok()?;
        let stored = self.storage(if_exists, &index);
        if stored.is_some() {
            return stored;
        }
        let attaches = self.accept("ATTACH") && self.accept("PARTITION");
        let partition = self.path().ok().filter(|_| attaches)?;
        self.end().ok()?;
        Some(Own::AttachIndex { index, partition })
    }

    fn alter_sequence(&mut self) -> Result<Own> {
        let if_exists = self.accept("IF");
        if if_exists {
            self.expect("EXISTS")?;
        }
        let name = self.path()?;
        let start = self.next;
        let change = match self.object_change() {
            Some(change) => Self::sequence_change(change?),
            None => {
                self.next = start;
                self.changed_sequence()?
            }
        };
        self.end()?;
        Ok(Own::AlterSequence {
            if_exists,
            name,
            change,
        })
    }

    fn changed_sequence(&mut self) -> Result<SequenceChange> {
        Ok(match () {
            () if self.accept("SET") && (self.accept("LOGGED") || self.accept("UNLOGGED")) => {
                SequenceChange::Nothing
            }
            () => {
                let mut options = SequenceOptions::default();
                if self.peek().is_none() {
                    return Err(self.unexpected());
                }
                while self.peek().is_some() {
                    self.sequence_option(&mut options)?;
                }
                SequenceChange::Options(options)
            }
        })
    }

    fn sequence_option(&mut self, options: &mut SequenceOptions) -> Result<()> {
        match () {
            () if self.accept("AS") => options.data_type = Some(self.name()?),
            () if self.accept("INCREMENT") => {
                self.accept("BY");
                options.increment = Some(self.number()?);
            }
            () if self.accept("MINVALUE") => options.min = Choice::Given(self.number()?),
            () if self.accept("MAXVALUE") => options.max = Choice::Given(self.number()?),
            () if self.accept("NO") => match () {
                () if self.accept("MINVALUE") => options.min = Choice::Reset,
                () if self.accept("MAXVALUE") => options.max = Choice::Reset,
                () if self.accept("CYCLE") => options.cycles = Some(false),
                () => return Err(self.unexpected()),
            },
            () if self.accept("START") => {
                self.accept("WITH");
                options.start = Some(self.number()?);
            }
            () if self.accept("RESTART") => {
                let is_given = self.accept("WITH")
                    || matches!(self.peek(), Some(Token::Number(..) | Token::Minus));
                let number = is_given.then(|| self.number()).transpose()?;
                options.restart = number.into();
            }
            () if self.accept("CACHE") => options.cache = Some(self.number()?),
            () if self.accept("CYCLE") => options.cycles = Some(true),
            () if self.accept("OWNED") => {
                self.expect("BY")?;
                options.owner = self.owner()?.into();
            }
            () => return Err(self.unexpected()),
        }
        Ok(())
    }

    fn owner(&mut self) -> Result<Option<(Path, String)>> {
        let mut names = self.names()?;
        let column = names.pop().unwrap_or_default();
        let Some(name) = names.pop() else {
            if column == "none" {
                return Ok(None);
            }
            let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
            let message = "invalid OWNED BY option";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint));
        };
        let path = Path {
            schema: names.pop(),
            name,
        };
        Ok(Some((path, column)))
    }

    fn set_constraints(&mut self) -> Result<Own> {
        let names = if self.accept("ALL") {
            None
        } else {
            let mut names = vec![self.path()?];
            while self.accept_token(&Token::Comma) {
                names.push(self.path()?);
            }
            Some(names)
        };
        let deferred = self.accept("DEFERRED");
        if !deferred {
            self.expect("IMMEDIATE")?;
        }
        self.end()?;
        Ok(Own::SetConstraints { names, deferred })
    }

    fn comment(&mut self) -> Result<Own> {
        let constraint = self.name()?;
        self.expect("ON")?;
        let start = self.next;
        // A table may have the name `domain`.
        let is_domain = self.accept("DOMAIN") && !self.accept("IS");
        if !is_domain {
            self.next = start;
        }
        let of = self.path()?;
        self.expect("IS")?;
        let comment = self.comment_text()?;
        self.end()?;
        Ok(Own::CommentOnConstraint {
            constraint,
            of,
            is_domain,
            comment,
        })
    }
}
