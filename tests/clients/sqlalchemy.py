"""SQLAlchemy over psycopg: tables from classes, many rows at once, joins, savepoints, reflection."""

import os

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(30), unique=True)
    pets: Mapped[list["Pet"]] = relationship(back_populates="owner")


class Pet(Base):
    __tablename__ = "pet"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    name: Mapped[str]
    weight: Mapped[float | None] = mapped_column(sa.Numeric(6, 2))
    owner_id: Mapped[int] = mapped_column(sa.ForeignKey("owner.id"))
    owner: Mapped[Owner] = relationship(back_populates="pets")


engine = sa.create_engine(f"postgresql+psycopg://tester@127.0.0.1:{os.environ['PGPORT']}/db")
Base.metadata.create_all(engine)
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add_all([Owner(name=f"o{i}", pets=[Pet(name=f"p{i}.{j}", weight=j) for j in range(3)]) for i in range(50)])
    session.commit()
    rows = session.execute(
        sa.select(Owner.name, sa.func.count(Pet.id)).join(Pet).group_by(Owner.name).order_by(Owner.name).limit(2)
    ).all()
    assert rows == [("o0", 3), ("o1", 3)], rows
    with session.begin_nested() as nested:
        session.add(Owner(name="gone"))
        session.flush()
        nested.rollback()
    assert session.scalar(sa.select(sa.func.count()).select_from(Owner)) == 50
    locked = session.scalars(sa.select(Owner).where(Owner.name == "o7").with_for_update()).one()
    locked.name = "renamed"
    session.commit()
    try:
        session.add(Owner(name="renamed"))
        session.commit()
        raise AssertionError("a name twice")
    except sa.exc.IntegrityError:
        session.rollback()
inspector = sa.inspect(engine)
assert sorted(inspector.get_table_names()) == ["owner", "pet"]
assert [column["name"] for column in inspector.get_columns("pet")] == ["id", "name", "weight", "owner_id"]
assert inspector.get_pk_constraint("pet")["constrained_columns"] == ["id"]
assert inspector.get_foreign_keys("pet")[0]["referred_table"] == "owner"
Base.metadata.drop_all(engine)
