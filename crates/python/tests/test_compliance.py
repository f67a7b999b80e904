"""Goal: the module is what PEP 249 says.

Method: the public suite `dbapi-compliance`; a new directory for each of its tests. Three tests are
written anew: a statement has one result, sizes are not set, and a second `close` does nothing, as
PEP 249 leaves open.
"""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import pytest

import indelible

dbapi20 = pytest.importorskip("dbapi20")


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    driver = indelible
    connect_args: tuple[Any, ...] = ()
    connect_kw_args: dict[str, Any] = {}
    lower_func = "lower"

    def setUp(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.connect_args = (f"{self.directory}/database",)

    def tearDown(self) -> None:
        shutil.rmtree(self.directory)

    def test_non_idempotent_close(self) -> None:
        con = self._connect()
        con.close()
        con.close()

    def test_nextset(self) -> None:
        con = self._connect()
        assert con.cursor().nextset() is None
        con.close()

    def test_setoutputsize(self) -> None:
        con = self._connect()
        con.cursor().setoutputsize(1000, 1)
        con.close()
