//! Random expressions, from templates.
//!
//! A template has a letter in braces for each expression inside it: the family of its type (see
//! `schema`). `{S}` is a table with a new alias, whose columns the rest of the template may use,
//! and `{s}` that alias.

use super::dice::Dice;
use super::schema::{Family, Table, literal};
use super::tally::Tally;

/// An expression with the construct that it shows.
pub(super) struct Template {
    pub(super) construct: &'static str,
    family: char,
    text: &'static str,
}

const fn template(construct: &'static str, family: char, text: &'static str) -> Template {
    Template {
        construct,
        family,
        text,
    }
}

/// All expressions.
#[rustfmt::skip]
pub(super) const TEMPLATES: &[Template] = &[
    template("comparison", 'b', "({i} < {i})"),
    template("comparison", 'b', "({n} >= {n})"),
    template("comparison", 'b', "({f} <> {f})"),
    template("comparison", 'b', "({t} = {t})"),
    template("comparison", 'b', "({c} < {c})"),
    template("comparison", 'b', "({d} <= {d})"),
    template("comparison", 'b', "({s} > {s})"),
    template("comparison", 'b', "({z} < {z})"),
    template("comparison", 'b', "({m} < {m})"),
    template("comparison", 'b', "({k} < {k})"),
    template("comparison", 'b', "({v} > {v})"),
    template("comparison", 'b', "({u} = {u})"),
    template("comparison", 'b', "({y} < {y})"),
    template("comparison", 'b', "({e} > {e})"),
    template("comparison", 'b', "({q} >= {q})"),
    template("comparison", 'b', "({a} = {a})"),
    template("comparison", 'b', "({w} < {w})"),
    template("comparison", 'b', "({j} = {j})"),
    template("AND, OR, NOT", 'b', "({b} AND {b})"),
    template("AND, OR, NOT", 'b', "({b} OR {b})"),
    template("AND, OR, NOT", 'b', "(NOT {b})"),
    template("IS NULL", 'b', "({t} IS NULL)"),
    template("IS NULL", 'b', "({v} IS NOT NULL)"),
    template("IS TRUE", 'b', "({b} IS NOT TRUE)"),
    template("IS UNKNOWN", 'b', "({b} IS UNKNOWN)"),
    template("IS DISTINCT FROM", 'b', "({i} IS DISTINCT FROM {i})"),
    template("IS DISTINCT FROM", 'b', "({t} IS NOT DISTINCT FROM {t})"),
    template("BETWEEN", 'b', "({i} BETWEEN {i} AND {i})"),
    template("BETWEEN SYMMETRIC", 'b', "({n} BETWEEN SYMMETRIC {n} AND {n})"),
    template("IN list", 'b', "({i} IN ({i}, {i}, {i}))"),
    template("IN list", 'b', "({t} NOT IN ({t}, {t}))"),
    template("LIKE", 'b', "({t} LIKE 'a%')"),
    template("LIKE", 'b', "({t} NOT LIKE '%\\_' ESCAPE '\\')"),
    template("ILIKE", 'b', "({t} ILIKE '%B%')"),
    template("SIMILAR TO", 'b', "({t} SIMILAR TO '(a|b)%')"),
    template("regular expression", 'b', "({t} ~ '^[a-c]+$')"),
    template("regular expression", 'b', "({t} !~* 'B.?')"),
    template("OPERATOR()", 'b', "({i} OPERATOR(pg_catalog.=) {i})"),
    template("ANY of an array", 'b', "({i} = ANY ({a}))"),
    template("ALL of an array", 'b', "({t} <> ALL ({w}))"),
    template("row value", 'b', "(({i}, {t}) < ({i}, {t}))"),
    template("row value", 'b', "(ROW({i}, {n}) = ROW({i}, {n}))"),
    template("IN subquery", 'b', "({i} IN (SELECT {i} FROM {S} WHERE {b}))"),
    template("IN subquery", 'b', "({i} NOT IN (SELECT {s}.id FROM {S}))"),
    template("EXISTS", 'b', "EXISTS (SELECT 1 FROM {S} WHERE {b})"),
    template("EXISTS", 'b', "NOT EXISTS (SELECT FROM {S} WHERE {s}.id = {i})"),
    template("ANY of a subquery", 'b', "({n} > ANY (SELECT {n} FROM {S}))"),
    template("ALL of a subquery", 'b', "({i} <= ALL (SELECT {i} FROM {S} WHERE {b}))"),
    template("OVERLAPS", 'b', "(({d}, {d}) OVERLAPS ({d}, {d}))"),
    template("json containment", 'b', "({j} @> '{\"a\": 1}')"),
    template("json key", 'b', "({j} ? 'a')"),
    template("json key", 'b', "({j} ?| ARRAY['a', 'c'])"),
    template("json key", 'b', "({j} ?& ARRAY['a', 'b'])"),
    template("array containment", 'b', "({a} @> {a})"),
    template("array containment", 'b', "({w} && {w})"),
    template("scalar subquery", 'i', "(SELECT count(*) FROM {S} WHERE {b})"),
    template("scalar subquery", 'i', "(SELECT max({s}.id) FROM {S} WHERE {s}.id < {i})"),
    template("scalar subquery", 't', "(SELECT min({t}) FROM {S})"),
    template("array subquery", 'a', "ARRAY(SELECT {s}.id FROM {S} WHERE {b} ORDER BY 1)"),
    template("arithmetic", 'i', "({i} + {i})"),
    template("arithmetic", 'i', "({i} - {i})"),
    template("arithmetic", 'i', "({l}::bigint * {l})"),
    template("arithmetic", 'i', "({i} / NULLIF({i}, 0))"),
    template("arithmetic", 'i', "({i} % NULLIF({i}, 0))"),
    template("arithmetic", 'i', "(- {l})"),
    template("bits", 'i', "({l} & {l})"),
    template("bits", 'i', "({l}::integer # 5 | 2)"),
    template("arithmetic", 'n', "({n} + {n})"),
    template("arithmetic", 'n', "({n} - {i})"),
    template("arithmetic", 'n', "({n} * {n})"),
    template("arithmetic", 'n', "({n} / NULLIF({n}, 0))"),
    template("arithmetic", 'n', "({n} % NULLIF({n}, 0))"),
    template("arithmetic", 'f', "({f} + {f})"),
    template("arithmetic", 'f', "({f} * 2)"),
    template("functions of numbers", 'n', "round({n}, 2)"),
    template("functions of numbers", 'n', "trunc({n}, 1)"),
    template("functions of numbers", 'n', "abs({n})"),
    template("functions of numbers", 'n', "ceil({n})"),
    template("functions of numbers", 'i', "sign({i})::integer"),
    template("functions of numbers", 'n', "mod({n}, 7)"),
    template("functions of numbers", 'f', "floor({f})"),
    template("functions of numbers", 'f', "sqrt(abs({f}))"),
    template("cast", 'n', "{i}::numeric"),
    template("cast", 'f', "CAST({i} AS double precision)"),
    template("cast", 't', "{n}::text"),
    template("cast", 't', "CAST({z} AS text)"),
    template("cast", 't', "{v}::text"),
    template("cast", 't', "{j}::text"),
    template("cast", 't', "{a}::text"),
    template("cast", 't', "{e}::text"),
    template("cast", 't', "{f}::text"),
    template("cast", 'i', "{b}::integer"),
    template("cast", 'd', "{s}::date"),
    template("cast", 's', "{d}::timestamp"),
    template("cast", 's', "{z}::timestamp"),
    template("cast", 'm', "{s}::time"),
    template("CASE", 'i', "CASE WHEN {b} THEN {i} WHEN {b} THEN {i} ELSE {i} END"),
    template("CASE", 't', "CASE {i} WHEN 1 THEN {t} WHEN 2 THEN {t} END"),
    template("COALESCE", 't', "COALESCE({t}, {t})"),
    template("COALESCE", 'd', "COALESCE({d}, {d})"),
    template("NULLIF", 'n', "NULLIF({n}, {n})"),
    template("GREATEST, LEAST", 'i', "GREATEST({i}, {i}, {i})"),
    template("GREATEST, LEAST", 'd', "LEAST({d}, {d})"),
    template("concatenation", 't', "({t} || {t})"),
    template("concatenation", 't', "({t} || {i})"),
    template("concatenation", 'a', "({a} || {a})"),
    template("concatenation", 'w', "({w} || 'z'::text)"),
    template("functions of texts", 't', "upper({t})"),
    template("functions of texts", 't', "lpad({t}, 5, '*')"),
    template("functions of texts", 't', "replace({t}, 'a', 'xy')"),
    template("functions of texts", 't', "left({t}, 2)"),
    template("functions of texts", 't', "split_part({t}, ' ', 1)"),
    template("functions of texts", 't', "initcap({t})"),
    template("functions of texts", 't', "reverse({t})"),
    template("functions of texts", 't', "concat_ws('-', {t}, {i}, {b})"),
    template("functions of texts", 't', "format('%s|%L', {t}, {t})"),
    template("functions of texts", 't', "md5({t})"),
    template("functions of texts", 't', "quote_literal({t})"),
    template("functions of texts", 't', "translate({t}, 'ab', 'x')"),
    template("functions of texts", 't', "regexp_replace({t}, '[ab]', '<\\&>', 'g')"),
    template("functions of texts", 't', "repeat({t}, 2)"),
    template("functions of texts", 'i', "length({t})"),
    template("functions of texts", 'i', "octet_length({t})"),
    template("functions of texts", 'i', "ascii({t})"),
    template("functions of texts", 'i', "strpos({t}, 'b')"),
    template("SUBSTRING", 't', "substring({t} FROM 2 FOR 2)"),
    template("SUBSTRING", 't', "substring({t} FROM 'a.')"),
    template("POSITION", 'i', "position('b' IN {t})"),
    template("OVERLAY", 't', "overlay({t} PLACING 'XX' FROM 2 FOR 1)"),
    template("TRIM", 't', "trim(BOTH 'a' FROM {t})"),
    template("COLLATE", 't', "({t} COLLATE \"C\")"),
    template("text with escapes", 't', "E'a\\tb\\u00e9'"),
    template("text in dollars", 't', "$$it's$$"),
    template("text with code points", 't', "U&'d\\0061t\\+000061'"),
    template("functions of bytes", 't', "encode({y}, 'hex')"),
    template("functions of bytes", 'y', "({y} || {y})"),
    template("functions of bytes", 'i', "get_byte({y}, 0)"),
    template("functions of dates", 'd', "({d} + {l}::integer)"),
    template("functions of dates", 'i', "({d} - {d})"),
    template("functions of dates", 's', "({s} + {v})"),
    template("functions of dates", 's', "date_trunc('month', {s})"),
    template("functions of dates", 'z', "({z} - {v})"),
    template("functions of dates", 'v', "({s} - {s})"),
    template("functions of dates", 'v', "age({s}, {s})"),
    template("functions of dates", 'v', "justify_interval({v})"),
    template("functions of dates", 'v', "({v} + {v})"),
    template("functions of dates", 'v', "({v} * 2)"),
    template("functions of dates", 'm', "({m} + {v})"),
    template("functions of dates", 't', "to_char({s}, 'YYYY-MM-DD HH24:MI:SS Day')"),
    template("functions of dates", 't', "to_char({n}, 'FM999990.00')"),
    template("functions of dates", 'd', "make_date(2020, 2, 29)"),
    template("EXTRACT", 'n', "extract(epoch FROM {s})"),
    template("EXTRACT", 'n', "extract(dow FROM {d})"),
    template("EXTRACT", 'n', "extract(hour FROM {v})"),
    template("AT TIME ZONE", 's', "({z} AT TIME ZONE 'Europe/Berlin')"),
    template("AT TIME ZONE", 'z', "({s} AT TIME ZONE 'America/New_York')"),
    template("json operators", 'j', "({j} -> 'b')"),
    template("json operators", 't', "({j} ->> 'a')"),
    template("json operators", 'j', "({j} #> '{b,2}')"),
    template("json operators", 't', "({o} #>> '{b,0}')"),
    template("json operators", 'j', "(jsonb '{\"a\": 1, \"b\": 2}' - 'a')"),
    template("json operators", 'j', "({j} || '[9]')"),
    template("functions of json", 't', "jsonb_typeof({j})"),
    template("functions of json", 'j', "jsonb_build_object('k', {i}, 'l', {t})"),
    template("functions of json", 'j', "to_jsonb({w})"),
    template("functions of json", 'o', "json_build_array({i}, {b}, {t})"),
    template("ARRAY[]", 'a', "ARRAY[{l}::integer, {l}::integer, NULL]"),
    template("ARRAY[]", 'w', "ARRAY[{t}, {t}]::text[]"),
    template("subscript", 'i', "({a})[1]"),
    template("slice", 'a', "({a})[1:2]"),
    template("functions of arrays", 'i', "cardinality({a})"),
    template("functions of arrays", 'i', "array_length({w}, 1)"),
    template("functions of arrays", 'a', "array_append({a}, 9)"),
    template("functions of arrays", 'w', "string_to_array({t}, ' ')"),
    template("functions of arrays", 't', "array_to_string({a}, ',', '-')"),
    template("functions of arrays", 'i', "array_position({a}, 5)"),
];

