"""How a job, a run or a worker is meant: by its id without a question, by all else with one."""

from typing import Any
from uuid import UUID

import pytest
from tests.client.both import J1, R1, R2, Wire, said
from tests.client.conftest import Connect

from oncue.client import Ambiguous, NotFound

JOB = {"job_id": J1, "task": "hello", "status": "active"}
RUN = {"run_id": R1, "job_id": J1, "status": "succeeded"}


def found(**kinds: Any) -> Any:
    return said({"jobs": [], "runs": [], "workers": [], "tasks": [], "queues": [], "tags": [], **kinds})


def a_job(match: str, job_id: str = J1, **fields: Any) -> dict[str, Any]:
    return {"job_id": job_id, "name": None, "key": None, "task": "hello", "status": "active", "match": match, **fields}


@pytest.mark.parametrize("given", [J1, UUID(J1), J1.upper(), J1.replace("-", "")])
def test_a_full_id_is_not_looked_up(connect: Connect, given: Any) -> None:
    either = connect(wire := Wire(said(JOB)))

    either(either.client.jobs.get(given))

    assert wire.lines == [f"GET /v1/jobs/{J1}"]


def test_a_snapshot_is_not_looked_up_and_a_run_names_its_job(connect: Connect) -> None:
    either = connect(wire := Wire(said(JOB), said(RUN), *[said(JOB)] * 2))
    job, run = either(either.client.jobs.get(J1)), either(either.client.runs.get(R1))

    assert either(either.client.jobs.get(job)) == either(either.client.jobs.get(run)) == job
    assert wire.lines[2:] == [f"GET /v1/jobs/{J1}"] * 2


@pytest.mark.parametrize("match", ["ending", "beginning", "key", "name", "ended_name"])
def test_what_the_server_finds_is_meant(connect: Connect, match: str) -> None:
    nearly = a_job("prefix", R2)
    either = connect(wire := Wire(found(jobs=[a_job(match), nearly]), said(JOB)))

    assert either(either.client.jobs.pause("a&b")).job_id == UUID(J1)
    assert wire.lines == ["GET /v1/lookup?q=a%26b&kind=job%2Ctask", f"POST /v1/jobs/{J1}/pause"]


def test_the_strongest_match_is_meant(connect: Connect) -> None:
    either = connect(Wire(found(jobs=[a_job("key"), a_job("name", R2)]), said(JOB)))

    assert either(either.client.jobs.get("digest")).job_id == UUID(J1)


def test_several_are_listed(connect: Connect) -> None:
    some = [a_job("name", name="digest"), a_job("name", R2, status="paused")]
    either = connect(wire := Wire(found(jobs=some)))

    with pytest.raises(Ambiguous) as several:
        either(either.client.jobs.cancel("digest"))

    assert str(several.value) == (
        f"Several jobs match 'digest'. Use the id of one, such as:\n{J1}  digest  active\n{R2}  hello  paused"
    )
    assert [str(one.job_id) for one in several.value.found] == [J1, R2]
    assert len(wire.requests) == 1


def test_none_is_told_with_the_nearest_name(connect: Connect) -> None:
    either = connect(Wire(found(jobs=[a_job("prefix", name="digest-eu")]), found()))

    with pytest.raises(NotFound, match=r"^No job matches 'digest'. Did you mean 'digest-eu'\? Use an id, the last 6"):
        either(either.client.jobs.get("digest"))
    with pytest.raises(NotFound, match=r"^No job matches 'x'. Use an id"):
        either(either.client.jobs.get("x"))


def test_an_empty_text_means_nothing(connect: Connect) -> None:
    either = connect(wire := Wire())

    for call in (either.client.jobs.get, either.client.runs.get, either.client.workers.get):
        with pytest.raises(ValueError, match="is not a valid id or name"):
            either(call(" "))
    assert wire.requests == []


def test_a_run_is_meant_by_the_end_of_its_id(connect: Connect) -> None:
    either = connect(wire := Wire(found(runs=[{"run_id": R1, "job_id": J1, "match": "ending"}]), said(RUN)))

    assert either(either.client.runs.get("0000b1")).run_id == UUID(R1)
    assert wire.lines == ["GET /v1/lookup?q=0000b1&kind=run%2Cjob%2Ctask", f"GET /v1/runs/{R1}"]


def test_a_job_means_its_newest_run(connect: Connect) -> None:
    either = connect(wire := Wire(found(jobs=[a_job("name")]), said({"runs": [RUN]}), said(RUN)))

    assert either(either.client.runs.wait("digest")).run_id == UUID(R1)
    assert wire.lines[1:] == [f"GET /v1/runs?job_id={J1}&limit=1", f"GET /v1/runs/{R1}"]


def test_a_job_without_runs_and_a_task_mean_no_run(connect: Connect) -> None:
    either = connect(Wire(found(jobs=[a_job("name", name="digest")]), said({"runs": []}), found(tasks=[{"name": "t"}])))

    with pytest.raises(NotFound, match=r'^Job 000000a1 "digest" has no run yet'):
        either(either.client.runs.get("digest"))
    with pytest.raises(NotFound, match=r"^'t' is a task, not a run"):
        either(either.client.runs.get("t"))


def test_a_worker_is_meant_by_its_name(connect: Connect) -> None:
    worker = {"worker_id": R2, "name": "web-1"}
    either = connect(wire := Wire(found(workers=[{**worker, "match": "name"}]), said(worker)))

    assert either(either.client.workers.drain("web-1")).worker_id == UUID(R2)
    assert wire.lines[1:] == [f"POST /v1/workers/{R2}/drain"]


def test_events_are_of_what_is_meant(connect: Connect) -> None:
    either = connect(wire := Wire(found(jobs=[a_job("key")]), lambda _: said({}, 404)))

    with pytest.raises(NotFound):
        either.all(either.client.events(job="digest"))

    assert wire.lines == ["GET /v1/lookup?q=digest&kind=job%2Ctask", f"GET /v1/events?job_id={J1}"]
