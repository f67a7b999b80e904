"""Goal: SQLAlchemy works over `indelible:///path`, its core and its ORM.

Method: a schema with the types that applications use, relations, transactions and errors.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from pathlib import Path
from typing import Any

import pytest

sa = pytest.importorskip("sqlalchemy")
from sqlalchemy import orm  # noqa: E402


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(unique=True)
    books: orm.Mapped[list[Book]] = orm.relationship(back_populates="author")


class Book(Base):
    __tablename__ = "book"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("author.id"))
    title: orm.Mapped[str]
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(8, 2))
    at: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True))
    key: orm.Mapped[uuid.UUID]
    tags: orm.Mapped[Any] = orm.mapped_column(sa.JSON)
    length: orm.Mapped[dt.timedelta]
    cover: orm.Mapped[bytes | None]
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


@pytest.fixture
def engine(path: Path) -> Any:
    engine = sa.create_engine(f"indelible:///{path}")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def test_the_orm(engine: Any) -> None:
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc)
    key = uuid.uuid4()
    with orm.Session(engine) as session:
        ada = Author(name="Ada")
        ada.books.append(
            Book(
                title="Notes", price=decimal.Decimal("19.90"), at=moment, key=key,
                tags={"a": [1, None]}, length=dt.timedelta(hours=3), cover=b"\x00\xff",
            )  # fmt: skip
        )
        session.add(ada)
        session.commit()
    with orm.Session(engine) as session:
        book = session.scalars(sa.select(Book).join(Author).where(Author.name == "Ada")).one()
        assert (book.price, book.at, book.key) == (decimal.Decimal("19.90"), moment, key)
        assert book.tags == {"a": [1, None]}
        assert book.length == dt.timedelta(hours=3)
        assert bytes(book.cover or b"") == b"\x00\xff"
        assert book.author.books == [book]
        session.delete(book)
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 0


def test_errors_are_wrapped(engine: Any) -> None:
    with orm.Session(engine) as session:
        session.add_all([Author(name="Ada"), Author(name="Ada")])
        with pytest.raises(sa.exc.IntegrityError) as raised:
            session.commit()
        assert raised.value.orig.sqlstate == "23505"


def test_isolation_levels(engine: Any) -> None:
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"
        level = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
        assert level == "serializable"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.insert(Author).values(name="Bob"))
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "READ COMMITTED"
        assert connection.scalar(sa.select(Author.name)) == "Bob"


@pytest.mark.parametrize("url", ["indelible://host/db", "indelible://", "indelible://u:p@/x"])
def test_urls_that_name_no_directory(url: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match="indelible:///path"):
        sa.create_engine(url).connect()


def test_options_of_the_address(path: Path) -> None:
    """A word of the address was given as it stood, and was no truth value."""
    engine = sa.create_engine(f"indelible:///{path}?autocommit=true&create=true")
    with engine.connect() as con:
        assert con.connection.dbapi_connection.autocommit is True
    engine.dispose()
