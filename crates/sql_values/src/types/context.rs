//! The surroundings of a value's conversion and of a function's call.
//!
//! Texts of dates, zones and catalogue numbers depend on settings of the session and on its
//! catalogue. Both come from above: this module only says in which form.

use super::datum::{Datum, EnumLabel, RecordShape};
use super::kind::Kind;
use super::random::Random;
use crate::error::{Result, SqlError, SqlState};
use jiff::tz::TimeZone;
use std::sync::Arc;

/// The order of a date's fields where its text does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// The form in which dates and times are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DateStyle {
    /// `1997-12-17 07:37:16-08`.
    #[default]
    Iso,
    /// `12/17/1997 07:37:16.00 PST`.
    Sql,
    /// `Wed Dec 17 07:37:16 1997 PST`.
    Postgres,
    /// `17.12.1997 07:37:16.00 PST`.
    German,
}

/// The form in which intervals are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`.
    Iso8601,
}

/// The form in which bytes are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ByteaOutput {
    /// `\x` and hexadecimal digits.
    #[default]
    Hex,
    /// Printable characters and octal escapes.
    Escape,
}

/// Settings of a session that texts depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The form of dates and times.
    pub date_style: DateStyle,
    /// The order of a date's fields.
    pub date_order: DateOrder,
    /// The form of intervals.
    pub interval_style: IntervalStyle,
    /// The form of bytes.
    pub bytea_output: ByteaOutput,
    /// `extra_float_digits`: above 0, numbers print so that they read back exactly.
    pub extra_float_digits: i32,
    /// The zone of the session.
    pub zone: TimeZone,
    /// The name by which the zone was set.
    pub zone_name: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            date_style: DateStyle::default(),
            date_order: DateOrder::default(),
            interval_style: IntervalStyle::default(),
            bytea_output: ByteaOutput::default(),
            extra_float_digits: 1,
            zone: TimeZone::UTC,
            zone_name: "UTC".to_owned(),
        }
    }
}

/// The catalogue, as far as texts of values need it.
pub trait Names {
    /// The label of an enum.
    fn enum_label(&self, enum_oid: u32, label: &str) -> Option<EnumLabel>;

    /// All labels of an enum in their order.
    fn enum_labels(&self, enum_oid: u32) -> Vec<EnumLabel>;

    /// The name of a type that is the catalogue's own, with its schema where that is needed.
    fn type_name(&self, kind: Kind) -> Option<String>;

    /// The fields of a row type.
    fn row_shape(&self, composite_oid: u32) -> Option<Arc<RecordShape>>;

    /// The name of an object as `regclass` and its kin print it, if it exists.
    fn object_name(&self, kind: Kind, oid: u32) -> Option<String>;

    /// The number of the object that a text names, for `regclass` and its kin.
    fn object_oid(&self, kind: Kind, name: &str) -> Result<u32>;
}

/// Names where there is no catalogue.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn enum_label(&self, _: u32, _: &str) -> Option<EnumLabel> {
        None
    }

    fn enum_labels(&self, _: u32) -> Vec<EnumLabel> {
        Vec::new()
    }

    fn type_name(&self, _: Kind) -> Option<String> {
        None
    }

    fn row_shape(&self, _: u32) -> Option<Arc<RecordShape>> {
        None
    }

    fn object_name(&self, kind: Kind, oid: u32) -> Option<String> {
        match kind {
            Kind::Regtype => Kind::from_oid(oid).map(Kind::name),
            _ => None,
        }
    }

    fn object_oid(&self, kind: Kind, name: &str) -> Result<u32> {
        let found = match kind {
            Kind::Regtype => Kind::from_name(name).map(Kind::oid),
            _ => None,
        };
        found.ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("type \"{name}\" does not exist"),
            )
        })
    }
}

/// The surroundings of a conversion.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Settings of the session.
    pub settings: &'a Settings,
    /// The catalogue.
    pub names: &'a dyn Names,
    /// The begin of the transaction, in microseconds since 2000-01-01 UTC.
    pub transaction_start: i64,
    /// The begin of the statement, likewise.
    pub statement_start: i64,
}

/// Functions that need the session: sequences, settings, the catalogue, locks.
pub trait Host {
    /// Calls the function, which [`super::function::Body::Host`] names.
    fn call(
        &mut self,
        context: &Context<'_>,
        function: &'static str,
        arguments: &[Datum],
    ) -> Result<Datum>;
}

/// A host without functions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn call(&mut self, _: &Context<'_>, function: &'static str, _: &[Datum]) -> Result<Datum> {
        Err(SqlError::internal(format!(
            "function {function} needs a session"
        )))
    }
}

/// The surroundings of a call.
pub struct CallContext<'a> {
    /// Settings, catalogue and times.
    pub context: Context<'a>,
    /// The types of the call's arguments, for functions that take any.
    pub argument_types: &'a [super::Type],
    /// The type of the call's result, for functions whose result depends on the call.
    pub result_type: super::Type,
    /// The numbers of `random()`.
    pub random: &'a mut Random,
    /// The session.
    pub host: &'a mut dyn Host,
}
