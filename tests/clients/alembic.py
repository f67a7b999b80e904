"""Alembic: revisions up and down, and a comparison of the models with the database that finds nothing, then what was changed."""

import os
import pathlib
import tempfile

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

URL = f"postgresql+psycopg://tester@127.0.0.1:{os.environ['PGPORT']}/db"
ENV = """
from alembic import context
import sqlalchemy as sa
with sa.create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    context.configure(connection=connection, target_metadata=context.config.attributes["models"], compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()
"""


def models(later: bool) -> sa.MetaData:
    found = sa.MetaData()
    sa.Table(
        "owner",
        found,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(80 if later else 40), nullable=False, comment="as on the card"),
        sa.Column("kind", sa.Enum("person", "shelter", name="kind"), server_default="person"),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.UniqueConstraint("name"),
        comment="who has pets",
    )
    pet = sa.Table(
        "pet",
        found,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("owner_id", sa.ForeignKey("owner.id", ondelete="CASCADE"), nullable=later),
        sa.Column("weight", sa.Numeric(8, 2), sa.CheckConstraint("weight > 0")),
        sa.Column("tags", pg.ARRAY(sa.Text)),
        sa.Column("marks", pg.JSONB, server_default=sa.text("'{}'::jsonb")),
        sa.Column("chip", pg.UUID),
        sa.Index("pet_weight", "weight", "chip"),
        sa.Index("pet_heavy", "owner_id", unique=True, postgresql_where=sa.text("weight > 100")),
    )
    if later:
        pet.append_column(sa.Column("sold", sa.Boolean, server_default=sa.false(), nullable=False))
        sa.Table("shop", found, sa.Column("code", sa.CHAR(4), primary_key=True), sa.Column("at", sa.Date))
    return found


with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder)
    (place / "versions").mkdir()
    (place / "env.py").write_text(ENV)
    template = "${imports if imports else ''}\nimport sqlalchemy as sa\nfrom alembic import op\n"
    template += "from sqlalchemy.dialects import postgresql\nrevision = ${repr(up_revision)}\n"
    template += "down_revision = ${repr(down_revision)}\ndef upgrade():\n    ${upgrades}\n"
    (place / "script.py.mako").write_text(template + "def downgrade():\n    ${downgrades}\n")
    config = Config()
    config.set_main_option("script_location", folder)
    config.set_main_option("sqlalchemy.url", URL)
    engine = sa.create_engine(URL)

    def difference(wanted: sa.MetaData) -> list:
        with engine.connect() as connection:
            options = {"compare_server_default": True}
            return compare_metadata(MigrationContext.configure(connection, opts=options), wanted)

    for revision, later in (("one", False), ("two", True)):
        config.attributes["models"] = models(later)
        command.revision(config, message=revision, autogenerate=True, rev_id=revision)
        command.upgrade(config, "head")
        assert difference(models(later)) == [], difference(models(later))
        command.check(config)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO owner (name) VALUES ('ada')"))
        connection.execute(sa.text("INSERT INTO pet (owner_id, weight) VALUES (1, 2.5)"))
    assert [entry[0] for entry in difference(models(False)) if isinstance(entry, tuple)] == [
        "remove_table",
        "remove_column",
    ]
    command.downgrade(config, "one")
    assert difference(models(False)) == [], difference(models(False))
    command.downgrade(config, "base")
    assert sa.inspect(engine).get_table_names() == ["alembic_version"]
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TYPE IF EXISTS kind"))
    command.upgrade(config, "head")
    command.current(config)
    engine.dispose()
