"""Both type checkers report every planted mistake, and nothing else. `make check` runs this, after mypy itself."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parent.parent.parent
PLANTED = Path(__file__).with_name("planted.py")
MARK = re.compile(r"# wrong(?:, (\w+))?$")


def planted(checker: str) -> set[int]:
    """The lines of the mistakes that this checker must find."""
    found = {number: MARK.search(line) for number, line in enumerate(PLANTED.read_text().splitlines(), 1)}
    return {number for number, mark in found.items() if mark and mark[1] in (None, checker)}


def printed(*command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=300
    ).stdout


def test_mypy_finds_them() -> None:
    said = printed("mypy", "--strict", "--no-error-summary", str(PLANTED))
    found = {int(line.split(":")[1]) for line in said.splitlines() if line.startswith(str(PLANTED.relative_to(ROOT)))}

    assert found == planted("mypy"), said


def test_pyright_finds_them(tmp_path: Path) -> None:
    settings = {"include": [str(PLANTED)], "typeCheckingMode": "standard", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_bytes(msgspec.json.encode(settings))
    said = printed("basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson")
    told = msgspec.json.decode(said)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in told if one["severity"] == "error"}

    assert found == planted("pyright"), said


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_there_are_mistakes_to_find(checker: str) -> None:
    assert len(planted(checker)) >= 9
