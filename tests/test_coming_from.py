"""docs/coming-from: every sample of oncue runs as it is shown. Their commands are typed in tests/processes."""

import asyncio
import re
from itertools import count
from pathlib import Path
from typing import Any

import click.testing
import pytest
from tests.test_docs import ROOT, blocks

import oncue
from oncue.cli.job_file import read_job_file
from oncue.cli.main import main
from oncue.domain.definition import define
from oncue.domain.instants import parse_instant
from oncue.testing.clock import FakeClock

FOLDER = ROOT / "docs" / "coming-from"
PAGES = sorted(FOLDER.glob("*.md"))
WITH_CODE = [page for page in PAGES if blocks(page, "python")]


def samples(page: Path) -> list[str]:
    """The code in the column of oncue."""
    rows = re.findall(r"^\| .*? \| (.*) \|$", page.read_text(), re.MULTILINE)
    return [code for row in rows for code in re.findall(r"(?<!\[)`([^`]+)`", row)]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_samples_run(page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ONCUE_URL", "http://127.0.0.1:9")  # where nobody listens
    [shown] = blocks(page, "python")
    names: dict[str, Any] = {"__name__": "shop"}
    exec(shown, names)
    awaited = [code for code in samples(page) if code.startswith("await ")]

    async def run_all() -> None:
        async with oncue.embedded(names["tasks"]):
            await names["main"]()
            for number, code in enumerate(awaited):
                exec(f"async def sample_{number}():\n    return {code}", names)
                await names[f"sample_{number}"]()
            for code in (code for code in samples(page) if ".sync." in code):
                eval(code, names)

    asyncio.run(run_all())
    assert len(awaited) > 5
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_options_of_tasks_are_options(page: Path) -> None:
    names: dict[str, Any] = {"tasks": oncue.Tasks()}
    found = [code for code in samples(page) if re.match(r"@tasks\.task\b|[a-z_]+=", code)]
    for number, code in zip(count(), found, strict=False):
        decorator = code if code.startswith("@") else f"@tasks.task({code})"
        exec(f"{decorator}\ndef sample_{number}(): ...", names)

    assert len(found) > 2
    assert len(list(names["tasks"])) == len(found)


def test_the_file_of_the_cron_page_is_what_import_prints(tmp_path: Path) -> None:
    [shown] = blocks(FOLDER / "cron.md", "yaml")
    (tmp_path / "shown.yaml").write_text(shown)
    [line] = re.findall(r"^  # (.*)$", shown, re.MULTILINE)
    (tmp_path / "crontab").write_text(f"CRON_TZ=Europe/Berlin\n{line}\n")
    printed = click.testing.CliRunner().invoke(main, ["import", "crontab", str(tmp_path / "crontab")], obj=FakeClock())
    (tmp_path / "made.yaml").write_text(printed.stdout)

    shown_jobs, made = (read_job_file(tmp_path / name).jobs for name in ("shown.yaml", "made.yaml"))
    assert shown_jobs == made
    define(made[0], {}, parse_instant("2026-11-18T00:00:00Z"))
