//! Objects of a schema, as they are in memory and as the body of a row.
//!
//! Expressions (defaults, checks, generated columns, conditions of indexes) and queries of views
//! are kept as text that was parsed, printed and parsed again when they were defined, so that a
//! text which cannot be read back is refused at its definition.

use super::access::RoleBody;
use super::constraint::{Constraint, Deferral, Rule};
use super::defaults::DefaultsBody;
use super::fields::{read_positions, read_type, write_positions, write_type};
use super::grants::AccessBody;
use super::lineage::Lineage;
use super::oid::Oid;
use super::routine::FunctionBody;
use crate::error::Result;
use crate::types::Type;
use sql_values::codec::{Reader, Writer};

/// An object: its number, its place and name, and what it is.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its number, which stays when it is renamed or moved.
    pub oid: Oid,
    /// The schema that it is in; 0 for schemas and roles.
    pub namespace: Oid,
    /// Its name in the schema.
    pub name: String,
    /// The text of `COMMENT ON`.
    pub comment: Option<String>,
    /// Everything that is special to its kind.
    pub body: Body,
}

/// The kinds of objects.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most objects are tables, and each object has an allocation of its own"
)]
pub enum Body {
    /// A schema.
    Schema,
    /// A table.
    Table(TableBody),
    /// A view.
    View(ViewBody),
    /// A sequence.
    Sequence(SequenceBody),
    /// A type of labels.
    Enum(EnumBody),
    /// A type with a condition.
    Domain(DomainBody),
    /// A role.
    Role(RoleBody),
    /// The owner of another object, and what others may do with it.
    Access(AccessBody),
    /// A function in SQL.
    Function(FunctionBody),
    /// A type of rows: names and types of the fields.
    Composite(CompositeBody),
    /// Defaults of a role.
    Defaults(DefaultsBody),
    /// An extension that was made.
    Extension,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct TableBody {
    /// Name of the table below that has the rows.
    pub physical: String,
    /// The columns of clients, in their order.
    pub columns: Vec<Column>,
    /// Positions of the columns of the key of the table below; none if rows have hidden numbers.
    pub key: Vec<usize>,
    /// Its constraints, those of keys included.
    pub constraints: Vec<Constraint>,
    /// Its indexes, those of constraints included.
    pub indexes: Vec<Index>,
    /// Columns that follow those of clients, for indexes.
    pub hidden: Vec<Hidden>,
    /// Definitions of the indexes of expressions and of parts of the rows.
    pub forms: Vec<IndexForm>,
    /// The tables that it inherits from, and its partitions.
    pub lineage: Lineage,
    /// Comments on its indexes and constraints, by the numbers of these.
    pub comments: Vec<(Oid, String)>,
    /// Columns of INCLUDE, by the numbers of indexes.
    pub included: Vec<(Oid, Vec<usize>)>,
    /// Constraints that rows which were there before may break (`NOT VALID`).
    pub unproven: Vec<Oid>,
    /// Unique indexes for which a NULL is like another (`NULLS NOT DISTINCT`).
    pub alike: Vec<Oid>,
    /// The query whose rows it keeps, if it is a materialized view.
    pub materialized: Option<Materialized>,
    /// Positions of columns that are its own, although tables above have them too.
    pub local: Vec<usize>,
    /// Checks that tables below do not have (`NO INHERIT`).
    pub alone: Vec<Oid>,
}

/// The query of a materialized view.
#[derive(Clone, Debug)]
pub struct Materialized {
    /// The query.
    pub query: String,
    /// Tables, views and functions that it reads.
    pub reads: Vec<Oid>,
    /// Whether the rows are those of the query at some time, and may be read.
    pub is_populated: bool,
}

/// A column that an index needs: a computed key, or the values of a column of keys as they were
/// written. Such a column itself holds one form of equal values, because an index compares bytes.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// Type of the value.
    pub data_type: Type,
    /// Its value over the row; none if its index is gone, and for values of a column.
    pub value: Option<String>,
    /// The key that it stands for, in messages.
    pub label: String,
    /// The column whose values it has as they were written.
    pub keeps: Option<usize>,
}

