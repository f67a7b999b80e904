"""Files of SQLite, with their tables, constraints, indexes, views and rows.

SQLite's types are hints, so the type of a column is that of its declaration if all its values fit,
and a problem otherwise: `docs/sqlite.md` has the table, which the program's import shares. Whatever
cannot be moved is a problem too. All of them are told in one error, and then nothing is imported,
unless the caller wants the rest.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ._connection import Connection, Progress, quoted, told
from ._errors import DatabaseError, Error, ProgrammingError, exception

#: Rows of a block of COPY.
_BLOCK_ROWS = 1000

#: Types by parts of the declaration, in SQLite's order.
_PARTS = [
    ("INT", "bigint"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("BLOB", "bytea"),
    ("REAL", "double precision"),
    ("FLOA", "double precision"),
    ("DOUB", "double precision"),
]
#: Types by the first word of other declarations.
_WORDS = {
    "BOOL": "boolean",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIME": "time",
    "DATETIME": "timestamp",
    "TIMESTAMP": "timestamp",
}
#: Kinds of the values that fit a type.
_KINDS = {
    "bigint": {"integer"},
    "text": {"text"},
    "bytea": {"blob"},
    "double precision": {"integer", "real"},
    "boolean": {"integer"},
    "date": {"text"},
    "time": {"text"},
    "timestamp": {"text"},
    "numeric": {"integer", "real"},
}
#: The types of columns without a declaration, by the only kind of their values.
_OF_VALUES = {"integer": "bigint", "real": "double precision", "text": "text", "blob": "bytea"}
#: Default values that are expressions and mean the same in both languages.
_DEFAULT = re.compile(r"current_(timestamp|date|time)", re.I)
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.I)
#: Ends of the names of tables in which modules keep the content of their virtual tables.
_SHADOWS = {
    "fts3": ("content", "segments", "segdir", "docsize", "stat"),
    "fts4": ("content", "segments", "segdir", "docsize", "stat"),
    "fts5": ("data", "idx", "content", "docsize", "config"),
    "rtree": ("node", "parent", "rowid"),
    "rtree_i32": ("node", "parent", "rowid"),
    "geopoly": ("node", "parent", "rowid"),
}


def import_sqlite(
    connection: Connection,
    file: str | PathLike[str],
    *,
    types: Mapping[str, str] | None = None,
    skip: bool = False,
    progress: Progress = False,
) -> dict[str, int]:
    """Imports a file of SQLite in one transaction; the number of rows by table.

    `types` gives columns another type than their declaration has: `{"person.height": "text"}`.
    Triggers, virtual tables, collations and other things that cannot be moved are one error, each
    by its name, and then nothing is imported; with `skip` they are left out.

    Raises NotSupportedError that names what cannot be moved; DataError and IntegrityError that
    name the table whose rows its columns or constraints do not allow.
    """
    if not Path(file).is_file():
        raise ProgrammingError(f"there is no file {fspath(file)}")
    uri = f"{Path(file).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as source, told(progress) as watch:
        source.text_factory = _text
        moving = _Moving(connection, source, dict(types or {}))
        try:
            with connection.transaction():
                rows = moving.run(watch)
                if moving.problems and not skip:
                    problems = "\n- ".join(moving.problems)
                    message = f"{fspath(file)} has what cannot be moved:\n- {problems}"
                    hint = "change it in a copy of the file, or pass skip=True to leave it out"
                    raise exception("0A000", message, hint=hint)
        except sqlite3.DatabaseError as error:
            raise ProgrammingError(f"{fspath(file)} cannot be read: {error}") from error
    return rows


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        message = f"a text is not UTF-8: {content[:40]!r}; store it as a BLOB, or repair it"
        raise exception("22021", message) from error


class _Moving:
    """The import of one file."""

    def __init__(
        self, target: Connection, source: sqlite3.Connection, types: dict[str, str]
    ) -> None:
        self.target = target
        self.source = source
        self.types = types
        self.problems: list[str] = []

    def run(self, watch: Any) -> dict[str, int]:
        tables = self._tables()
        rows = {}
        for name, definition in tables.items():
            rows[name] = self._table(name, definition, watch)
        for name in tables:
            self._foreign_keys(name)
            self._indexes(name)
        for kind, name, text in self._rows("SELECT type, name, sql FROM sqlite_master"):
            if kind == "view":
                self._try(f"view {name}", text)
            elif kind == "trigger":
                self.problems.append(f"trigger {name}: there are no triggers")
        for column in self.types:
            self.problems.append(f"type of {column}: there is no such column")
        return rows

    def _rows(self, query: str, *parameters: Any) -> list[Any]:
        return self.source.execute(query, parameters).fetchall()

    def _try(self, what: str, text: str) -> None:
        """Runs a definition; one that fails is a problem, and alone is undone."""
        try:
            with self.target.savepoint("import_sqlite"):
                self.target.execute(text)
        except DatabaseError as error:
            self.problems.append(f"{what}: {str(error).splitlines()[0]}")

    def _tables(self) -> dict[str, str]:
        query = (
            "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
        )
        tables = dict(self._rows(query))
        shadows = self._shadows()
        for name, text in list(tables.items()):
            module = re.match(r"\s*create\s+virtual\b.*?\busing\s+(\w+)", text, re.I | re.S)
            if module is not None:
                del tables[name]
                self.problems.append(f"table {name}: it is virtual; import what it is made of")
                shadows |= {f"{name}_{end}" for end in _SHADOWS.get(module[1].lower(), ())}
        return {name: text for name, text in tables.items() if name not in shadows}

    def _shadows(self) -> set[str]:
        """Tables that modules keep the content of virtual ones in, as far as SQLite says so."""
        query = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"
        try:
            return {name for (name,) in self._rows(query)}
        except sqlite3.OperationalError:
            # Versions before 3.37 do not.
            return set()

    def _table(self, name: str, definition: str, watch: Any) -> int:
        columns = self._rows("SELECT * FROM pragma_table_xinfo(?)", name)
        key = [column[1] for column in sorted(columns, key=lambda one: one[5]) if column[5]]
        types = [self._type(name, column[1], column[2]) for column in columns]
        parts, defaults, numbered = [], [], None
        for (_, column, declared, not_null, default, _, hidden), kind in zip(
            columns, types, strict=True
        ):
            part = f"{quoted(column)} {kind}"
            if hidden:
                self.problems.append(f"column {name}.{column}: its values are computed")
            if [column] == key and declared.upper() == "INTEGER" and kind == "bigint":
                part += " GENERATED BY DEFAULT AS IDENTITY"
                numbered = column
            elif default is not None:
                defaults.append((column, default, kind))
            parts.append(part + (" NOT NULL" if not_null else ""))
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
        self.target.execute(f"CREATE TABLE {quoted(name)} ({', '.join(parts)})")
        for column, default, kind in defaults:
            self._default(name, column, default, kind)
        rows = self._content(name, [column[1] for column in columns], types, watch)
        if numbered is not None and (last := self._last_number(name, numbered)) > 0:
            sequence = "SELECT setval(pg_get_serial_sequence(?, ?), ?)"
            self.target.execute(sequence, (quoted(name), numbered, last))
        for collation in re.findall(r"\bcollate\s+(?!binary\b)(\w+)", definition, re.I):
            self.problems.append(f"table {name}: there is no collation {collation}")
        for number, condition in enumerate(_checks(definition), 1):
            add = f"ALTER TABLE {quoted(name)} ADD CHECK {condition}"
            self._try(f"check {number} of table {name}", add)
        return rows

    def _last_number(self, table: str, column: str) -> int:
        """The greatest number of a row: with AUTOINCREMENT, of those that are gone as well."""
        numbers = self._rows(f"SELECT max({quoted(column)}) FROM {quoted(table)}")
        if self._rows("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"):
            numbers += self._rows("SELECT seq FROM sqlite_sequence WHERE name = ?", table)
        return max((number for (number,) in numbers if isinstance(number, int)), default=0)

    def _default(self, table: str, column: str, default: str, kind: str) -> None:
        """Gives a column its default, as SQLite converts it; one that does not fit is a problem."""
        what = f"column {table}.{column}: its default is {default}"
        text = _literal(default, kind)
        if text is None:
            self.problems.append(what)
        elif text.upper() != "NULL":
            alter = f"ALTER TABLE {quoted(table)} ALTER {quoted(column)} SET DEFAULT {text}"
            self._try(what, alter)

    def _type(self, table: str, column: str, declared: str) -> str:
        given = self.types.pop(f"{table}.{column}", None)
        if given is not None:
            return given
        query = f"SELECT DISTINCT typeof({quoted(column)}) FROM {quoted(table)}"
        kinds = {kind for (kind,) in self._rows(query)} - {"null"}
        if not declared:
            if len(kinds) == 1:
                return _OF_VALUES[kinds.pop()]
            if "blob" not in kinds:
                return "numeric" if kinds == {"integer", "real"} else "text"
        else:
            fitting = _declared_type(declared)
            if kinds <= _KINDS[fitting]:
                return fitting
        self.problems.append(
            f"column {table}.{column}: it is declared {declared or 'without a type'} and has values "
            f"of type {', '.join(sorted(kinds))}; name one that holds all with `types`"
        )
        return "text"

    def _content(self, table: str, columns: list[str], types: list[str], watch: Any) -> int:
        names = ", ".join(map(quoted, columns))
        done = 0

        def blocks() -> Iterator[bytes]:
            nonlocal done
            cursor = self.source.execute(f"SELECT {names} FROM {quoted(table)}")
            while rows := cursor.fetchmany(_BLOCK_ROWS):
                lines = ("\t".join(map(_field, row, types)) + "\n" for row in rows)
                yield "".join(lines).encode()
                done += len(rows)
                if watch is not None:
                    watch("rows", table, done)

        try:
            return self.target.cursor().copy(f"COPY {quoted(table)} ({names}) FROM STDIN", blocks())
        except Error as error:
            raise exception(
                error.sqlstate or "XX000",
                f"table {table}: {str(error).splitlines()[0]}",
                hint="repair the rows in a copy of the file, or give the column another type",
            ) from error

    def _foreign_keys(self, table: str) -> None:
        keys: dict[int, list[Any]] = {}
        for row in self._rows("SELECT * FROM pragma_foreign_key_list(?)", table):
            keys.setdefault(row[0], []).append(row)
        for parts in reversed(keys.values()):
            _, _, parent, _, _, on_update, on_delete, _ = parts[0]
            own = ", ".join(quoted(part[3]) for part in parts)
            # Without columns they are those of the primary key, in both languages.
            others = ", ".join(quoted(part[4]) for part in parts if part[4] is not None)
            text = f"ALTER TABLE {quoted(table)} ADD FOREIGN KEY ({own}) REFERENCES {quoted(parent)}"
            text += f" ({others})" if others else ""
            text += f" ON UPDATE {on_update} ON DELETE {on_delete}"
            self._try(f"foreign key of table {table} to {parent}", text)

    def _indexes(self, table: str) -> None:
        for _, index, unique, origin, partial in reversed(
            self._rows("SELECT * FROM pragma_index_list(?)", table)
        ):
            parts = self._rows("SELECT * FROM pragma_index_xinfo(?) WHERE key", index)
            others = [part[4] for part in parts if part[4] != "BINARY"]
            if origin == "pk":
                continue
            if any(part[2] is None for part in parts):
                self.problems.append(f"index {index}: it is over expressions; create it in SQL")
                continue
            if others:
                self.problems.append(f"index {index}: there is no collation {others[0]}")
                continue
            columns = ", ".join(quoted(p[2]) + (" DESC" if p[3] else "") for p in parts)
            if origin == "u":
                self._try(f"index {index}", f"ALTER TABLE {quoted(table)} ADD UNIQUE ({columns})")
                continue
            text = f"CREATE {'UNIQUE ' if unique else ''}INDEX {quoted(index)} "
            text += f"ON {quoted(table)} ({columns})"
            if partial:
                [(definition,)] = self._rows("SELECT sql FROM sqlite_master WHERE name = ?", index)
                text += re.split(r"\)\s*(?=where\b)", definition, maxsplit=1, flags=re.I)[-1]
            self._try(f"index {index}", text)


def _declared_type(declared: str) -> str:
    """The type of a declaration. SQLite keeps no digits of numbers, so there are none here."""
    upper = declared.upper()
    word = re.split(r"[( ]", upper, maxsplit=1)[0]
    if "INT" not in upper and word in ("JSON", "UUID"):
        return "text"
    part = next((kind for part, kind in _PARTS if part in upper), None)
    return part or _WORDS.get(word, "numeric")


def _literal(default: str, kind: str) -> str | None:
    """A default of SQLite in SQL, for a column of the type; None if it is neither a literal that
    fits nor an expression that both have.
    """
    default = default.strip()
    lower = default.lower()
    if lower == "null" or _DEFAULT.fullmatch(lower):
        return default
    text = {"true": "1", "false": "0"}.get(lower, default)
    if re.fullmatch(r"x'([0-9a-f]{2})*'", lower):
        return rf"'\x{lower[2:-1]}'" if kind == "bytea" else None
    if match := re.fullmatch(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"", default, re.S):
        text = match[1].replace("''", "'") if match[1] is not None else match[2].replace('""', '"')
    elif not _NUMBER.fullmatch(text):
        return None
    if kind == "bytea" or "\0" in text:
        return None
    if kind == "boolean":
        text = {"0": "f", "1": "t"}.get(text.removeprefix("+"), text)
    return "'" + text.replace("'", "''") + "'"


def _field(value: Any, kind: str) -> str:
    """A value in the text format of COPY."""
    if value is None:
        return r"\N"
    if isinstance(value, bytes):
        return rf"\\x{value.hex()}"
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    if kind == "boolean":
        return {"0": "f", "1": "t"}.get(text, text)
    for plain, escaped in (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r")):
        text = text.replace(plain, escaped)
    return text


def _checks(definition: str) -> Iterator[str]:
    """The conditions of CHECK in a definition of a table, in their parentheses."""
    token = re.compile(
        r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|\w+|.""", re.S
    )
    begin: int | None = None
    depth, outer, is_check = 0, 0, False
    for match in token.finditer(definition):
        part = match[0]
        if part.isspace():
            continue
        if part == "(":
            if is_check and begin is None:
                begin, outer = match.start(), depth
            depth += 1
        elif part == ")":
            depth -= 1
            if begin is not None and depth == outer:
                yield definition[begin : match.end()]
                begin = None
        is_check = part.upper() == "CHECK"
