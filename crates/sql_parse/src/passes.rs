//! The order in which the changes of an `ALTER TABLE` happen.
//!
//! PostgreSQL goes through the changes in passes, whatever the order in which they are written:
//! everything that goes, then types, new columns, attributes of columns, keys, other constraints
//! with defaults, and the rest. So a constraint may stand before the column that it is about, and
//! a column may take the place of one that goes. Changes of one pass keep their order.

use super::{DROP_EXPRESSION, ident_text, identity_change, mark_of, tokens};
use crate::own::IdentityChange;
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::ast::{AlterColumnOperation, AlterTableOperation, Expr, TableConstraint};
use sqlparser::tokenizer::Token;

/// A step of a change; the first one comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    Type,
    /// Columns go that a new type is computed from.
    DropRead,
    AddColumn,
    Attributes,
    Keys,
    Constraints,
    Rest,
}

/// The changes in the order in which they happen.
///
/// # Errors
///
/// 42601 for several changes of which one gives a name, as in PostgreSQL's grammar.
pub fn in_passes(operations: &[AlterTableOperation]) -> Result<Vec<&AlterTableOperation>> {
    use AlterTableOperation as Operation;
    let mut ordered: Vec<&Operation> = operations.iter().collect();
    if operations.len() < 2 {
        return Ok(ordered);
    }
    for operation in operations {
        if let Operation::RenameTable { .. }
        | Operation::RenameColumn { .. }
        | Operation::RenameConstraint { .. } = operation
        {
            let message = "syntax error at or near \",\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    let read = columns_of_types(operations);
    ordered.sort_by_key(|operation| pass_of(operation, &read));
    Ok(ordered)
}

fn pass_of(operation: &AlterTableOperation, read: &[String]) -> Pass {
    use AlterTableOperation as Operation;
    match operation {
        Operation::DropColumn { column_names, .. } => {
            let mut names = column_names.iter().map(ident_text);
            if names.any(|name| read.contains(&name)) {
                Pass::DropRead
            } else {
                Pass::Drop
            }
        }
        Operation::DropConstraint { .. } => Pass::Drop,
        Operation::AddColumn { .. } => Pass::AddColumn,
        Operation::AddConstraint { constraint, .. } => match constraint {
            TableConstraint::PrimaryKey(_)
            | TableConstraint::PrimaryKeyUsingIndex(_)
            | TableConstraint::Unique(_)
            | TableConstraint::UniqueUsingIndex(_) => Pass::Keys,
            _ => Pass::Constraints,
        },
        Operation::AlterColumn { op, .. } => pass_of_column(op),
        _ => Pass::Rest,
    }
}

fn pass_of_column(change: &AlterColumnOperation) -> Pass {
    match change {
        AlterColumnOperation::SetDataType { .. } => Pass::Type,
        AlterColumnOperation::SetNotNull => Pass::Attributes,
        AlterColumnOperation::DropNotNull | AlterColumnOperation::DropDefault => Pass::Drop,
        AlterColumnOperation::SetDefault {
            value: Expr::Identifier(word),
        } => match mark_of(word) {
            None => Pass::Constraints,
            Some(mark) if mark.starts_with(DROP_EXPRESSION) => Pass::Drop,
            Some(mark) => match identity_change(mark) {
                Ok(IdentityChange::Drop { .. }) => Pass::Drop,
                _ => Pass::Attributes,
            },
        },
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::AddGenerated { .. } => {
            Pass::Constraints
        }
        AlterColumnOperation::GenericOptions { .. } => Pass::Rest,
    }
}

/// The words of the expressions that values of new types are computed from, columns among them.
fn columns_of_types(operations: &[AlterTableOperation]) -> Vec<String> {
    let mut columns = Vec::new();
    for operation in operations {
        let AlterTableOperation::AlterColumn {
            op:
                AlterColumnOperation::SetDataType {
                    using: Some(using), ..
                },
            ..
        } = operation
        else {
            continue;
        };
        let tokens = tokens::tokens(&using.to_string()).unwrap_or_default();
        columns.extend(tokens.into_iter().filter_map(|token| match token.token {
            Token::Word(word) => Some(ident_text(&word.into_ident(token.span))),
            _ => None,
        }));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::in_passes;
    use crate::parse;
    use sqlparser::ast::Statement;

    /// The changes of a statement in their order.
    fn order(changes: &str) -> Vec<String> {
        let parsed = parse(&format!("ALTER TABLE t {changes}")).unwrap();
        let Statement::AlterTable(alter) = &*parsed[0].statement else {
            panic!("an ALTER TABLE");
        };
        let ordered = in_passes(&alter.operations).unwrap();
        ordered.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn columns_go_before_others_come() {
        let changes =
            "ADD UNIQUE (a), ALTER a SET DEFAULT 1, ADD COLUMN a INT, DROP COLUMN b, DROP COLUMN c";
        let ordered = [
            "DROP COLUMN b",
            "DROP COLUMN c",
            "ADD COLUMN a INT",
            "ADD UNIQUE (a)",
            "ALTER COLUMN a SET DEFAULT 1",
        ];
        assert_eq!(order(changes), ordered);
    }

    #[test]
    fn columns_that_types_are_computed_from_go_later() {
        let changes =
            "DROP COLUMN b, DROP COLUMN c, ALTER a DROP DEFAULT, ALTER a TYPE INT USING t.b + 1";
        let ordered = [
            "DROP COLUMN c",
            "ALTER COLUMN a DROP DEFAULT",
            "ALTER COLUMN a SET DATA TYPE INT USING t.b + 1",
            "DROP COLUMN b",
        ];
        let found = order(changes);
        assert_eq!(found.len(), ordered.len());
        assert!(found[2].starts_with("ALTER COLUMN a"), "{found:?}");
        assert_eq!(found[3], ordered[3]);
    }
}