/// The definition of an index with hidden columns.
#[derive(Clone, Debug)]
pub struct IndexForm {
    /// The index.
    pub index: Oid,
    /// Each key as it is written: the name of a column, or an expression.
    pub keys: Vec<String>,
    /// The condition of the rows that are in it.
    pub predicate: Option<String>,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name, once in a table.
    pub name: String,
    /// Type of its values; of a domain the one below it.
    pub data_type: Type,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// The expression for rows that give no value.
    pub default: Option<String>,
    /// The source of its values.
    pub origin: Origin,
    /// The domain that is its type, or the [`array_of`](super::array_of) of its elements' domain.
    pub domain: Option<Oid>,
    /// The text of `COMMENT ON`.
    pub comment: Option<String>,
}

/// The source of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Statements, or the default.
    Given,
    /// Always an expression over the row.
    Generated(String),
    /// A sequence; statements may give another value if it is not `always`.
    Identity {
        /// Whether statements may not give a value.
        always: bool,
        /// The sequence of the values.
        sequence: Oid,
    },
}

/// An index.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its number.
    pub oid: Oid,
    /// Its name, once in a schema.
    pub name: String,
    /// Name of the index of the table below; none if it is its primary key.
    pub physical: Option<String>,
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// Whether two rows may not have the same key.
    pub is_unique: bool,
    /// For each column whether it was declared to descend, and to have its NULLs first.
    pub options: Vec<(bool, bool)>,
}

/// A view.
#[derive(Clone, Debug)]
pub struct ViewBody {
    /// The query, with all names as they were found.
    pub query: String,
    /// Names and types of the columns.
    pub columns: Vec<(String, Type)>,
    /// Tables, views and types that it reads.
    pub reads: Vec<Oid>,
    /// Options with their values, in the order in which they were given.
    pub options: Vec<(String, String)>,
    /// Comments on columns, by their positions.
    pub comments: PartComments,
}

impl ViewBody {
    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.iter();
        let found = options.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A sequence; its next value is in a table of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceBody {
    /// Type of the values, which bounds them.
    pub data_type: Type,
    /// The first value, and that of `RESTART`.
    pub start: i64,
    /// The step to the next value, which may be negative.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Whether it begins again after its last value.
    pub cycles: bool,
    /// Values that a session takes at once.
    pub cache: i64,
    /// The table and the position of the column with which it goes.
    pub owner: Option<(Oid, usize)>,
    /// Its beginning, if that is not its first value under its own number.
    pub beginning: Option<Beginning>,
}

/// The beginning of a sequence that was restarted, or changed before its first value. A restart
/// takes another number for what is stored of it, so it is undone with its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The number under which its state is stored.
    pub number: Oid,
    /// The value that comes first.
    pub first: i64,
}

impl SequenceBody {
    /// The number under which the state of the sequence with a number is stored.
    pub fn number(&self, oid: Oid) -> Oid {
        self.beginning.map_or(oid, |beginning| beginning.number)
    }

    /// The value that comes first.
    pub fn first(&self) -> i64 {
        self.beginning
            .map_or(self.start, |beginning| beginning.first)
    }
}

/// An enum: its labels in their order, and the numbers by which rows keep them.
#[derive(Clone, Debug)]
pub struct EnumBody {
    /// The labels, in the order of the type.
    pub labels: Vec<String>,
    /// Ascending, with room between them for labels that come later.
    pub places: Vec<i32>,
}

impl EnumBody {
    /// Room after the last label for each that is added there.
    const STEP: i32 = 1 << 14;

    /// An enum with these labels.
    pub fn new(labels: Vec<String>) -> Self {
        let count = labels.len().max(2) as i64 - 1;
        let (low, high) = (-(1_i64 << 30), 1_i64 << 30);
        let place = |at: i64| (low + (high - low) / count * at) as i32;
        let places = (0..labels.len() as i64).map(place).collect();
        Self { labels, places }
    }

    /// Adds a label before the one at a position, or at the end; false if there is no room.
    pub fn insert(&mut self, at: usize, label: String) -> bool {
        let before = at
            .checked_sub(1)
            .and_then(|at| self.places.get(at))
            .copied();
        let place = match (before, self.places.get(at).copied()) {
            (None, None) => Some(0),
            (Some(before), None) => before.checked_add(Self::STEP),
            (None, Some(after)) => after.checked_sub(Self::STEP),
            (Some(before), Some(after)) => {
                let middle = i64::midpoint(before.into(), after.into()) as i32;
                (middle > before && middle < after).then_some(middle)
            }
        };
        if let Some(place) = place {
            self.labels.insert(at, label);
            self.places.insert(at, place);
        }
        place.is_some()
    }
}