/// Makes expressions from what is in scope.
pub(super) struct Maker<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) tally: &'a mut Tally,
    pub(super) tables: &'a [Table],
    /// Columns in scope: their names with aliases, and families.
    scope: Vec<(String, Family)>,
    aliases: usize,
}

impl<'a> Maker<'a> {
    pub(super) fn new(dice: &'a mut Dice, tally: &'a mut Tally, tables: &'a [Table]) -> Self {
        Self {
            dice,
            tally,
            tables,
            scope: Vec::new(),
            aliases: 0,
        }
    }

    /// Forgets what is in scope.
    pub(super) fn forget(&mut self) {
        self.scope.clear();
    }

    /// A table with a new alias, in scope from now on: its text in FROM and the alias.
    pub(super) fn source(&mut self) -> (String, String) {
        self.aliases += 1;
        let alias = format!("r{}", self.aliases);
        let table = self.dice.pick(self.tables);
        self.scope.push((format!("{alias}.id"), Family('i')));
        let columns = table.columns.iter();
        self.scope
            .extend(columns.map(|column| (format!("{alias}.{}", column.name), column.family)));
        (format!("{} AS {alias}", table.name), alias)
    }

    /// An expression of a family.
    pub(super) fn expression(&mut self, family: Family, depth: u32) -> String {
        let fitting = |template: &&Template| template.family == family.0;
        let count = TEMPLATES.iter().filter(fitting).count();
        if depth == 0 || count == 0 || self.dice.chance(30) {
            return self.leaf(family);
        }
        let at = self.dice.below(count);
        match TEMPLATES.iter().filter(fitting).nth(at) {
            Some(template) => {
                self.tally.count(template.construct);
                self.filled(template.text, depth - 1)
            }
            None => self.leaf(family),
        }
    }

