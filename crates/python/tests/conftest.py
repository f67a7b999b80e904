"""Databases that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import indelible


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "database"


@pytest.fixture
def con(path: Path) -> Iterator[indelible.Connection]:
    connection = indelible.connect(path)
    yield connection
    connection.close()
