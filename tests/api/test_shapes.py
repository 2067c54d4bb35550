"""Every field of a shape is taken, stored, told, described and read, whichever there are: none can be forgotten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.api.conftest import Desk
from tests.whole_job import whole_job

from oncue.api.editing import KEPT, TOLD
from oncue.api.openapi import document
from oncue.domain.definition import USUAL, define
from oncue.domain.job import Spec, decode_spec, encode_spec
from oncue.shapes.accounts import AuditLine, Key, Me, NewKey
from oncue.shapes.fleet import Queue, TaskInfo, Worker
from oncue.shapes.jobs import Explanation, Job, JobFields, JobState, Occurrence, PlainFields, Preview
from oncue.shapes.runs import Attempt, DeadLetter, LastRun, Run

FIELDS = JobFields.__annotations__.keys()


def fields(shape: type[msgspec.Struct]) -> set[str]:
    return {*shape.__struct_fields__}


# ------------------------------------------------------------------------------------------------------------- a job


def test_what_is_sent_is_what_is_stored_and_what_is_told() -> None:
    schemas = msgspec.json.decode(document())["components"]["schemas"]

    assert fields(PlainFields) < FIELDS
    assert fields(Spec) - {"trace", "secrets", "unknown"} == FIELDS - {"payload"}
    assert fields(Job) == FIELDS | {*KEPT, *TOLD}
    assert schemas["NewJob"]["properties"].keys() == FIELDS
    assert schemas["Job"]["properties"].keys() == set(schemas["Job"]["required"]) == fields(Job)
    assert schemas["KeyedJob"]["properties"].keys() == schemas["JobChange"]["properties"].keys() == fields(Job)


def test_no_field_is_lost_on_its_way_through_the_store() -> None:
    spec, payload = define(whole_job(), {}, now=0, limits=USUAL)

    defaults = {field.name: field.default for field in msgspec.structs.fields(Spec)}
    same = [
        name
        for name, default in defaults.items()
        if name not in ("trace", "secrets", "unknown") and getattr(spec, name) == default
    ]
    assert same == []
    assert payload is not None
    assert decode_spec(encode_spec(spec)) == spec


@pytest.mark.parametrize("how", ["POST", "PUT", "PATCH"])
async def test_every_field_is_taken_and_told(desk: Desk, how: str) -> None:
    whole = whole_job()
    if how == "POST":
        answer = await desk.call("POST", "/v1/jobs", whole)
    elif how == "PUT":
        answer = await desk.call("PUT", f"/v1/jobs/by-key/{whole['key']}", whole)
    else:
        job = await desk.create(whole["task"], key="ada", schedule=whole["schedule"])
        answer = await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", {**whole, "key": None})
        whole["key"] = None
    assert answer.is_success, answer.text

    told = await desk.get(f"/jobs/{answer.json()['job_id']}")

    assert told.keys() == fields(Job)
    assert as_sent(told, whole) == whole
    read = msgspec.json.decode(msgspec.json.encode(told), type=Job)
    assert as_sent(msgspec.json.decode(msgspec.json.encode(read)), whole) == whole
    assert (await desk.call("PUT", f"/v1/jobs/{told['job_id']}", told)).json() == told


def as_sent(told: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """Of a schedule more is told than was sent: its defaults."""
    schedule = {name: value for name, value in told["schedule"].items() if name in sent["schedule"]}
    return {name: told[name] for name in sent} | {"schedule": schedule}


# ------------------------------------------------------------------------------------------------------------ the rest


async def test_what_is_told_of_all_else_has_the_fields_of_its_shape(desk: Desk) -> None:
    dead = await desk.dead(schedule="now")
    job = await desk.create(schedule="0 0 1 1 *")
    made = await desk.call("POST", "/v1/keys", {"user_id": "eve", "role": "viewer"}, key="root")
    preview = await desk.call("POST", "/v1/schedules/preview", {"schedule": "every 5m"})
    run = await desk.get(f"/runs/{dead}")
    last = await desk.get(f"/jobs/{dead}")

    told: list[tuple[Any, type[msgspec.Struct]]] = [
        (run, DeadLetter),
        (run["attempts"][0], Attempt),
        (last["last_run"], LastRun),
        ((await desk.get(f"/jobs/{dead}/runs"))["runs"][0], Run),
        ((await desk.get("/dead-letters"))["dead_letters"][0], DeadLetter),
        (await desk.get(f"/jobs/{job['job_id']}/status"), JobState),
        (await desk.get(f"/jobs/{job['job_id']}/explain"), Explanation),
        (preview.json(), Preview),
        ((await desk.get("/tasks"))["tasks"][0], TaskInfo),
        ((await desk.get("/workers"))["workers"][0], Worker),
        ((await desk.get("/queues"))["queues"][0], Queue),
        ((await desk.get("/keys", "root"))["keys"][0], Key),
        (made.json(), NewKey),
        (await desk.get("/me"), Me),
        ((await desk.get("/audit", "root"))["audit"][0], AuditLine),
    ]

    assert [(shape.__name__, {*found}) for found, shape in told] == [
        (shape.__name__, fields(shape)) for _, shape in told
    ]


async def test_what_is_told_of_an_occurrence_has_the_fields_of_its_shape(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")
    await desk.store.plan(120_000_000)

    [first, *_] = (await desk.get(f"/jobs/{job['job_id']}/occurrences"))["occurrences"]

    assert {*first} == fields(Occurrence)