/// A domain.
#[derive(Clone, Debug)]
pub struct DomainBody {
    /// The type below.
    pub base: Type,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// The expression for columns that have no default of their own.
    pub default: Option<String>,
    /// Names and conditions over `VALUE`.
    pub checks: Vec<(String, String)>,
    /// Names of checks that values may break which were there before them.
    pub unproven: Vec<String>,
    /// Comments on checks, by their positions.
    pub comments: PartComments,
    /// The [`array_of`](super::array_of) of the domain that elements of the type below are of.
    pub elements: Option<Oid>,
}

impl DomainBody {
    /// Removes the check at a position, with its comment.
    pub fn forget_check(&mut self, at: usize) {
        let (name, _) = self.checks.remove(at);
        self.unproven.retain(|own| *own != name);
        self.comments.retain(|(part, _)| *part != at);
        for (part, _) in &mut self.comments {
            *part -= usize::from(*part > at);
        }
    }
}

/// A type of rows.
#[derive(Clone, Debug)]
pub struct CompositeBody {
    /// Names and types of the fields.
    pub fields: Vec<(String, Type)>,
    /// Comments on fields, by their positions.
    pub comments: PartComments,
    /// The domains of the fields, as columns have them; 0 for none. The list is empty if there are
    /// none at all.
    pub domains: Vec<Oid>,
}

impl CompositeBody {
    /// The domain that a field is of, by its position.
    pub fn field_domain(&self, at: usize) -> Option<Oid> {
        self.domains.get(at).copied().filter(|domain| *domain != 0)
    }
}

/// Comments on parts of an object, by their positions.
pub type PartComments = Vec<(usize, String)>;

impl Body {
    /// Comments on columns, fields or checks of all but tables, which keep them with the columns.
    pub fn part_comments(&self) -> &[(usize, String)] {
        match self {
            Self::View(view) => &view.comments,
            Self::Composite(body) => &body.comments,
            Self::Domain(domain) => &domain.comments,
            _ => &[],
        }
    }

    /// The comment on a column or a field.
    pub fn column_comment(&self, at: usize) -> Option<&str> {
        match self {
            Self::Table(table) => table.columns.get(at)?.comment.as_deref(),
            Self::Domain(_) => None,
            _ => self.part_comment(at),
        }
    }

    /// The comment on a part.
    pub fn part_comment(&self, at: usize) -> Option<&str> {
        let found = self.part_comments().iter().find(|(part, _)| *part == at);
        found.map(|(_, text)| text.as_str())
    }

    /// Gives a part a comment, or takes it away.
    pub fn set_part_comment(&mut self, at: usize, comment: Option<String>) {
        let comments = match self {
            Self::Table(table) => {
                if let Some(column) = table.columns.get_mut(at) {
                    column.comment = comment;
                }
                return;
            }
            Self::View(view) => &mut view.comments,
            Self::Composite(body) => &mut body.comments,
            Self::Domain(domain) => &mut domain.comments,
            _ => return,
        };
        comments.retain(|(part, _)| *part != at);
        comments.extend(comment.map(|text| (at, text)));
    }

    /// Whether it has columns or fields.
    pub fn has_columns(&self) -> bool {
        matches!(self, Self::Table(_) | Self::View(_) | Self::Composite(_))
    }

    /// The position of a column or a field.
    pub fn column(&self, name: &str) -> Option<usize> {
        let at = |columns: &[(String, Type)]| columns.iter().position(|(own, _)| own == name);
        match self {
            Self::Table(table) => table.column(name),
            Self::View(view) => at(&view.columns),
            Self::Composite(body) => at(&body.fields),
            _ => None,
        }
    }
}

fn write_comments(writer: &mut Writer, comments: &[(usize, String)]) {
    writer.list(comments, |writer, (part, text)| {
        writer.number(*part as i64);
        writer.text(text);
    });
}

/// Bodies of earlier builds have no such comments.
fn read_comments(reader: &mut Reader<'_>) -> Result<PartComments> {
    reader.rest(|reader| Ok((reader.integer()?, reader.text()?)))
}

impl Object {
    /// The number of its kind in the row of the object.
    pub fn kind(&self) -> i16 {
        match self.body {
            Body::Schema => 1,
            Body::Table(_) => 2,
            Body::View(_) => 3,
            Body::Sequence(_) => 4,
            Body::Enum(_) => 5,
            Body::Domain(_) => 6,
            Body::Role(_) => 7,
            Body::Access(_) => 8,
            Body::Function(_) => 9,
            Body::Composite(_) => 10,
            Body::Defaults(_) => 11,
            Body::Extension => 12,
        }
    }

