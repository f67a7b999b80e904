//! The oracle's state of a database: plain maps, and the schema that the transactions use.
//!
//! The main table has every kind of field that engines treat differently: a fixed key, text in the
//! tuple, text in a block of its own, NULLs, and both kinds of secondary index. A second table
//! comes and goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::record::{Column, DataType, IndexDef, IndexId, TableDef, TableId, Value};

pub(crate) const MAIN: TableId = TableId(1);
pub(crate) const SIDE: TableId = TableId(2);
/// Secondary index on the main table's nullable group column.
pub(crate) const GROUP_INDEX: IndexId = IndexId(1);
/// Unique secondary index on the main table's code column.
pub(crate) const CODE_INDEX: IndexId = IndexId(2);
pub(crate) const INDEXES: [IndexId; 2] = [GROUP_INDEX, CODE_INDEX];

/// Names in databases, which number tables and indexes themselves.
pub(crate) const MAIN_NAME: &str = "people";
pub(crate) const SIDE_NAME: &str = "notes";
pub(crate) const GROUP_NAME: &str = "by_team";
pub(crate) const CODE_NAME: &str = "by_code";

pub(crate) const KEY: usize = 0;
pub(crate) const NAME: usize = 1;
pub(crate) const NOTE: usize = 2;
pub(crate) const GROUP: usize = 3;
pub(crate) const CODE: usize = 4;

/// Content of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<u32, Contents>,
}

/// Content of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) indexes: BTreeSet<u32>,
    /// Shared by the states of one history until a transaction changes them.
    pub(crate) rows: BTreeMap<i64, Arc<Fields>>,
}

/// The values of a row. `Value` has no total equality because of NaN, which the transactions do not
/// make.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fields(pub(crate) Vec<Value>);

impl Eq for Fields {}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Insert(TableId, Vec<Value>),
    Update(i64, Vec<(usize, Value)>),
    Delete(i64),
}

/// One transaction or definition.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Commit(Vec<Step>),
    Abort(Vec<Step>),
    /// Prepared for a transaction over several partitions that then commits.
    PrepareCommit(Vec<Step>),
    /// Prepared for a transaction over several partitions that then aborts.
    PrepareAbort(Vec<Step>),
    CreateSide,
    DropSide,
    CreateIndex(IndexId),
    DropIndex(IndexId),
    Checkpoint,
}

pub(crate) fn main_table(indexes: &[IndexId]) -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("name", DataType::Varchar { max: 24 }),
        Column::new("note", DataType::Text).nullable(),
        Column::new("team", DataType::Int32).nullable(),
        Column::new("code", DataType::Int64),
    ];
    TableDef {
        indexes: indexes.iter().map(|&id| index(id)).collect(),
        ..TableDef::new(MAIN, MAIN_NAME, columns, vec![KEY])
    }
}

pub(crate) fn side_table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("body", DataType::Text).nullable(),
    ];
    TableDef::new(SIDE, SIDE_NAME, columns, vec![0])
}

/// The number in the model of a table of an engine.
pub(crate) fn table_number(def: &TableDef) -> TableId {
    match def.name.as_str() {
        MAIN_NAME => MAIN,
        SIDE_NAME => SIDE,
        _ => def.id,
    }
}

/// The numbers in the model of the indexes of a table of an engine.
pub(crate) fn index_numbers(def: &TableDef) -> BTreeSet<u32> {
    let number = |index: &IndexDef| match index.name.as_str() {
        GROUP_NAME => GROUP_INDEX.0,
        CODE_NAME => CODE_INDEX.0,
        _ => index.id.0,
    };
    def.indexes.iter().map(number).collect()
}

pub(crate) fn index(id: IndexId) -> IndexDef {
    if id == GROUP_INDEX {
        IndexDef {
            id,
            name: GROUP_NAME.into(),
            columns: vec![GROUP],
            unique: false,
        }
    } else {
        IndexDef {
            id,
            name: CODE_NAME.into(),
            columns: vec![CODE],
            unique: true,
        }
    }
}

