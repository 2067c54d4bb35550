"""`oncue export`: what it prints can be applied, and then changes nothing."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml  # type: ignore[import-untyped]  # it comes without types
from tests.cli.conftest import Oncue
from tests.cli.test_apply import DEFINITIONS, write
from tests.client.server import client_of
from tests.examples.server import Up

from oncue.domain.exported import exported_schedule

ODD: dict[str, Any] = {
    "name": "no",
    "queue": "1e3",
    "group": "012",
    "payload": {
        "name": "~\n'\"\t- a: b\u2028\U0001f600 \x85",
        "yes": None,
        "1": [1.0, 1e20, -5, True, {}, "2027-01-01", "<<"],
    },
    "tags": ["applied", "null"],
    "max_retries": 0,
    "retry": {"factor": 7},
    "catch_up": "all",
}


def test_what_is_exported_is_applied_without_a_change(oncue: Oncue, oncue_up: Up) -> None:
    name = f"set {uuid4()}"
    odd = {
        **ODD,
        "payload": {"name": json.dumps(ODD["payload"])},
        "schedule": {"cron": "0 9 * * *", "timezone": "Asia/Tokyo"},
    }
    definitions = [*DEFINITIONS, odd, {"timeout": "1h", "schedule": "@daily", "payload": {"name": "x" * 300_000}}]
    jobs = [{"task": "hello", "key": f"{name}-{n}", **one} for n, one in enumerate(definitions)]
    write(json.dumps({"set": name, "jobs": jobs}))
    assert oncue("apply", "jobs.yaml").exit_code == 0

    result = oncue("export", "--set", name)

    assert (result.exit_code, result.stderr) == (0, "")
    write(result.stdout)
    again = oncue("apply", "jobs.yaml", "--check", "--prune")
    assert again.stdout.splitlines()[0] == f"unchanged {len(jobs)} (dry run: nothing was applied)"
    assert again.exit_code == 0
    first = yaml.safe_load(result.stdout)["jobs"][0]
    assert first == {"key": f"{name}-0", "task": "hello", "schedule": "0 9 * * 1-5"}
    write(json.dumps({"set": name, "jobs": []}))
    oncue("apply", "jobs.yaml", "--prune")


def test_a_job_without_a_key_gets_one_in_the_file_and_that_is_said(oncue: Oncue, oncue_up: Up) -> None:
    with client_of(oncue_up) as client:
        job = client.jobs.create(task="hello", schedule="every 1h", tags=["loose"], payload={"name": "no"})
        tagged = oncue("export", "--tag", "loose")
        one = oncue("jobs", "export", str(job.job_id))
        client.jobs.cancel(job.job_id)

    key = f"hello-{str(job.job_id)[-8:]}"
    expected = {"key": key, "task": "hello", "schedule": "every 1h", "payload": {"name": "no"}, "tags": ["loose"]}
    assert yaml.safe_load(tagged.stdout) == {"set": "loose", "jobs": [expected]}
    assert yaml.safe_load(one.stdout) == {"set": key, "jobs": [expected]}
    assert "has no key" in tagged.stderr
    assert oncue("export", "--tag", "loose").stdout == "set: loose\njobs: []\n"
    assert oncue("export", "--tag", "a", "--set", "b").exit_code == 2


@pytest.mark.parametrize(
    "words", [*ODD["payload"]["1"][5:], "1e3", "-1.5", "yes", "~", "", " a", "a: b", "\x1b[31m", "\u202e", "=", "0x1"]
)
def test_any_text_is_read_back_as_it_was(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    from oncue.cli.job_export import print_jobs
    from oncue.cli.job_file import read_job_file

    job = {"key": "k", "payload": {words: words, "more": [words]}}
    print_jobs({"set": "s", "jobs": [job]})
    Path("jobs.yaml").write_text(capsys.readouterr().out)

    assert read_job_file(Path("jobs.yaml")).jobs == (job,)


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ({}, None),
        ({"at": "2027-01-01T00:00:00.000Z"}, "2027-01-01T00:00:00.000Z"),
        ({"every": "1h", "timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}, "every 1h"),
        ({"cron": "@daily", "timezone": "Asia/Tokyo", "dst_gap": "shift"},
         {"cron": "@daily", "timezone": "Asia/Tokyo"}),
        ({"calendar": {"hour": 9, "year": None}, "cron": "0 9 * * *", "timezone": "UTC"}, {"calendar": {"hour": 9}}),
    ],
)  # fmt: skip
def test_a_schedule_is_written_as_people_do(shown: dict[str, Any], written: Any) -> None:
    assert exported_schedule(shown) == written