    /// The letter of its kind, as in default privileges.
    pub fn kind_letter(&self) -> char {
        match &self.body {
            Body::Table(_) | Body::View(_) => 'r',
            Body::Sequence(_) => 'S',
            Body::Schema => 'n',
            Body::Function(_) => 'f',
            _ => 'T',
        }
    }

    /// Its kind, for messages.
    pub fn kind_name(&self) -> &'static str {
        match &self.body {
            Body::Schema => "schema",
            Body::Table(TableBody {
                materialized: Some(_),
                ..
            }) => "materialized view",
            Body::Table(_) => "table",
            Body::View(_) => "view",
            Body::Sequence(_) => "sequence",
            Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => "type",
            Body::Role(_) => "role",
            Body::Access(_) => "access",
            Body::Defaults(_) => "defaults",
            Body::Extension => "extension",
            Body::Function(_) => "function",
        }
    }

    /// The body of its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.option(self.comment.as_ref(), |writer, text| writer.text(text));
        match &self.body {
            Body::Schema | Body::Extension => {}
            Body::Table(table) => table.write(&mut writer),
            Body::View(view) => {
                writer.text(&view.query);
                writer.list(&view.columns, |writer, (name, data_type)| {
                    writer.text(name);
                    write_type(writer, data_type);
                });
                writer.list(&view.reads, |writer, oid| writer.number((*oid).into()));
                if !view.options.is_empty() || !view.comments.is_empty() {
                    writer.list(&view.options, |writer, (name, value)| {
                        writer.text(name);
                        writer.text(value);
                    });
                }
                if !view.comments.is_empty() {
                    write_comments(&mut writer, &view.comments);
                }
            }
            Body::Sequence(sequence) => sequence.write(&mut writer),
            Body::Role(role) => role.write(&mut writer),
            Body::Access(access) => access.write(&mut writer),
            Body::Defaults(defaults) => defaults.write(&mut writer),
            Body::Function(function) => function.write(&mut writer),
            Body::Composite(body) => {
                writer.list(&body.fields, |writer, (name, data_type)| {
                    writer.text(name);
                    write_type(writer, data_type);
                });
                // Types without domains are written as by earlier builds.
                if !body.comments.is_empty() || !body.domains.is_empty() {
                    write_comments(&mut writer, &body.comments);
                }
                if !body.domains.is_empty() {
                    writer.list(&body.domains, |writer, oid| writer.number((*oid).into()));
                }
            }
            Body::Enum(body) => {
                writer.list(&body.labels, |writer, label| writer.text(label));
                writer.list(&body.places, |writer, place| writer.number((*place).into()));
            }
            Body::Domain(domain) => {
                write_type(&mut writer, &domain.base);
                writer.flag(domain.not_null);
                writer.option(domain.default.as_ref(), |writer, text| writer.text(text));
                writer.list(&domain.checks, |writer, (name, condition)| {
                    writer.text(name);
                    writer.text(condition);
                });
                let has_more = !domain.comments.is_empty() || domain.elements.is_some();
                if !domain.unproven.is_empty() || has_more {
                    writer.list(&domain.unproven, |writer, name| writer.text(name));
                    write_comments(&mut writer, &domain.comments);
                }
                if let Some(elements) = domain.elements {
                    writer.list(&[elements], |writer, oid| writer.number((*oid).into()));
                }
            }
        }
        writer.finish()
    }

    /// The object of a row.
    pub fn decode(
        (oid, kind, namespace): (Oid, i16, Oid),
        name: &str,
        bytes: &[u8],
    ) -> Result<Self> {
        let reader = &mut Reader::new(name, bytes)?;
        let comment = reader.option(Reader::text)?;
        let body = match kind {
            1 => Body::Schema,
            2 => Body::Table(TableBody::read(reader)?),
            3 => Body::View(ViewBody {
                query: reader.text()?,
                columns: reader.list(|reader| Ok((reader.text()?, read_type(reader)?)))?,
                reads: reader.list(Reader::integer)?,
                // Views without options have no list of them.
                options: reader.rest(|reader| Ok((reader.text()?, reader.text()?)))?,
                comments: read_comments(reader)?,
            }),
            4 => Body::Sequence(SequenceBody::read(reader)?),
            7 => Body::Role(RoleBody::read(reader)?),
            8 => Body::Access(AccessBody::read(reader)?),
            11 => Body::Defaults(DefaultsBody::read(reader)?),
            12 => Body::Extension,
            9 => Body::Function(FunctionBody::read(reader)?),
            10 => Body::Composite(CompositeBody {
                fields: reader.list(|reader| Ok((reader.text()?, read_type(reader)?)))?,
                comments: read_comments(reader)?,
                domains: reader.rest(Reader::integer)?,
            }),
            5 => {
                let labels = reader.list(Reader::text)?;
                // Enums that were written without places have those of a list.
                let places = if reader.is_at_end() {
                    (0..labels.len() as i32).collect()
                } else {
                    reader.list(Reader::integer)?
                };
                Body::Enum(EnumBody { labels, places })
            }
            6 => Body::Domain(DomainBody {
                base: read_type(reader)?,
                not_null: reader.flag()?,
                default: reader.option(Reader::text)?,
                checks: reader.list(|reader| Ok((reader.text()?, reader.text()?)))?,
                unproven: reader.rest(Reader::text)?,
                comments: read_comments(reader)?,
                elements: reader.rest(Reader::integer)?.pop(),
            }),
            _ => return Err(reader.damaged()),
        };
        Ok(Self {
            oid,
            namespace,
            name: name.to_owned(),
            comment,
            body,
        })
    }
}

