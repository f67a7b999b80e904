//! Columns of a new table: types, defaults, generated values, and constraints that are written at
//! a column.
//! Expressions are kept as text only if that text reads back as the same.

use super::sequence::Options;
use crate::catalog::{Column, Deferral, Object, Oid, Origin};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::state::quoted;
use crate::types::Type;
use sql_bind::{TypeName, row_scope, type_named};
use sql_parse::{Copied, has_subquery, ident_text, is_same, parse_expression, stored_text};
use sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, ConstraintCharacteristics, DeferrableInitial, Expr,
    ForeignKeyConstraint, GeneratedAs, Ident, NullsDistinctOption, TableConstraint, Value,
};

/// A primary key or a unique one, as it is written.
#[derive(Clone)]
pub(super) struct WrittenKey {
    pub(super) name: Option<String>,
    /// Names of its columns.
    pub(super) columns: Vec<String>,
    /// Names of the columns of INCLUDE.
    pub(super) included: Vec<String>,
    /// Whether a NULL is like another.
    pub(super) nulls_alike: bool,
    pub(super) deferral: Deferral,
}

impl WrittenKey {
    fn new(
        name: Option<String>,
        columns: Vec<String>,
        deferral: Option<&ConstraintCharacteristics>,
    ) -> Result<Self> {
        Ok(Self {
            name,
            columns,
            included: Vec::new(),
            nulls_alike: false,
            deferral: deferral_of(deferral)?,
        })
    }
}

impl WrittenKey {
    fn is_like(&self, other: &Self) -> bool {
        let parts = |key: &Self| (key.nulls_alike, key.deferral);
        self.columns == other.columns
            && self.included == other.included
            && parts(self) == parts(other)
    }
}

/// A check, as it is written.
pub(super) struct WrittenCheck {
    pub(super) name: Option<String>,
    pub(super) condition: Expr,
    /// Whether tables below do not have it.
    pub(super) is_alone: bool,
}

impl WrittenCheck {
    fn new(check: &CheckConstraint, other_name: Option<String>) -> Self {
        Self {
            name: check.name.as_ref().map(ident_text).or(other_name),
            condition: check.expr.as_ref().copied(),
            is_alone: check.no_inherit,
        }
    }
}

/// Constraints of a table, as they are written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) primary: Vec<WrittenKey>,
    pub(super) unique: Vec<WrittenKey>,
    pub(super) checks: Vec<WrittenCheck>,
    pub(super) foreign: Vec<ForeignKeyConstraint>,
    /// Columns of indexes that are no constraints, and whether they are unique.
    pub(super) indexes: Vec<(Vec<String>, bool)>,
    /// Indexes of expressions and of parts of the rows: whether they are unique, and the rest of
    /// their definition from the keys on.
    pub(super) forms: Vec<(bool, String)>,
    /// Whether rows that are there may break its checks and foreign keys.
    pub(super) is_unproven: bool,
    /// Whether some of its texts are those of other tables.
    pub(super) has_copies: bool,
    /// Positions of columns that tables above have, and that are written as well.
    pub(super) local: Vec<usize>,
}

impl Written {
    /// Makes keys that are alike one, with the first name that is given.
    pub(super) fn merge_keys(&mut self) {
        let mut kept: Vec<WrittenKey> = Vec::new();
        for key in std::mem::take(&mut self.unique) {
            let mut known = self.primary.iter_mut().chain(&mut kept);
            match known.find(|known| known.is_like(&key)) {
                Some(known) => known.name = known.name.take().or(key.name),
                None => kept.push(key),
            }
        }
        self.unique = kept;
    }

