//! Constraints of a table, as they are in memory and in the body of its row.
//!
//! A primary or a unique key has an index of its name. The byte before a rule says its kind, and
//! has grown with what a rule may say, so that earlier builds refuse what they do not know.

use super::fields::{read_positions, write_positions};
use super::oid::Oid;
use crate::error::Result;
use sql_values::codec::{Reader, Writer};

/// A constraint.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Its number.
    pub oid: Oid,
    /// Its name, once in a table.
    pub name: String,
    /// The rule that rows keep.
    pub rule: Rule,
}

/// The rule of a constraint.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Columns that hold each key once and no NULL; by the index of the same name.
    Primary {
        /// Positions of the columns.
        columns: Vec<usize>,
        /// The moment of its checks.
        deferral: Deferral,
    },
    /// Columns that hold each key once; by the index of the same name.
    Unique {
        /// Positions of the columns.
        columns: Vec<usize>,
        /// The moment of its checks.
        deferral: Deferral,
    },
    /// A condition that is not false.
    Check {
        /// The condition over a row.
        condition: String,
    },
    /// Columns that are NULL or a key of another table.
    Foreign(Foreign),
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Positions of the columns that refer.
    pub columns: Vec<usize>,
    /// The table that they refer to.
    pub parent: Oid,
    /// Positions of the columns there, in the same order.
    pub parent_columns: Vec<usize>,
    /// The effect of a new key in the parent.
    pub on_update: Action,
    /// The effect of a deletion in the parent.
    pub on_delete: Action,
    /// Those of the columns that a deletion sets; none for all.
    pub set_on_delete: Vec<usize>,
    /// Whether a key is valid only if all of its columns are NULL or none.
    pub is_full: bool,
    /// The moment of its checks.
    pub deferral: Deferral,
}

/// Whether a transaction may put off the checks of a constraint until it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferral {
    /// They come at the end of each statement.
    #[default]
    Never,
    /// The same, unless `SET CONSTRAINTS` puts them off (`DEFERRABLE`).
    Possible,
    /// They come at the end of the transaction, unless `SET CONSTRAINTS` wants them earlier
    /// (`INITIALLY DEFERRED`).
    Initial,
}

/// Effect of a change of a referenced key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The change is refused, unless another row has the key afterwards.
    Nothing,
    /// The change is refused in any case.
    Restrict,
    /// The rows that refer change too, or go.
    Cascade,
    /// They refer to nothing from then on.
    SetNull,
    /// They refer to the key of their defaults.
    SetDefault,
}

impl Rule {
    /// The moment of its checks.
    pub fn deferral(&self) -> Deferral {
        match self {
            Self::Primary { deferral, .. } | Self::Unique { deferral, .. } => *deferral,
            Self::Foreign(foreign) => foreign.deferral,
            Self::Check { .. } => Deferral::Never,
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Primary { columns, deferral } => {
                write_key(writer, 1, *deferral);
                write_positions(writer, columns);
            }
            Self::Unique { columns, deferral } => {
                write_key(writer, 2, *deferral);
                write_positions(writer, columns);
            }
            Self::Check { condition } => {
                writer.byte(3);
                writer.text(condition);
            }
            Self::Foreign(foreign) => {
                // Earlier builds read those without a choice, and refuse those with columns to set.
                if !foreign.set_on_delete.is_empty() {
                    writer.byte(8);
                    write_positions(writer, &foreign.set_on_delete);
                }
                match foreign.deferral {
                    Deferral::Never => writer.byte(4),
                    deferral => {
                        writer.byte(5);
                        writer.flag(deferral == Deferral::Initial);
                    }
                }
                write_positions(writer, &foreign.columns);
                writer.number(foreign.parent.into());
                write_positions(writer, &foreign.parent_columns);
                writer.byte(foreign.on_update as u8);
                writer.byte(foreign.on_delete as u8);
                writer.flag(foreign.is_full);
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.byte()? {
            kind @ (1 | 6) => Self::Primary {
                deferral: read_deferral(kind == 6, reader)?,
                columns: read_positions(reader)?,
            },
            kind @ (2 | 7) => Self::Unique {
                deferral: read_deferral(kind == 7, reader)?,
                columns: read_positions(reader)?,
            },
            3 => Self::Check {
                condition: reader.text()?,
            },
            4 => Self::Foreign(Foreign::read(Deferral::Never, reader)?),
            5 if reader.flag()? => Self::Foreign(Foreign::read(Deferral::Initial, reader)?),
            5 => Self::Foreign(Foreign::read(Deferral::Possible, reader)?),
            8 => {
                let set_on_delete = read_positions(reader)?;
                match Self::read(reader)? {
                    Self::Foreign(foreign) => Self::Foreign(Foreign {
                        set_on_delete,
                        ..foreign
                    }),
                    _ => return Err(reader.damaged()),
                }
            }
            _ => return Err(reader.damaged()),
        })
    }
}

/// Earlier builds read keys without a choice, and refuse those with one: their indexes below hold
/// keys several times.
fn write_key(writer: &mut Writer, kind: u8, deferral: Deferral) {
    match deferral {
        Deferral::Never => writer.byte(kind),
        deferral => {
            writer.byte(kind + 5);
            writer.flag(deferral == Deferral::Initial);
        }
    }
}

fn read_deferral(is_deferrable: bool, reader: &mut Reader<'_>) -> Result<Deferral> {
    Ok(match is_deferrable {
        false => Deferral::Never,
        true if reader.flag()? => Deferral::Initial,
        true => Deferral::Possible,
    })
}

impl Foreign {
    fn read(deferral: Deferral, reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            columns: read_positions(reader)?,
            parent: reader.integer()?,
            parent_columns: read_positions(reader)?,
            on_update: Action::read(reader)?,
            on_delete: Action::read(reader)?,
            set_on_delete: Vec::new(),
            is_full: reader.flag()?,
            deferral,
        })
    }
}

impl Action {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.byte()? {
            0 => Self::Nothing,
            1 => Self::Restrict,
            2 => Self::Cascade,
            3 => Self::SetNull,
            4 => Self::SetDefault,
            _ => return Err(reader.damaged()),
        })
    }
}