impl TableBody {
    /// A table without columns.
    pub const fn empty() -> Self {
        Self {
            physical: String::new(),
            columns: Vec::new(),
            key: Vec::new(),
            constraints: Vec::new(),
            indexes: Vec::new(),
            hidden: Vec::new(),
            forms: Vec::new(),
            lineage: Lineage::alone(),
            comments: Vec::new(),
            included: Vec::new(),
            unproven: Vec::new(),
            alike: Vec::new(),
            materialized: None,
            local: Vec::new(),
            alone: Vec::new(),
        }
    }

    fn write(&self, writer: &mut Writer) {
        writer.text(&self.physical);
        writer.list(&self.columns, |writer, column| column.write(writer));
        write_positions(writer, &self.key);
        writer.list(&self.constraints, |writer, constraint| {
            writer.number(constraint.oid.into());
            writer.text(&constraint.name);
            constraint.rule.write(writer);
        });
        writer.list(&self.indexes, |writer, index| index.write(writer));
        writer.list(&self.hidden, |writer, hidden| {
            write_type(writer, &hidden.data_type);
            writer.option(hidden.value.as_ref(), |writer, text| writer.text(text));
            writer.text(&hidden.label);
        });
        writer.list(&self.forms, |writer, form| {
            writer.number(form.index.into());
            writer.list(&form.keys, |writer, key| writer.text(key));
            writer.option(form.predicate.as_ref(), |writer, text| writer.text(text));
        });
        self.lineage.write(writer);
        self.write_parts(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut table = Self {
            physical: reader.text()?,
            columns: reader.list(Column::read)?,
            key: read_positions(reader)?,
            constraints: reader.list(|reader| {
                Ok(Constraint {
                    oid: reader.integer()?,
                    name: reader.text()?,
                    rule: Rule::read(reader)?,
                })
            })?,
            indexes: reader.list(Index::read)?,
            // Tables that were written without these have none.
            hidden: reader.rest(|reader| {
                Ok(Hidden {
                    data_type: read_type(reader)?,
                    value: reader.option(Reader::text)?,
                    label: reader.text()?,
                    keeps: None,
                })
            })?,
            forms: reader.rest(|reader| {
                Ok(IndexForm {
                    index: reader.integer()?,
                    keys: reader.list(Reader::text)?,
                    predicate: reader.option(Reader::text)?,
                })
            })?,
            lineage: Lineage::read(reader)?,
            ..Self::empty()
        };
        table.read_parts(reader)?;
        Ok(table)
    }

    /// The numbers of its indexes and constraints.
    pub fn parts(&self) -> impl Iterator<Item = Oid> + '_ {
        let indexes = self.indexes.iter().map(|index| index.oid);
        indexes.chain(self.constraints.iter().map(|constraint| constraint.oid))
    }

    /// The columns of the primary key.
    pub fn primary(&self) -> Option<&[usize]> {
        let mut rules = self.constraints.iter().map(|constraint| &constraint.rule);
        rules.find_map(|rule| match rule {
            Rule::Primary { columns, .. } => Some(columns.as_slice()),
            _ => None,
        })
    }

