"""Goal: what the documents show runs as it stands.

Method: each block of Python in docs/cookbook.md, docs/python.md, docs/python-joins.md and the
README runs in a process of its own, in an empty directory. `/dev/shm/` in a text is replaced by
that directory. A block that begins with `# continues` gets the blocks before it as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ["docs/cookbook.md", "docs/python.md", "docs/python-joins.md", "README.md"]


def snippets() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        before = ""
        text = (ROOT / page).read_text(encoding="utf-8")
        for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            line = text.count("\n", 0, match.start()) + 2
            block = match.group(1)
            before = before + block if block.startswith("# continues") else block
            found.append((f"{page}:{line}", before))
    return found


@pytest.mark.parametrize(("place", "code"), snippets(), ids=lambda value: str(value)[:40])
def test_a_snippet_runs(place: str, code: str, tmp_path: Path) -> None:
    code = code.replace("/dev/shm/", f"{tmp_path}/")
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, f"{place}\n{run.stderr}"
