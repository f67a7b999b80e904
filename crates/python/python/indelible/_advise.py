"""`advise`: the program's measurements and its answer, as dictionaries."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any, Literal

from ._errors import Error, InterfaceError, OperationalError

Preference = Literal["balanced", "throughput", "latency", "space", "wear", "recovery"]
Option = str | int | float | PathLike[str] | None


def advise(
    mix: str | None = None,
    *,
    rows: int | None = None,
    profile: str | None = None,
    prefer: Preference = "balanced",
    trace: str | PathLike[str] | None = None,
    methods: Iterable[str] = (),
    seconds: float = 45.0,
    program: str | PathLike[str] | None = None,
    **options: Option,
) -> list[dict[str, Any]]:
    """Which storage method for a workload on a device, and why: `indelible advise`.

    `mix` is a name as "write-heavy", or shares as "read=60,update=30,insert=5,scan=5"; `trace` a
    recorded one instead. `rows` counts those of the database that is asked about. `profile` is a
    device: "dram", "low", "high" or numbers; without one this machine's memory is measured.
    No round of measurements begins that would end later than after `seconds`. Other options of the
    command are given by name, as `column_bytes=50`; docs/advise.md has all of them.

    The result has a dictionary for each method, the best one first: what the command prints with
    `--format json`, as "method", "score", "why". It takes tens of seconds, in a process of its own:
    `program`, or else `indelible` on the path. Ctrl-C ends it.

    Raises InterfaceError for an option that the program refuses, OperationalError if there is no
    program or it fails.
    """
    command = fspath(program) if program is not None else shutil.which("indelible")
    if command is None:
        raise _failed(
            OperationalError,
            "58030",
            "there is no program `indelible` on the path; install it by `cargo install --path crates/cli`, "
            "or pass its place as `program`",
        )
    given: dict[str, Option] = {
        "mix": mix,
        "rows": rows,
        "profile": profile,
        "prefer": prefer,
        "trace": trace,
        "method": ",".join(methods) or None,
        "seconds": seconds,
        **options,
    }
    texts = {name: fspath(of) if isinstance(of, PathLike) else str(of) for name, of in given.items() if of is not None}
    arguments = [f"--{name.replace('_', '-')}={text}" for name, text in texts.items()]
    try:
        done = subprocess.run(
            [command, "advise", "--format=json", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    except OSError as error:
        message = f"the program `{command}` cannot be run: {error.strerror}; pass another as `program`"
        raise _failed(OperationalError, "58030", message) from error
    if done.returncode != 0:
        kind, state = (InterfaceError, "22023") if done.returncode == 2 else (OperationalError, "58000")
        raise _failed(kind, state, done.stderr.strip() or f"`{command} advise` ended with code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _failed(kind: type[Error], state: str, message: str) -> Error:
    error = kind(message)
    error.sqlstate = state
    return error