    /// Fails if a partitioned table would have a check that its partitions do not have.
    pub(super) fn refuse_alone(&self, table: &str) -> Result<()> {
        if !self.checks.iter().any(|check| check.is_alone) {
            return Ok(());
        }
        let message = format!("cannot add NO INHERIT constraint to partitioned table \"{table}\"");
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// Makes checks of a table with one name one, which they must be.
    pub(super) fn merge_checks(&mut self, table: &str) -> Result<()> {
        let mut kept: Vec<WrittenCheck> = Vec::new();
        for new in std::mem::take(&mut self.checks) {
            let mut known = kept.iter();
            match known.find(|known| known.name.is_some() && known.name == new.name) {
                None => kept.push(new),
                Some(other) if other.condition.to_string() == new.condition.to_string() => {
                    if new.is_alone && !other.is_alone {
                        let name = new.name.unwrap_or_default();
                        let message = format!(
                            "constraint \"{name}\" conflicts with inherited constraint on relation \"{table}\""
                        );
                        return Err(SqlError::new(SqlState("42P17"), message));
                    }
                }
                Some(_) => {
                    let name = new.name.unwrap_or_default();
                    let message = format!("check constraint \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
            }
        }
        self.checks = kept;
        Ok(())
    }
}

/// A column, and the sequence that is made with it.
pub(super) struct NewColumn {
    pub(super) column: Column,
    pub(super) sequence: Option<(Object, Options)>,
}

/// The names of expressions in messages about what may not stand in them.
pub(super) const DEFAULT: &str = "DEFAULT expression";
pub(super) const CHECK: &str = "check constraint";

/// Names of columns that every table has in `PostgreSQL`; not all of them are there.
const SYSTEM_NAMES: [&str; 6] = ["tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"];

/// Fails if a column of a table would hide one that every table has.
pub(super) fn refuse_system_name(name: &str) -> Result<()> {
    if !SYSTEM_NAMES.contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
}

impl Session {
    /// A column as it is written, its constraints go to `written`.
    pub(super) fn new_column(
        &mut self,
        table: (Oid, &str),
        definition: &ColumnDef,
        written: &mut Written,
    ) -> Result<NewColumn> {
        let name = ident_text(&definition.name);
        let TypeName {
            data_type,
            is_serial,
            domain,
        } = type_named(&self.environment.names, &definition.data_type)?;
        refuse_pseudo(&name, data_type)?;
        refuse_system_name(&name)?;
        let mut column = Column {
            domain,
            ..Column::new(name.clone(), data_type)
        };
        let mut sequence = None;
        if is_serial {
            let (object, options) = self.owned_sequence(table, &name, data_type, &[])?;
            let schema = self
                .catalog()
                .object(table.0)
                .map_or("public", |schema| &schema.name);
            let path = format!("{}.{}", quoted(schema), quoted(&object.name));
            column.default = Some(format!("nextval('{}'::regclass)", path.replace('\'', "''")));
            column.not_null = true;
            sequence = Some((object, options));
        }
        for option in &definition.options {
            let own_name = option.name.as_ref().map(ident_text);
            let made =
                self.column_option(table, &mut column, (own_name, &option.option), written)?;
            sequence = made.or(sequence);
        }
        Ok(NewColumn { column, sequence })
    }

    /// Takes what is written after a column's type; the sequence that is made with it, if one is.
    pub(super) fn column_option(
        &mut self,
        table: (Oid, &str),
        column: &mut Column,
        (own_name, option): (Option<String>, &ColumnOption),
        written: &mut Written,
    ) -> Result<Option<(Object, Options)>> {
        let name = column.name.clone();
        match option {
            ColumnOption::Null => column.not_null = false,
            ColumnOption::NotNull => column.not_null = true,
            ColumnOption::Default(value) => {
                let is_null = self.is_null_default(value, column)?;
                let text = self.kept_text(value, DEFAULT)?;
                column.default = (!is_null).then_some(text);
            }
            ColumnOption::PrimaryKey(key) => {
                let deferral = key.characteristics.as_ref();
                let key = WrittenKey::new(own_name, vec![name], deferral)?;
                written.primary.push(key);
            }
            ColumnOption::Unique(key) => {
                let deferral = key.characteristics.as_ref();
                let new = WrittenKey::new(own_name, vec![name], deferral)?;
                let nulls_alike = key.nulls_distinct == NullsDistinctOption::NotDistinct;
                written.unique.push(WrittenKey { nulls_alike, ..new });
            }
            ColumnOption::Check(check) => {
                written.checks.push(WrittenCheck::new(check, own_name));
            }
            ColumnOption::ForeignKey(foreign) => {
                let mut foreign = foreign.copied();
                foreign.columns = vec![Ident::with_quote('"', name)];
                let own = own_name.map(|name| Ident::with_quote('"', name));
                foreign.name = foreign.name.or(own);
                written.foreign.push(foreign);
            }
            ColumnOption::Generated {
                generation_expr: Some(value),
                ..
            } => {
                let what = "column generation expression";
                column.origin = Origin::Generated(self.kept_text(value, what)?);
            }
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                ..
            } => {
                refuse_twice(column, table.1)?;
                let options = sequence_options.as_deref().unwrap_or_default();
                let made = self.owned_sequence(table, &name, column.data_type, options)?;
                column.origin = Origin::Identity {
                    always: matches!(generated_as, GeneratedAs::Always),
                    sequence: made.0.oid,
                };
                column.not_null = true;
                return Ok(Some(made));
            }
            ColumnOption::Collation(_) => sql_bind::check_collatable(column.data_type.kind)?,
            other => {
                let instead = "Leave it out.";
                return Err(SqlError::unsupported(
                    format!("the column option {other}"),
                    instead,
                ));
            }
        }
        Ok(None)
    }

    /// The text of an expression that the catalogue keeps: one that reads back as the same, and has
    /// no queries in it.
    pub(super) fn kept_text(&self, expression: &Expr, what: &str) -> Result<String> {
        let text = stored_text(expression);
        if has_subquery(&text) {
            let message = format!("cannot use subquery in {what}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        match parse_expression(&text) {
            Ok(read) if is_same(&read, expression) => Ok(text),
            _ => {
                let instead = "Write the expression in a simpler form.";
                Err(SqlError::unsupported(
                    format!("keeping the expression {text}"),
                    instead,
                ))
            }
        }
    }

    /// Whether a default is a NULL of a column's own type, which is none. Others are kept, as they
    /// are in PostgreSQL: one of a domain counts instead of the domain's own default.
    pub(super) fn is_null_default(&self, value: &Expr, column: &Column) -> Result<bool> {
        let value = match value {
            Expr::Nested(inner) => return self.is_null_default(inner, column),
            Expr::Cast {
                expr, data_type, ..
            } => {
                let target = type_named(&self.environment.names, data_type)?;
                if target.data_type != column.data_type.kind.plain() || target.domain.is_some() {
                    return Ok(false);
                }
                expr
            }
            value => value,
        };
        let is_null = matches!(value, Expr::Value(value) if value.value == Value::Null);
        let is_plain = column.domain.is_none() && column.data_type.modifier == -1;
        Ok(is_null && is_plain)
    }

    /// Checks that an expression of the catalogue can be bound over columns of a table. Returns the
    /// columns that it reads.
    pub(super) fn check_expression(
        &self,
        text: &str,
        table: &str,
        columns: &[Column],
        wanted: Option<(Type, &str)>,
    ) -> Result<Vec<usize>> {
        let columns = columns
            .iter()
            .map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(table, columns)?;
        self.binding(|binder| binder.check_stored(text, scope, wanted))
    }

    /// The same for an expression of a statement, which may be a copy of one of the catalogue.
    pub(super) fn check_text(
        &self,
        text: &str,
        (table, columns): (&str, &[Column]),
        wanted: Option<(Type, &str)>,
        is_copy: bool,
    ) -> Result<Vec<usize>> {
        if is_copy {
            return self.check_expression(text, table, columns, wanted);
        }
        let columns = columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(table, columns)?;
        self.binding(|binder| {
            binder.read_new();
            binder.check_stored(text, scope, wanted)
        })
    }
}

/// Fails if a column has a value already where it is written to be an identity.
fn refuse_twice(column: &Column, table: &str) -> Result<()> {
    let problem = match column {
        Column {
            default: Some(_), ..
        } => "both default and identity specified",
        Column {
            origin: Origin::Identity { .. },
            ..
        } => "multiple identity specifications",
        _ => return Ok(()),
    };
    let message = format!(
        "{problem} for column \"{}\" of table \"{table}\"",
        column.name
    );
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// Constraints of a table that are written after its columns.
pub(super) fn add_constraint(written: &mut Written, constraint: &TableConstraint) -> Result<()> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let (name, deferral) = (key.name.as_ref(), key.characteristics.as_ref());
            let columns = column_names(&key.columns)?;
            let new = WrittenKey::new(name.map(ident_text), columns, deferral)?;
            let included = key.include.iter().map(ident_text).collect();
            written.primary.push(WrittenKey { included, ..new });
        }
        TableConstraint::Unique(key) => {
            let (name, deferral) = (key.name.as_ref(), key.characteristics.as_ref());
            let columns = column_names(&key.columns)?;
            let new = WrittenKey::new(name.map(ident_text), columns, deferral)?;
            let included = key.include.iter().map(ident_text).collect();
            written.unique.push(WrittenKey {
                included,
                nulls_alike: key.nulls_distinct == NullsDistinctOption::NotDistinct,
                ..new
            });
        }
        TableConstraint::Check(check) => {
            written.checks.push(WrittenCheck::new(check, None));
        }
        TableConstraint::ForeignKey(foreign) => written.foreign.push(foreign.copied()),
        other => {
            let instead = "Use PRIMARY KEY, UNIQUE, CHECK or FOREIGN KEY.";
            return Err(SqlError::unsupported(
                format!("the constraint {other}"),
                instead,
            ));
        }
    }
    Ok(())
}

/// The moment at which a constraint that was written so is checked.
pub(super) fn deferral_of(written: Option<&ConstraintCharacteristics>) -> Result<Deferral> {
    let Some(written) = written else {
        return Ok(Deferral::Never);
    };
    if written.enforced == Some(false) {
        let found = "a constraint that is NOT ENFORCED";
        return Err(SqlError::unsupported(found, "Leave it out."));
    }
    let is_initial = written.initially == Some(DeferrableInitial::Deferred);
    match written.deferrable {
        Some(false) if is_initial => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
        _ if is_initial => Ok(Deferral::Initial),
        Some(true) => Ok(Deferral::Possible),
        _ => Ok(Deferral::Never),
    }
}

/// Names of the columns of a key.
pub(super) fn column_names(columns: &[sqlparser::ast::IndexColumn]) -> Result<Vec<String>> {
    let names = columns
        .iter()
        .map(|column| match without_collation(&column.column.expr) {
            Expr::Identifier(name) => Ok(ident_text(name)),
            other => Err(SqlError::unsupported(
                format!("a key of the expression {other}"),
                "Use a generated column, and a key of it.",
            )),
        });
    names.collect()
}

/// The column of a key; texts have one order, whatever the collation.
pub(super) fn without_collation(expression: &Expr) -> &Expr {
    match expression {
        Expr::Collate { expr, .. } => expr,
        other => other,
    }
}

fn refuse_pseudo(name: &str, data_type: Type) -> Result<()> {
    use crate::types::Kind;
    let is_pseudo = data_type.kind.is_polymorphic()
        || matches!(
            data_type.kind,
            Kind::Record | Kind::Void | Kind::Any | Kind::Unknown
        );
    if !is_pseudo {
        return Ok(());
    }
    let message = format!("column \"{name}\" has pseudo-type {}", data_type.kind);
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}