impl State {
    pub(crate) fn rows(&self, table: TableId) -> Option<&BTreeMap<i64, Arc<Fields>>> {
        self.tables.get(&table.0).map(|contents| &contents.rows)
    }

    /// Whether the step succeeds; false if the engine must refuse it with a duplicate key, or finds
    /// no row.
    pub(crate) fn apply(&mut self, step: &Step) -> bool {
        match step {
            Step::Insert(table, values) => self.insert(*table, values),
            Step::Update(key, changes) => self.update(*key, changes),
            Step::Delete(key) => self
                .tables
                .get_mut(&MAIN.0)
                .is_some_and(|main| main.rows.remove(key).is_some()),
        }
    }

    /// Applies a transaction or definition.
    pub(crate) fn run(&mut self, action: &Action) {
        if let Action::Commit(steps) | Action::PrepareCommit(steps) = action {
            for step in steps {
                self.apply(step);
            }
            return;
        }
        match action {
            Action::CreateSide => {
                self.tables.insert(SIDE.0, Contents::default());
            }
            Action::DropSide => {
                self.tables.remove(&SIDE.0);
            }
            Action::CreateIndex(id) => {
                if let Some(main) = self.tables.get_mut(&MAIN.0)
                    && !main.refuses(*id)
                {
                    main.indexes.insert(id.0);
                }
            }
            Action::DropIndex(id) => {
                if let Some(main) = self.tables.get_mut(&MAIN.0) {
                    main.indexes.remove(&id.0);
                }
            }
            _ => {}
        }
    }

    /// Whether the action makes sense: everything that it names exists, and everything that it
    /// makes does not.
    pub(crate) fn accepts(&self, action: &Action) -> bool {
        let has_index = |id: &IndexId| {
            let main = self.tables.get(&MAIN.0);
            main.is_some_and(|main| main.indexes.contains(&id.0))
        };
        match action {
            Action::CreateSide => !self.tables.contains_key(&SIDE.0),
            Action::DropSide => self.tables.contains_key(&SIDE.0),
            Action::CreateIndex(id) => !has_index(id),
            Action::DropIndex(id) => has_index(id),
            _ => true,
        }
    }

    fn insert(&mut self, table: TableId, values: &[Value]) -> bool {
        let Some(contents) = self.tables.get_mut(&table.0) else {
            return false;
        };
        let &Value::Int64(key) = &values[KEY] else {
            return false;
        };
        let clashes = table == MAIN && contents.code_is_taken(&values[CODE], None);
        if clashes || contents.rows.contains_key(&key) {
            return false;
        }
        contents.rows.insert(key, Arc::new(Fields(values.to_vec())));
        true
    }

    fn update(&mut self, key: i64, changes: &[(usize, Value)]) -> bool {
        let Some(contents) = self.tables.get_mut(&MAIN.0) else {
            return false;
        };
        let code = changes.iter().find(|(column, _)| *column == CODE);
        let clashes = code.is_some_and(|(_, code)| contents.code_is_taken(code, Some(key)));
        let Some(row) = contents.rows.get_mut(&key).filter(|_| !clashes) else {
            return false;
        };
        for (column, value) in changes {
            Arc::make_mut(row).0[*column] = value.clone();
        }
        true
    }
}

impl Contents {
    /// Whether the rows prevent the index: it is unique and two of them are equal in it.
    pub(crate) fn refuses(&self, index: IndexId) -> bool {
        let codes: BTreeSet<String> = self
            .rows
            .values()
            .map(|row| format!("{:?}", row.0[CODE]))
            .collect();
        index == CODE_INDEX && codes.len() < self.rows.len()
    }

    pub(crate) fn code_is_taken(&self, code: &Value, except: Option<i64>) -> bool {
        self.indexes.contains(&CODE_INDEX.0)
            && self
                .rows
                .iter()
                .any(|(key, row)| Some(*key) != except && row.0[CODE] == *code)
    }
}
