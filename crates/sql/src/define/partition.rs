//! `INHERITS`, and partitions: the columns and rules that a table takes from others, and the bounds
//! of its rows.
//!
//! A new partition must not take what another one takes, nor what the default one has already.

use super::column::{Written, WrittenCheck, without_collation};
use super::immutable::Mutable;
use super::like::keys_like;
use super::temporary::Descent;
use crate::catalog::{
    Body, Column, Lineage, Object, Oid, Origin, PartitionBound, RangeEnd, Rule, Scheme, Strategy,
    TableBody,
};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Arm, HashClass, Level, Next, Takes, Values};
use crate::run::Row;
use crate::session::Session;
use crate::state::quoted;
use crate::types::{Datum, Kind, text_io};
use sql_bind::Binder;
use sql_parse::{LineIndex, object_name, parse_expression};
use sqlparser::ast::{
    self, Expr, ForValues, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
    PartitionBoundValue,
};
use std::sync::Arc;

impl Session {
    /// Calls `body` with a binder that belongs to no statement.
    pub(crate) fn binding<R>(&self, body: impl FnOnce(&mut Binder<'_>) -> R) -> R {
        let places = LineIndex::default();
        let environment = &self.environment;
        let database = self.sql.database();
        let mut binder = Binder::new(&environment.names, database, environment.context(), &places);
        body(&mut binder)
    }

    /// The tables that a new one inherits from.
    pub(super) fn parents_of(
        &self,
        create: &ast::CreateTable,
        namespace: Oid,
    ) -> Result<Vec<Arc<Object>>> {
        let descent = match create.partition_of {
            Some(_) => Descent::Created,
            None => Descent::Inherits,
        };
        let mut parents: Vec<Arc<Object>> = Vec::new();
        for name in create.inherits.iter().flatten().chain(&create.partition_of) {
            let parent = self.named_table(name)?;
            self.must_own(&parent)?;
            let is_partitioned = body_of(&parent)?.lineage.scheme.is_some();
            if let (true, Some(_)) = (is_partitioned, &create.inherits) {
                let message = format!("cannot inherit from partitioned table \"{}\"", parent.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            if create.partition_of.is_some() && !is_partitioned {
                return Err(not_partitioned(&parent.name));
            }
            self.check_descent_lasts(namespace, &parent, descent)?;
            if parents.iter().any(|known| known.oid == parent.oid) {
                let name = &parent.name;
                let message = format!("relation \"{name}\" would be inherited from more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            parents.push(parent);
        }
        Ok(parents)
    }

    /// The columns that a new table has from others; their rules go to `written`.
    pub(super) fn inherited(
        &mut self,
        parents: &[Arc<Object>],
        is_partition: bool,
        written: &mut Written,
    ) -> Result<Vec<Column>> {
        let mut columns: Vec<Column> = Vec::new();
        for parent in parents {
            let body = body_of(parent)?;
            for column in &body.columns {
                let mut new = column.clone();
                if matches!(new.origin, Origin::Identity { .. }) {
                    new.origin = Origin::Given;
                }
                new.comment = None;
                match columns.iter_mut().find(|own| own.name == new.name) {
                    None => columns.push(new),
                    Some(own) => {
                        let message = format!(
                            "merging multiple inherited definitions of column \"{}\"",
                            own.name
                        );
                        self.environment.host.notice(message);
                        check_type(own, &new, true)?;
                        own.not_null |= new.not_null;
                    }
                }
            }
            for constraint in &body.constraints {
                if let Rule::Check { condition } = &constraint.rule
                    && !body.alone.contains(&constraint.oid)
                {
                    let name = Some(constraint.name.clone());
                    if !written.checks.iter().any(|own| own.name == name) {
                        written.checks.push(WrittenCheck {
                            name,
                            condition: parse_expression(condition)?,
                            is_alone: false,
                        });
                    }
                }
            }
            if is_partition {
                keys_like(body, written);
            }
        }
        Ok(columns)
    }

    /// A column that is written although a table above has one of its name.
    pub(super) fn merge_column(&mut self, own: &mut Column, new: Column) -> Result<()> {
        let message = format!("merging column \"{}\" with inherited definition", own.name);
        self.environment.host.notice(message);
        check_type(own, &new, false)?;
        own.not_null |= new.not_null;
        own.default = new.default.or(own.default.take());
        if new.origin != Origin::Given {
            own.origin = new.origin;
        }
        Ok(())
    }

    /// Takes what is written of a column of a new partition, which has its type from above.
    pub(super) fn refine_column(
        &mut self,
        table: (Oid, &str),
        definition: &ast::ColumnDef,
        columns: &mut [Column],
        written: &mut Written,
    ) -> Result<()> {
        let name = sql_parse::ident_text(&definition.name);
        let column = columns.iter_mut().find(|column| column.name == name);
        let column = column.ok_or_else(|| {
            let message = format!("column \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        for option in &definition.options {
            let own = option.name.as_ref().map(sql_parse::ident_text);
            self.column_option(table, column, (own, &option.option), written)?;
        }
        Ok(())
    }

    /// The keys of `PARTITION BY`.
    pub(super) fn scheme(&self, tree: &Expr, name: &str, columns: &[Column]) -> Result<Scheme> {
        let unsupported =
            |found: String| SqlError::unsupported(found, "Use PARTITION BY RANGE, LIST or HASH.");
        let Expr::Function(ast::Function {
            name: strategy,
            args: FunctionArguments::List(arguments),
            ..
        }) = tree
        else {
            return Err(unsupported(format!("PARTITION BY {tree}")));
        };
        let strategy = match object_name(strategy)?.1.as_str() {
            "range" => Strategy::Range,
            "list" => Strategy::List,
            "hash" => Strategy::Hash,
            other => {
                let message = format!("unrecognized partitioning strategy \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        let mut keys = Vec::new();
        for argument in &arguments.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) = argument else {
                return Err(unsupported(format!("the partition key {argument}")));
            };
            let key = without_collation(key);
            if let Expr::Identifier(own) = key {
                let own = sql_parse::ident_text(own);
                let Some(column) = columns.iter().find(|column| column.name == own) else {
                    let message = format!("column \"{own}\" named in partition key does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                };
                if strategy == Strategy::Hash {
                    check_hash(column.data_type.kind)?;
                }
            }
            let text = self.kept_text(key, "partition key expression")?;
            self.check_text(&text, (name, columns), None, false)?;
            let place = Mutable::Functions("partition key expression");
            self.refuse_mutable(&text, (name, columns), &place)?;
            keys.push(text);
        }
        if strategy == Strategy::List && keys.len() != 1 {
            let message = "cannot use \"list\" partition strategy with more than one column";
            let state = SqlState::INVALID_OBJECT_DEFINITION;
            return Err(SqlError::new(state, message));
        }
        Ok(Scheme { strategy, keys })
    }

    /// Fails if a key of a partitioned table could hold a value in several partitions.
    pub(super) fn check_partition_keys(&self, body: &TableBody) -> Result<()> {
        body.constraints
            .iter()
            .try_for_each(|constraint| match &constraint.rule {
                Rule::Primary { columns, .. } => {
                    self.check_partition_key(body, ("PRIMARY KEY", columns))
                }
                Rule::Unique { columns, .. } => self.check_partition_key(body, ("UNIQUE", columns)),
                _ => Ok(()),
            })
    }

    /// Fails if one unique key of a partitioned table does.
    pub(super) fn check_partition_key(
        &self,
        body: &TableBody,
        (kind, columns): (&str, &[usize]),
    ) -> Result<()> {
        let state = SqlState::FEATURE_NOT_SUPPORTED;
        for key in body.lineage.scheme.iter().flat_map(|scheme| &scheme.keys) {
            let Some(at) = body.column(key.trim_matches('"')) else {
                let message =
                    format!("unsupported {kind} constraint with partition key definition");
                let detail = format!(
                    "{kind} constraints cannot be used when partition keys include expressions."
                );
                return Err(SqlError::new(state, message).detail(detail));
            };
            if !columns.contains(&at) {
                let message =
                    "unique constraint on partitioned table must include all partitioning columns";
                let detail = format!(
                    "{kind} constraint lacks column \"{key}\" which is part of the partition key."
                );
                return Err(SqlError::new(state, message).detail(detail));
            }
        }
        Ok(())
    }

    /// Gives a new table its place among others, and the references of the table above.
    pub(super) fn set_lineage(&mut self, oid: Oid, lineage: Lineage) -> Result<()> {
        let mut object = self.altered(oid)?;
        let parent = match (&lineage.bound, lineage.parents.first()) {
            (Some(_), Some(parent)) => Some(self.altered(*parent)?),
            _ => None,
        };
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        if let Some(above) = &parent {
            self.inherit_references(body_of(above)?, body);
        }
        body.lineage = lineage;
        self.check_partition_keys(body)?;
        self.put(object, None)
    }

    /// The bound of a partition, which no other partition crosses.
    pub(super) fn partition_bound(
        &mut self,
        parent: &Object,
        (oid, name): (Oid, &str),
        written: &ForValues,
    ) -> Result<PartitionBound> {
        let body = body_of(parent)?;
        let strategy = body.lineage.scheme.as_ref().map(|scheme| scheme.strategy);
        let mut level = self.binding(|binder| binder.level(parent, &body.columns))?;
        let bound = match (written, strategy) {
            (ForValues::Default, Some(Strategy::Hash)) => {
                let message = "a hash-partitioned table may not have a default partition";
                let state = SqlState::INVALID_TABLE_DEFINITION;
                return Err(SqlError::new(state, message));
            }
            (ForValues::Default, _) => PartitionBound::Default,
            (ForValues::In(values), Some(Strategy::List)) => {
                let mut texts: Vec<Option<String>> = Vec::new();
                for value in values {
                    let text = self.bound_value(value, &level, 0)?;
                    if !texts.contains(&text) {
                        texts.push(text);
                    }
                }
                PartitionBound::In(texts)
            }
            (ForValues::From { from, to }, Some(Strategy::Range)) => {
                PartitionBound::Range(self.range_end(from, &level)?, self.range_end(to, &level)?)
            }
            (ForValues::With { modulus, remainder }, Some(Strategy::Hash)) => {
                self.remainder_bound(*modulus, *remainder, &level)?
            }
            _ => {
                let strategy = strategy.map_or("range", Strategy::name);
                let message = format!("invalid bound specification for a {strategy} partition");
                let state = SqlState::INVALID_TABLE_DEFINITION;
                return Err(SqlError::new(state, message));
            }
        };
        let takes = self.binding(|binder| binder.takes(&bound, &level.keys))?;
        let invalid = |message| Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        if takes.is_empty() {
            return invalid(format!(
                "empty range bound specified for partition \"{name}\""
            ));
        }
        if let Some(other) = level.arms.iter().find(|arm| arm.takes.overlaps(&takes)) {
            let other = self.altered(other.table)?.name;
            return invalid(match bound {
                PartitionBound::Default => {
                    format!(
                        "partition \"{name}\" conflicts with existing default partition \"{other}\""
                    )
                }
                _ => format!("partition \"{name}\" would overlap partition \"{other}\""),
            });
        }
        level.arms.push(Arm {
            table: oid,
            takes,
            next: Next::Unknown,
        });
        if let (Some(rest), false) = (level.rest(), bound == PartitionBound::Default) {
            let other = self.altered(level.arms[rest].table)?;
            let added = level.arms.len() - 1;
            if self.has_rows_of(&other, &level, |arm| arm == Some(added))? {
                let message = format!(
                    "updated partition constraint for default partition \"{}\" would be violated by some row",
                    other.name
                );
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message));
            }
        }
        Ok(bound)
    }

    /// The bound of a partition by hash. Its modulus must be a multiple of those of all others, or
    /// they of it: no key would have one place otherwise.
    fn remainder_bound(
        &self,
        modulus: u64,
        remainder: u64,
        level: &Level,
    ) -> Result<PartitionBound> {
        let mut kinds = level.keys.iter().map(|(key, _)| key.kind());
        kinds.try_for_each(check_hash)?;
        let bound = share_of(modulus, remainder)?;
        for arm in &level.arms {
            let Takes::Remainder(share) = &arm.takes else {
                continue;
            };
            let other = share.modulus;
            let relation = match other {
                other if other.is_multiple_of(modulus) || modulus.is_multiple_of(other) => continue,
                other if other > modulus => "a factor of",
                _ => "divisible by",
            };
            let message =
                "every hash partition modulus must be a factor of the next larger modulus";
            let detail = format!(
                "The new modulus {modulus} is not {relation} {other}, the modulus of existing partition \"{}\".",
                self.altered(arm.table)?.name
            );
            let state = SqlState::INVALID_OBJECT_DEFINITION;
            return Err(SqlError::new(state, message).detail(detail));
        }
        Ok(bound)
    }

    fn range_end(&mut self, end: &[PartitionBoundValue], level: &Level) -> Result<Vec<RangeEnd>> {
        let invalid = |message: String| SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
        if end.len() != level.keys.len() {
            let message = "FROM and TO must specify exactly one value per partitioning column";
            return Err(invalid(message.to_owned()));
        }
        let mut keys = Vec::with_capacity(end.len());
        for (at, value) in end.iter().enumerate() {
            let key = match value {
                PartitionBoundValue::MinValue => RangeEnd::Min,
                PartitionBoundValue::MaxValue => RangeEnd::Max,
                PartitionBoundValue::Expr(value) => {
                    let text = self.bound_value(value, level, at)?;
                    let no_null = || invalid("cannot specify NULL in range bound".to_owned());
                    RangeEnd::At(text.ok_or_else(no_null)?)
                }
            };
            if let Some(before @ (RangeEnd::Min | RangeEnd::Max)) = keys.last()
                && *before != key
            {
                let word = if *before == RangeEnd::Min {
                    "MINVALUE"
                } else {
                    "MAXVALUE"
                };
                let message = format!("every bound following {word} must also be {word}");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
            keys.push(key);
        }
        Ok(keys)
    }

    /// A value of a bound, as a text of the type of its key.
    fn bound_value(&mut self, tree: &Expr, level: &Level, at: usize) -> Result<Option<String>> {
        let (key, label) = &level.keys[at];
        let data_type = key.data_type();
        let value = self.binding(|binder| binder.constant(tree, data_type, label))?;
        let rows = Values {
            rows: vec![vec![value]],
            width: 1,
        };
        let rows = self.rows_of(&rows.into())?;
        match rows.first().and_then(|row| row.first()) {
            None | Some(Datum::Null) => Ok(None),
            Some(value) => {
                let context = self.environment.context();
                text_io::print(value, data_type.kind, &context).map(Some)
            }
        }
    }

    /// Whether a table has a row whose arm of a level is one that is looked for.
    fn has_rows_of(
        &mut self,
        object: &Object,
        level: &Level,
        is_wanted: impl Fn(Option<usize>) -> bool,
    ) -> Result<bool> {
        let keys = level.keys.iter().map(|(_, label)| label.as_str());
        let keys = keys.collect::<Vec<_>>().join(", ");
        let schema = self.catalog().object(object.namespace);
        let schema = schema.map_or("public", |schema| &schema.name);
        let text = format!(
            "select distinct {keys} from {}.{}",
            quoted(schema),
            quoted(&object.name)
        );
        self.lock_rows_of(object.oid)?;
        let rows = self.query_rows(&text)?;
        Ok(rows.iter().any(|row| is_wanted(level.arm(row))))
    }

    /// All rows of a query of tables that are locked.
    pub(super) fn query_rows(&mut self, text: &str) -> Result<Vec<Row>> {
        let plan = match sql_parse::parse(text)?.as_slice() {
            [parsed] => self.plan_stored(parsed)?,
            _ => None,
        };
        let plan = plan.ok_or_else(|| SqlError::internal("a query has a plan"))?;
        self.with_newest(|session| session.rows_of(&plan.root))
    }

    /// `ATTACH PARTITION`.
    pub(super) fn attach(
        &mut self,
        parent: Oid,
        name: &ObjectName,
        bound: &ForValues,
    ) -> Result<()> {
        let above = self.altered(parent)?;
        let child = self.named_table(name)?;
        self.must_own(&child)?;
        let (body, own) = (body_of(&above)?, body_of(&child)?);
        if body.lineage.scheme.is_none() {
            let message = format!("table \"{}\" is not partitioned", above.name);
            let state = SqlState::INVALID_OBJECT_DEFINITION;
            return Err(SqlError::new(state, message));
        }
        if !own.lineage.parents.is_empty() {
            let message = match own.lineage.bound {
                Some(_) => format!("\"{}\" is already a partition", child.name),
                None => "cannot attach inheritance child as partition".to_owned(),
            };
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.check_descent_lasts(child.namespace, &above, Descent::Attached)?;
        self.refuse_circle(&above, &child)?;
        body.check_heir(&child.name, body_of(&child)?)?;
        if let Some(extra) = own
            .columns
            .iter()
            .find(|column| body.column(&column.name).is_none())
        {
            let message = format!(
                "table \"{}\" contains column \"{}\" not found in parent \"{}\"",
                child.name, extra.name, above.name
            );
            let detail = "The new partition may contain only the columns present in parent.";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail));
        }
        let bound = self.partition_bound(&above, (child.oid, &child.name), bound)?;
        let mut level = self.binding(|binder| binder.level(&above, &own.columns))?;
        let takes = self.binding(|binder| binder.takes(&bound, &level.keys))?;
        level.arms.push(Arm {
            table: child.oid,
            takes,
            next: Next::Unknown,
        });
        let added = level.arms.len() - 1;
        if self.has_rows_of(&child, &level, |arm| arm != Some(added))? {
            let message = format!(
                "partition constraint of relation \"{}\" is violated by some row",
                child.name
            );
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message));
        }
        self.give_keys(body, child.oid)?;
        let lineage = Lineage {
            parents: vec![parent],
            bound: Some(bound),
            scheme: own.lineage.scheme.clone(),
        };
        self.set_lineage(child.oid, lineage)?;
        self.check_new_partition(child.oid)
    }

    /// `INHERIT`.
    pub(super) fn inherit(&mut self, oid: Oid, parent: &ObjectName) -> Result<()> {
        let above = self.named_table(parent)?;
        self.must_own(&above)?;
        let mut child = self.altered(oid)?;
        let own = &body_of(&child)?.lineage;
        if own.parents.contains(&above.oid) {
            let name = &above.name;
            let message = format!("relation \"{name}\" would be inherited from more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let partitioned = [body_of(&above)?, body_of(&child)?];
        if partitioned.iter().any(|body| body.lineage.scheme.is_some()) || own.bound.is_some() {
            let message = "cannot change inheritance of a partition or a partitioned table";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.check_descent_lasts(child.namespace, &above, Descent::Inherits)?;
        self.refuse_circle(&above, &child)?;
        body_of(&above)?.check_heir(&child.name, body_of(&child)?)?;
        for column in &body_of(&above)?.columns {
            let is_local = self.parents_with(&child, &column.name) == 0;
            if let Body::Table(body) = &mut child.body
                && is_local
            {
                body.local.extend(body.column(&column.name));
            }
        }
        if let Body::Table(body) = &mut child.body {
            body.lineage.parents.push(above.oid);
        }
        self.put(child, None)
    }

    /// `NO INHERIT`.
    pub(super) fn disinherit(&mut self, oid: Oid, parent: &ObjectName) -> Result<()> {
        let above = self.named_table(parent)?;
        let mut child = self.altered(oid)?;
        let name = child.name.clone();
        let Body::Table(body) = &mut child.body else {
            return Ok(());
        };
        let before = body.lineage.parents.len();
        body.lineage.parents.retain(|known| *known != above.oid);
        if body.lineage.parents.len() == before {
            let message = format!(
                "relation \"{}\" is not a parent of relation \"{name}\"",
                above.name
            );
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        }
        self.put(child, None)
    }

    fn refuse_circle(&self, above: &Object, child: &Object) -> Result<()> {
        let is_below = self.catalog().descendants(child.oid).contains(&above.oid);
        if above.oid != child.oid && !is_below {
            return Ok(());
        }
        let detail = format!(
            "\"{}\" is already a child of \"{}\".",
            above.name, child.name
        );
        let message = "circular inheritance not allowed";
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).detail(detail))
    }

    /// `DETACH PARTITION`.
    pub(super) fn detach(&mut self, parent: Oid, name: &ObjectName) -> Result<()> {
        let child = self.named_table(name)?;
        let lineage = &body_of(&child)?.lineage;
        if !(lineage.bound.is_some() && lineage.parents.contains(&parent)) {
            let above = self.altered(parent)?.name;
            let message = format!(
                "relation \"{}\" is not a partition of relation \"{above}\"",
                child.name
            );
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        }
        for oid in [parent].into_iter().chain(self.family_of(child.oid, false)) {
            let member = self.altered(oid)?;
            let deferred = &self.environment.host.deferred;
            deferred.check_none_of(&member, "ALTER TABLE")?;
        }
        self.check_leaving(&child)?;
        let alone = Lineage {
            scheme: lineage.scheme.clone(),
            ..Lineage::default()
        };
        self.set_lineage(child.oid, alone)
    }
}

impl Session {
    /// The tables that a change of one means: itself, and those that inherit from it unless `ONLY`
    /// stands there.
    pub(super) fn family_of(&self, oid: Oid, is_only: bool) -> Vec<Oid> {
        let below = match is_only {
            true => Vec::new(),
            false => self.catalog().descendants(oid),
        };
        [oid].into_iter().chain(below).collect()
    }

    /// The number of tables above a table that have a column.
    pub(super) fn parents_with(&self, table: &Object, column: &str) -> usize {
        let Body::Table(body) = &table.body else {
            return 0;
        };
        let parents = body.lineage.parents.iter();
        let parents = parents.filter_map(|parent| self.catalog().object(*parent));
        let has_it = |parent: &&Arc<Object>| matches!(&parent.body, Body::Table(body) if body.column(column).is_some());
        parents.filter(has_it).count()
    }

    /// Fails if a column is one of a table above, where it must be changed.
    pub(super) fn refuse_inherited(&self, oid: Oid, column: &str, verb: &str) -> Result<()> {
        if self.parents_with(&self.altered(oid)?, column) == 0 {
            return Ok(());
        }
        let message = format!("cannot {verb} inherited column \"{column}\"");
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }
}

/// The bound with a modulus and a remainder.
fn share_of(modulus: u64, remainder: u64) -> Result<PartitionBound> {
    let invalid = |message| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    let size = i32::try_from(modulus).ok().filter(|size| *size > 0);
    let size = size.map(i32::cast_unsigned);
    let no_size = "modulus for hash partition must be an integer value greater than zero";
    let size = size.ok_or_else(|| invalid(no_size))?;
    let place = u32::try_from(remainder).ok().filter(|place| *place < size);
    let no_place = "remainder for hash partition must be less than modulus";
    let place = place.ok_or_else(|| invalid(no_place))?;
    Ok(PartitionBound::Remainder(size, place))
}

/// Fails if values of a type have no hash by which rows go to partitions.
fn check_hash(kind: Kind) -> Result<()> {
    if HashClass::of(kind).is_some() {
        return Ok(());
    }
    let found = format!("PARTITION BY HASH of {}", kind.plain());
    Err(SqlError::unsupported(
        found,
        "Use a number, a text, a time or a uuid.",
    ))
}

fn check_type(own: &Column, new: &Column, is_inherited: bool) -> Result<()> {
    if own.data_type == new.data_type {
        return Ok(());
    }
    let name = &own.name;
    let message = if is_inherited {
        format!("inherited column \"{name}\" has a type conflict")
    } else {
        format!("column \"{name}\" has a type conflict")
    };
    let detail = format!("{} versus {}", own.data_type, new.data_type);
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail))
}

fn not_partitioned(name: &str) -> SqlError {
    let message = format!("\"{name}\" is not partitioned");
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

fn body_of(object: &Object) -> Result<&TableBody> {
    match &object.body {
        Body::Table(body) => Ok(body),
        _ => Err(SqlError::internal("a table")),
    }
}
