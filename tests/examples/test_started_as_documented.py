"""Every command that the examples name is typed as it stands there, and the example then does its work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import httpx2
import pytest
from tests.examples.server import EXAMPLES, PATIENCE, ROOT
from tests.processes.fleet import free_port

from oncue.cli.main import COMMANDS
from oncue.client import Client

T = TypeVar("T")

UP = "oncue up --tasks examples/tasks.py"
UP_FOR_THE_SHOP = "oncue up --tasks examples/fastapi_shop.py"
SHOP = "uvicorn examples.fastapi_shop:app"
RUN, RUN_WITH_COMMANDS, DEMO = "make run", 'make run ARGS="--allow-commands"', "make demo"
PROGRAM = "python examples/client.py"
APPLY = "oncue apply examples/jobs.yaml --dry-run"

NAMED = re.compile(
    rf'\b(?:oncue (?:{"|".join({*COMMANDS} - {"import"})}) [^`"\n]+|(?:python|uvicorn) [^`"\n]+'
    r'|make (?:run|demo)(?: ARGS="[^"]+")?)'
)

pytestmark = pytest.mark.kills


class Folder:
    """A fresh checkout, in which somebody types: without anything of ours in the environment but free ports."""

    def __init__(self, path: Path) -> None:
        self._path, port, of_shop = path, free_port(), free_port()
        self.url, self.shop = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{of_shop}"
        (path / "examples").symlink_to(EXAMPLES)
        (path / ".venv").symlink_to(sys.prefix)
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ONCUE_")}
        self._environment = ours | {
            "PATH": f"{path / '.venv' / 'bin'}:{os.environ['PATH']}",
            "ONCUE_PORT": str(port),
            "ONCUE_URL": self.url,
            "UVICORN_PORT": str(of_shop),
        }

    @contextmanager
    def typed(self, command: str) -> Iterator[Path]:
        """Until Ctrl-C, at the end of the block. Yields the file with what it prints."""
        printed = self._path / f"{Path(command.split()[0]).name}.txt"
        with printed.open("wb") as said:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._path,
                env=self._environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            yield printed
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            process.wait(PATIENCE)

    def done(self, command: str) -> str:
        """What a command prints that ends by itself, without an error."""
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self._path,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def client(self) -> Client:
        return Client(self.url, (self._path / ".oncue" / "admin.key").read_text().strip())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def made(target: str, args: str) -> str:
    """What `make` runs for this target, once all is installed."""
    found = re.search(rf"^{target}:.*\n\t@(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].replace("$(ARGS)", args)


def eventually(look: Callable[[], T | None], printed: Path) -> T:
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < until, printed.read_text()
        time.sleep(0.05)
    return found


def answers(url: str) -> bool:
    with suppress(httpx2.TransportError):
        return httpx2.get(url).status_code < 500
    return False


def test_every_command_that_the_examples_name_is_typed_here() -> None:
    """The Django project is started by docs/django.md, which tests/processes/test_django.py follows."""
    files = [file for file in EXAMPLES.rglob("*") if file.suffix in (".py", ".md", ".yaml")]
    named = {command.rstrip(".") for file in files for command in NAMED.findall(file.read_text())}

    assert named == {UP, UP_FOR_THE_SHOP, SHOP, RUN, RUN_WITH_COMMANDS, DEMO, PROGRAM, APPLY}
    assert made("run", "").strip() == f".venv/bin/{UP}"


def test_the_program_and_the_file_of_jobs_work_with_the_tasks_of_all_examples(folder: Folder) -> None:
    with folder.typed(made("run", "--allow-commands")) as printed:
        eventually(lambda: answers(f"{folder.url}/readyz"), printed)

        said = folder.done(PROGRAM)
        for words in ("succeeded: Hello, you!\n", "refused: payload.nmae", "cancelled it again"):
            assert words in said
        planned, applied = folder.done(APPLY), folder.done(APPLY.removesuffix(" --dry-run"))
        for key in ("morning-greeting", "website-check"):
            assert key in planned
            assert key in applied
        with folder.client() as client:
            greeted = client.jobs.get_by_key("morning-greeting").run_now().wait(timeout=PATIENCE)
            command = client.jobs.create(task="command", payload={"argv": ["echo", "cleaned"]})
            cleaned = client.runs.wait(command.job_id, timeout=PATIENCE)
    assert (greeted.result, cleaned.result["output"]) == ("Hello, everybody!", "cleaned\n")


def test_the_shop_sends_its_receipts(folder: Folder) -> None:
    with ExitStack() as stack:
        worker = stack.enter_context(folder.typed(UP_FOR_THE_SHOP))
        eventually(lambda: answers(f"{folder.url}/readyz"), worker)
        printed = stack.enter_context(folder.typed(SHOP))
        eventually(lambda: answers(f"{folder.shop}/docs"), printed)

        receipt = httpx2.post(f"{folder.shop}/orders/7/receipt?to=you@example.org").json()["run"]

        def sent() -> dict[str, str] | None:
            read: dict[str, str] = httpx2.get(f"{folder.shop}/receipts/{receipt}").json()
            return read if read["status"] == "succeeded" else None

        assert eventually(sent, worker)["result"] == "receipt for order 7 sent to you@example.org"


def test_the_demo_can_be_signed_in_to(folder: Folder) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with folder.typed(made("demo", f"--port {url.rpartition(':')[2]} --hours 0.02")) as printed:
        eventually(lambda: answers(f"{url}/readyz"), printed)
        found = re.search(r"admin \(admin\) +(\S+)", printed.read_text())
        assert found is not None
        with Client(url, found[1]) as client:
            jobs, workers = list(client.jobs.list()), list(client.workers.list())
    assert (len(jobs) >= 30, len(workers)) == (True, 20)
