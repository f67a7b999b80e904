"""`advise` runs the program: a stand-in of it shows what it gets, and how its answers come back."""

from pathlib import Path

import pytest

import indelible


def stand_in(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_options_reach_the_program(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "program", 'printf \'{"got": "%s"}\\n{"got": "more"}\\n\' "$*"')
    answer, more = indelible.advise("write-heavy", rows=1000, methods=["nvm-inp", "log"], column_bytes=50, program=program)
    assert more["got"] == "more"
    assert answer["got"] == (
        "advise --format=json --mix=write-heavy --rows=1000 --prefer=balanced --method=nvm-inp,log "
        "--seconds=45.0 --column-bytes=50"
    )


def test_failures_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = stand_in(tmp_path / "refuses", "echo 'no such mix' >&2; exit 2")
    with pytest.raises(indelible.InterfaceError, match="no such mix"):
        indelible.advise("none", program=refuses)
    fails = stand_in(tmp_path / "fails", "exit 1")
    with pytest.raises(indelible.OperationalError, match="code 1"):
        indelible.advise(program=fails)
    with pytest.raises(indelible.OperationalError, match="cannot be run"):
        indelible.advise(program=tmp_path / "missing")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(indelible.OperationalError, match="cargo install") as caught:
        indelible.advise()
    assert caught.value.sqlstate == "58030"


def test_a_value_is_no_second_option(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "program", "printf '%s' \"$#\"")
    assert indelible.advise("a b --out=/x", program=program) == [5]