    /// A column in scope, or a literal.
    fn leaf(&mut self, family: Family) -> String {
        let fitting: Vec<&String> = self
            .scope
            .iter()
            .filter(|(_, found)| *found == family)
            .map(|(name, _)| name)
            .collect();
        if fitting.is_empty() || self.dice.chance(20) {
            return literal(self.dice, family);
        }
        (*self.dice.pick(&fitting)).clone()
    }

    /// A template with its letters filled. The columns of its table are in scope in its query only.
    fn filled(&mut self, text: &str, depth: u32) -> String {
        let Some(at) = text.find("SELECT").filter(|_| text.contains("{S}")) else {
            return self.letters(text, depth);
        };
        let known = self.scope.len();
        let before = self.letters(&text[..at], depth);
        let (source, alias) = self.source();
        let query = text[at..]
            .replace("{S}", &source)
            .replace("{s}.", &format!("{alias}."));
        let query = self.letters(&query, depth);
        self.scope.truncate(known);
        before + &query
    }

    /// A text with an expression for each letter in braces.
    fn letters(&mut self, text: &str, depth: u32) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let [letter @ b'a'..=b'z', b'}', ..] = after.as_bytes() else {
                filled.push('{');
                rest = after;
                continue;
            };
            let expression = match letter {
                // A leaf, for products that stay small.
                b'l' => self.leaf(Family('i')),
                letter => self.expression(Family(char::from(*letter)), depth),
            };
            filled.push_str(&expression);
            rest = &after[2..];
        }
        filled + rest
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::begin;
    use super::*;

    #[test]
    fn a_seed_makes_the_same_expressions() {
        let made = |seed| {
            let (mut dice, mut tally) = (Dice::new(seed), Tally::default());
            let (tables, _) = begin(&mut dice, &mut tally);
            let mut maker = Maker::new(&mut dice, &mut tally, &tables);
            maker.source();
            (0..20)
                .map(|_| maker.expression(Family('b'), 4))
                .collect::<Vec<_>>()
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
    }

    #[test]
    fn columns_of_a_subquery_stay_inside() {
        let (mut dice, mut tally) = (Dice::new(3), Tally::default());
        let (tables, _) = begin(&mut dice, &mut tally);
        let mut maker = Maker::new(&mut dice, &mut tally, &tables);
        for _ in 0..500 {
            let text = maker.filled("({l} IN (SELECT {l} FROM {S}))", 0);
            let (left, query) = text.split_once(" IN ").unwrap();
            assert!(!left.contains('r') && query.contains(" AS r"), "{text}");
            assert!(maker.scope.is_empty());
        }
    }
}