    /// The moment at which the keys of an index are checked, if it is unique.
    pub fn deferral(&self, index: &Index) -> Deferral {
        let mut constraints = self.constraints.iter();
        let own = constraints.find(|constraint| {
            constraint.name == index.name
                && matches!(constraint.rule, Rule::Primary { .. } | Rule::Unique { .. })
        });
        own.map_or(Deferral::Never, |constraint| constraint.rule.deferral())
    }

    /// The key that a foreign key to these columns needs: the oldest one that was there when it was
    /// made.
    pub fn key_of_reference(&self, made: Oid, columns: &[usize]) -> Option<&Index> {
        let is_of_all = |index: &Index| {
            let mut own = index.columns.iter();
            index.columns.len() == columns.len() && own.all(|at| columns.contains(at))
        };
        let keys = self.indexes.iter().filter(|index| {
            index.is_unique && is_of_all(index) && self.deferral(index) == Deferral::Never
        });
        keys.min_by_key(|index| (index.oid > made, index.oid))
    }

    /// The position of a column by its name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

impl Column {
    /// A column without a default that may be NULL.
    pub fn new(name: impl Into<String>, data_type: Type) -> Self {
        Self {
            name: name.into(),
            data_type,
            not_null: false,
            default: None,
            origin: Origin::Given,
            domain: None,
            comment: None,
        }
    }

    /// The expression of its default, or the one that it is generated by.
    pub fn expression(&self) -> Option<&str> {
        match &self.origin {
            Origin::Generated(expression) => Some(expression),
            _ => self.default.as_deref(),
        }
    }

    fn write(&self, writer: &mut Writer) {
        writer.text(&self.name);
        write_type(writer, &self.data_type);
        writer.flag(self.not_null);
        writer.option(self.default.as_ref(), |writer, text| writer.text(text));
        match &self.origin {
            Origin::Given => writer.byte(0),
            Origin::Generated(expression) => {
                writer.byte(1);
                writer.text(expression);
            }
            Origin::Identity { always, sequence } => {
                writer.byte(2);
                writer.flag(*always);
                writer.number((*sequence).into());
            }
        }
        writer.option(self.domain.as_ref(), |writer, oid| {
            writer.number((*oid).into());
        });
        writer.option(self.comment.as_ref(), |writer, text| writer.text(text));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            name: reader.text()?,
            data_type: read_type(reader)?,
            not_null: reader.flag()?,
            default: reader.option(Reader::text)?,
            origin: match reader.byte()? {
                0 => Origin::Given,
                1 => Origin::Generated(reader.text()?),
                2 => Origin::Identity {
                    always: reader.flag()?,
                    sequence: reader.integer()?,
                },
                _ => return Err(reader.damaged()),
            },
            domain: reader.option(Reader::integer)?,
            comment: reader.option(Reader::text)?,
        })
    }
}

impl Index {
    fn write(&self, writer: &mut Writer) {
        writer.number(self.oid.into());
        writer.text(&self.name);
        writer.option(self.physical.as_ref(), |writer, text| writer.text(text));
        write_positions(writer, &self.columns);
        writer.flag(self.is_unique);
        writer.list(&self.options, |writer, (descends, nulls_first)| {
            writer.flag(*descends);
            writer.flag(*nulls_first);
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            oid: reader.integer()?,
            name: reader.text()?,
            physical: reader.option(Reader::text)?,
            columns: read_positions(reader)?,
            is_unique: reader.flag()?,
            options: reader.list(|reader| Ok((reader.flag()?, reader.flag()?)))?,
        })
    }
}

impl SequenceBody {
    fn write(&self, writer: &mut Writer) {
        write_type(writer, &self.data_type);
        for number in [self.start, self.increment, self.min, self.max, self.cache] {
            writer.number(number);
        }
        writer.flag(self.cycles);
        writer.option(self.owner.as_ref(), |writer, (table, column)| {
            writer.number((*table).into());
            writer.number(*column as i64);
        });
        // One that has begun as it was made has none, as all of earlier builds.
        if let Some(beginning) = &self.beginning {
            writer.number(beginning.number.into());
            writer.number(beginning.first);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            data_type: read_type(reader)?,
            start: reader.number()?,
            increment: reader.number()?,
            min: reader.number()?,
            max: reader.number()?,
            cache: reader.number()?,
            cycles: reader.flag()?,
            owner: reader.option(|reader| Ok((reader.integer()?, reader.integer()?)))?,
            beginning: match reader.is_at_end() {
                true => None,
                false => Some(Beginning {
                    number: reader.integer()?,
                    first: reader.number()?,
                }),
            },
        })
    }
}
