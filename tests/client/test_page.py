"""docs/client.md and the example tell the truth: what they show is run, what they list is what there is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.server import client_of, key_of
from tests.examples.server import EXAMPLES, PATIENCE, ROOT, Up
from tests.test_docs import blocks, table

from oncue.client import Client, Job, Run, errors
from oncue.client.resources import Calls, Resource

PAGE = ROOT / "docs" / "client.md"


@pytest.fixture
def environment(oncue: Up) -> dict[str, str]:
    return {**os.environ, "ONCUE_URL": oncue.address, "ONCUE_API_KEY": key_of(oncue)}


def run_python(file: Path, environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, file], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOWN = [  # what each program of the page prints, at least
    r"\Asucceeded Hello, you!\n\Z",
    r"greeting you\n\Z",
    r"\AHello, them!\n\Z",
    r"succeeded\n\Z",
    r"\AEurope/Berlin 2\npaused active\n\{'key': 'digest-eu'",
    r"\AHello, you!\ndashboard: http://127\.0\.0\.1:\d+\n\Z",
]


@pytest.mark.kills
@pytest.mark.parametrize(("place", "shown"), list(enumerate(SHOWN)))
def test_what_the_page_shows_works(environment: dict[str, str], tmp_path: Path, place: int, shown: str) -> None:
    script = tmp_path / "shown.py"
    script.write_text(blocks(PAGE, "python")[place])

    assert re.search(shown, run_python(script, environment))


def test_every_program_of_the_page_is_run() -> None:
    assert len(blocks(PAGE, "python")) == len(SHOWN)


@pytest.mark.parametrize(("name", "kind"), [("job", Job), ("run", Run)])
def test_the_page_lists_every_method_of_a_snapshot(name: str, kind: type) -> None:
    [listed] = [cells[1] for cells in table(PAGE, "snapshot", "methods") if cells[0] == name]
    there_are = {
        one
        for part in kind.__mro__
        for one, value in vars(part).items()
        if part.__module__ == "oncue.client.snapshots" and callable(getattr(value, "__get__", None)) and one[0] != "_"
    }

    assert set(re.findall(r"`(\w+)`", f"`{listed}`")) == there_are - set(kind.__struct_fields__)


@pytest.mark.kills
def test_the_example_works_and_leaves_nothing_behind(environment: dict[str, str], oncue: Up) -> None:
    said = run_python(EXAMPLES / "client.py", environment)

    assert re.search(r"^run \S+ succeeded: Hello, you!$", said, re.MULTILINE)
    assert "refused: payload.nmae: " in said
    with client_of(oncue) as asking:
        [job_id] = re.findall(r"^made (\S+);", said, re.MULTILINE)
        assert asking.jobs.get(job_id).status == "cancelled"


def test_the_page_lists_every_call() -> None:
    with Client("http://oncue") as made:
        parts = {f"client.{name}": part for name, part in vars(made).items() if isinstance(part, Resource)}
    del parts["client._client"]
    there_are = {name: {call for call in vars(type(part)) if call[0] != "_"} for name, part in parts.items()}
    there_are["client"] = {call for call in vars(Calls) if call[0] != "_"} | {"events"}

    listed = {part: set(re.findall(r"`(\w+)`", f"`{calls}`")) for part, calls in table(PAGE, "part", "calls")}

    assert listed == there_are


def test_the_page_lists_every_error_and_so_does_the_tree() -> None:
    there_are = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ClientError)
    ]

    assert sorted(name for name, _ in table(PAGE, "error", "when")) == sorted(there_are)
    assert sorted(re.findall(r"^\W*([A-Z]\w+)\b", errors.__doc__ or "", re.MULTILINE)[1:]) == sorted(there_are)
