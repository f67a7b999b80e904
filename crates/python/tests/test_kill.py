"""Goal: nothing that was acknowledged is lost when a process dies.

Method: a process that writes numbers is killed with SIGKILL at a random moment, again and again,
and each number that it had printed must be there. `INDELIBLE_KILLS=200` asks for more cycles.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

KILLS = int(os.environ.get("INDELIBLE_KILLS", "5"))
LEDGER = Path(__file__).with_name("ledger.py")


def test_nothing_acknowledged_is_lost(path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    written = 0
    for cycle in range(KILLS):
        command = [sys.executable, str(LEDGER), "write", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            time.sleep(chance.random() * 0.3)
            writer.kill()
            lines = [first, *writer.stdout.read().split("\n")]
        # The last line may have been cut.
        acknowledged = int([line for line in lines[:-1] if line.strip()][-1])
        check = [sys.executable, str(LEDGER), "check", str(path), str(acknowledged)]
        found = subprocess.run(check, capture_output=True, text=True, check=False)
        assert found.returncode == 0, f"seed {seed}, cycle {cycle}: {found.stdout}{found.stderr}"
        written = acknowledged
    assert written > 0
