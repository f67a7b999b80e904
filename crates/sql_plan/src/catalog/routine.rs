//! Functions that users define in SQL.
//!
//! A function has a body of one query. Several functions may have one name, so the name of a
//! function among the objects ends with the types of its arguments.

use super::fields::{read_type, write_type};
use super::{Oid, domain_of};
use crate::error::Result;
use crate::types::function::Volatility;
use crate::types::{Kind, Type};
use sql_values::codec::{Reader, Writer};

/// A function.
#[derive(Clone, Debug)]
pub struct FunctionBody {
    /// Names, where they have one, and types of the arguments.
    pub arguments: Vec<(Option<String>, Type)>,
    /// Expressions for the last of the arguments, where a call leaves them out.
    pub defaults: Vec<String>,
    /// Type of the result, or of each row of it.
    pub result: Type,
    /// Names and types of the fields of its rows (`RETURNS TABLE`), if they are of no type of the
    /// catalogue.
    pub columns: Vec<(String, Type)>,
    /// Whether it gives all rows of its query, instead of the first one.
    pub returns_set: bool,
    /// Whether it is NULL if an argument is.
    pub is_strict: bool,
    /// Whether the same arguments give the same result.
    pub volatility: Volatility,
    /// The query, whose parameters are the arguments.
    pub query: String,
    /// The domains of the arguments, and then of the result or of the columns, as columns of tables
    /// have them; 0 for none. The list is empty if there are none at all.
    pub domains: Vec<Oid>,
}

impl FunctionBody {
    /// The name by which a function with this name is found among all objects.
    pub fn key(&self, name: &str) -> String {
        let arguments = self.arguments.iter();
        let oids = arguments.map(|(_, data_type)| data_type.kind.oid().to_string());
        format!("{name}({})", oids.collect::<Vec<_>>().join(","))
    }

    /// The domain that an argument is of, by its position.
    pub fn argument_domain(&self, at: usize) -> Option<Oid> {
        self.domains.get(at).copied().filter(|domain| *domain != 0)
    }

    /// The domain that the result is of, or a column of it.
    pub fn result_domain(&self, column: usize) -> Option<Oid> {
        self.argument_domain(self.arguments.len() + column)
    }

    /// The default of an argument by its position.
    pub fn default_of(&self, at: usize) -> Option<&String> {
        let first = self.arguments.len().checked_sub(self.defaults.len())?;
        self.defaults.get(at.checked_sub(first)?)
    }

    /// Whether its arguments, its result or a field of its rows is of a type, or of arrays of it.
    pub fn has_type(&self, oid: Oid) -> bool {
        let arguments = self.arguments.iter().map(|(_, one)| one);
        let columns = self.columns.iter().map(|(_, one)| one);
        let mut types = arguments.chain(columns).chain([&self.result]);
        let mut domains = self.domains.iter();
        domains.any(|own| *own != 0 && domain_of(*own) == oid)
            || types.any(|one| {
                let element = one.kind.element().map(Kind::oid);
                one.kind.oid() == oid || element == Some(oid)
            })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.list(&self.arguments, |writer, (name, data_type)| {
            writer.option(name.as_ref(), |writer, text| writer.text(text));
            write_type(writer, data_type);
        });
        write_type(writer, &self.result);
        writer.flag(self.returns_set);
        writer.flag(self.is_strict);
        writer.byte(match self.volatility {
            Volatility::Immutable => 0,
            Volatility::Stable => 1,
            Volatility::Volatile => 2,
        });
        writer.text(&self.query);
        // Functions without defaults and columns are written as by earlier builds.
        let has_domains = !self.domains.is_empty();
        if has_domains || !self.defaults.is_empty() || !self.columns.is_empty() {
            writer.list(&self.defaults, |writer, text| writer.text(text));
        }
        if has_domains || !self.columns.is_empty() {
            writer.list(&self.columns, |writer, (name, data_type)| {
                writer.text(name);
                write_type(writer, data_type);
            });
        }
        if has_domains {
            writer.list(&self.domains, |writer, oid| writer.number((*oid).into()));
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            arguments: reader
                .list(|reader| Ok((reader.option(Reader::text)?, read_type(reader)?)))?,
            result: read_type(reader)?,
            returns_set: reader.flag()?,
            is_strict: reader.flag()?,
            volatility: match reader.byte()? {
                0 => Volatility::Immutable,
                1 => Volatility::Stable,
                2 => Volatility::Volatile,
                _ => return Err(reader.damaged()),
            },
            query: reader.text()?,
            defaults: reader.rest(Reader::text)?,
            columns: reader.rest(|reader| Ok((reader.text()?, read_type(reader)?)))?,
            domains: reader.rest(Reader::integer)?,
        })
    }
}
