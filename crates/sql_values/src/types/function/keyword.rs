//! Words that a name must not be without quotes.
//!
//! The list is that of PostgreSQL 15's `pg_get_keywords()` whose category is not `U`. The function
//! itself has the others too, for clients that quote names themselves.

use super::super::datum::{Datum, Record, RecordShape};
use super::super::kind::Kind::{self, Bool, Char, Record as RecordKind, Text};
use super::json::shape_of;
use super::{Function, Rows};
use std::sync::{Arc, LazyLock};

pub(super) const FUNCTIONS: &[Function] =
    &[Function::set("pg_get_keywords", &[], RecordKind, |_, _| Ok(keywords())).columns(COLUMNS)];

/// Whether a name of the word needs quotes.
pub(crate) fn is_reserved(word: &str) -> bool {
    WORDS.binary_search(&word).is_ok()
}

/// The words in their order.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
    "authorization", "between", "bigint", "binary", "bit", "boolean", "both", "case", "cast",
    "char", "character", "check", "coalesce", "collate", "collation", "column", "concurrently",
    "constraint", "create", "cross", "current_catalog", "current_date", "current_role",
    "current_schema", "current_time", "current_timestamp", "current_user", "dec", "decimal",
    "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant",
    "greatest", "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout",
    "int", "integer", "intersect", "interval", "into", "is", "isnull", "join", "lateral",
    "leading", "least", "left", "like", "limit", "localtime", "localtimestamp", "national",
    "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif", "numeric",
    "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing",
    "position", "precision", "primary", "real", "references", "returning", "right", "row",
    "select", "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric",
    "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim",
    "true", "union", "unique", "user", "using", "values", "varchar", "variadic", "verbose",
    "when", "where", "window", "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists",
    "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable",
];

const COLUMNS: &[(&str, Kind)] = &[
    ("word", Text),
    ("catcode", Char),
    ("barelabel", Bool),
    ("catdesc", Text),
    ("baredesc", Text),
];

static SHAPE: LazyLock<Arc<RecordShape>> = LazyLock::new(|| shape_of(COLUMNS));

/// All words with their categories.
fn keywords() -> Rows {
    let mut all: Vec<(&str, &str)> = UNRESERVED.split(' ').map(|word| (word, "U")).collect();
    all.extend(WORDS.iter().map(|&word| {
        let is_in = |list: &str| list.split(' ').any(|one| one == word);
        let category = match () {
            () if is_in(NO_FUNCTIONS) => "C",
            () if is_in(FUNCTIONS_OR_TYPES) => "T",
            () => "R",
        };
        (word, category)
    }));
    all.sort_unstable();
    Box::new(all.into_iter().map(|(word, category)| {
        let described = match category {
            "U" => "unreserved",
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            _ => "reserved",
        };
        let is_bare = NO_BARE_LABELS.split(' ').all(|one| one != word);
        let bare = if is_bare {
            "can be bare label"
        } else {
            "requires AS"
        };
        Ok(Datum::Record(Arc::new(Record {
            shape: Arc::clone(&SHAPE),
            fields: vec![
                Datum::text(word),
                Datum::text(category),
                Datum::Bool(is_bare),
                Datum::text(described),
                Datum::text(bare),
            ],
        })))
    }))
}

/// Words that may be any name.
const UNRESERVED: &str = "\
    abort absolute access action add admin after aggregate also alter always asensitive assertion \
    assignment at atomic attach attribute backward before begin breadth by cache call called \
    cascade cascaded catalog chain characteristics checkpoint class close cluster columns comment \
    comments commit committed compression configuration conflict connection constraints content \
    continue conversion copy cost csv cube current cursor cycle data database day deallocate \
    declare defaults deferred definer delete delimiter delimiters depends depth detach dictionary \
    disable discard document domain double drop each enable encoding encrypted enum escape event \
    exclude excluding exclusive execute explain expression extension external family filter \
    finalize first following force forward function functions generated global granted groups \
    handler header hold hour identity if immediate immutable implicit import include including \
    increment index indexes inherit inherits inline input insensitive insert instead invoker \
    isolation key label language large last leakproof level listen load local location lock locked \
    logged mapping match matched materialized maxvalue merge method minute minvalue mode month \
    move name names new next nfc nfd nfkc nfkd no normalized nothing notify nowait nulls object of \
    off oids old operator option options ordinality others over overriding owned owner parallel \
    parameter parser partial partition passing password plans policy preceding prepare prepared \
    preserve prior privileges procedural procedure procedures program publication quote range read \
    reassign recheck recursive ref referencing refresh reindex relative release rename repeatable \
    replace replica reset restart restrict return returns revoke role rollback rollup routine \
    routines rows rule savepoint schema schemas scroll search second security sequence sequences \
    serializable server session set sets share show simple skip snapshot sql stable standalone \
    start statement statistics stdin stdout storage stored strict strip subscription support sysid \
    system tables tablespace temp template temporary text ties transaction transform trigger \
    truncate trusted type types uescape unbounded uncommitted unencrypted unknown unlisten \
    unlogged until update vacuum valid validate validator value varying version view views \
    volatile whitespace within without work wrapper write xml year yes zone";

/// Words that may be the name of a column, but not of a function or type.
const NO_FUNCTIONS: &str = "\
    between bigint bit boolean char character coalesce dec decimal exists extract float greatest \
    grouping inout int integer interval least national nchar none normalize nullif numeric out \
    overlay position precision real row setof smallint substring time timestamp treat trim values \
    varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi \
    xmlroot xmlserialize xmltable";

/// Words that may be the name of a function or type only.
const FUNCTIONS_OR_TYPES: &str = "\
    authorization binary collation concurrently cross current_schema freeze full ilike inner is \
    isnull join left like natural notnull outer overlaps right similar tablesample verbose";

/// Words that need `AS` before them as the name of a column of a result.
const NO_BARE_LABELS: &str = "\
    array as char character create day except fetch filter for from grant group having hour \
    intersect into isnull limit minute month notnull offset on order over overlaps precision \
    returning second to union varying where window with within without year";

#[cfg(test)]
mod tests {
    #[test]
    fn words_are_in_order() {
        assert!(super::WORDS.is_sorted());
    }
}
