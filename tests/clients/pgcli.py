"""pgcli: what its completion reads of a database, and its commands about objects; a line for each row."""

import os
import sys

from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial

executor = PGExecute(
    os.environ["PGDATABASE"], os.environ["PGUSER"], "", os.environ["PGSOCKET"], os.environ["PGPORT"], ""
)
special = PGSpecial()
SYSTEM = ("pg_catalog", "information_schema", "pg_toast", "indelible")


def show(name, ask):
    """A line for each row that is not about the system's own objects."""
    try:
        rows = [row if isinstance(row, (tuple, list)) else (row,) for row in ask()]
    except Exception as error:
        print(" ".join(f"{name}: {error}".split()))
        return
    for row in rows:
        if str(row[0]) not in SYSTEM:
            print(" ".join(f"{name}: {' '.join(str(one) for one in row)}".split()))


show("schemata", executor.schemata)
show("search path", executor.search_path)
show("tables", executor.tables)
show("views", executor.views)
show("columns", executor.table_columns)
show("columns of views", executor.view_columns)
show("foreign keys", executor.foreignkeys)
show("data types", executor.datatypes)
show("databases", executor.databases)
show("casing", lambda: sorted(executor.casing()))
show(
    "functions",
    lambda: [
        (one.func_name, one.arg_names, one.arg_types, one.return_type, one.is_aggregate, one.is_window)
        for one in executor.functions()
        if one.schema_name not in SYSTEM
    ],
)
show("definition of a view", lambda: [executor.view_definition("dear")])
show("definition of a function", lambda: [executor.function_definition("twice")])
for command in [
    "\\d", "\\d pet", "\\d+ owner", "\\d visit", "\\dt", "\\dv", "\\dm", "\\di", "\\ds", "\\df", "\\dT", "\\dD",
    "\\dn", "\\du", "\\dp", "\\l", "\\dx", "\\db", "\\sf twice",
]:  # fmt: skip
    def run(command=command):
        for title, rows, headers, status, *_ in executor.run(command, special):
            if rows is not None:
                yield from ([command, *row] for row in rows)
            if title:
                yield [command, title]
    show("command", run)
sys.stdout.flush()
