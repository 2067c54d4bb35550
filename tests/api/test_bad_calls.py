"""Bad input to every call that takes a body or parameters: refused alike on both engines, by the field's name, and
nothing is stored. What is tried follows from the document, so that a new call or field is covered by itself."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest
from tests.api.conftest import Desk, desk_on
from tests.api.test_bad_input import UNREADABLE
from tests.api.test_listeners import SAMPLES

from oncue.api.application import CALLS
from oncue.api.openapi import document
from oncue.engines.port import Role
from oncue_conformance.store import EmptyStore

DOCUMENT: dict[str, Any] = msgspec.json.decode(document())
JOB = 9 * 1024 * 1024  # a payload, and the rest
LARGEST = {
    "/v1/session": 16 * 1024,
    **dict.fromkeys(("/v1/jobs/batch", "/v1/jobs/apply"), 64 * 1024 * 1024),
    **dict.fromkeys(("/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/by-key/{key}", "/v1/jobs/{id}/runNow"), JOB),
    **dict.fromkeys(("/v1/runs/{id}/retry", "/v1/dead-letters/requeue", "/v1/jobs/{id}/preview"), JOB),
}
WITH_BODY = [call for call, route in CALLS.items() if route.body is not None]
SECOND = 1.0  # of work, so that a busy machine is not blamed on the API

TEXTS = ["", " ", "\0", "a\0b", "\u202eb", "a\nb", "\x7f", "\u2028", "x" * 201]
TIMES = [
    "2030-01-01T00:00:00", "2030-01-01", "2030-W01-1T00:00:00Z", "2030-01-01T24:00:00Z", "2030-06-30T23:59:60Z",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2030-02-30T00:00:00Z", "now", "1893456000",
    "٢٠٣٠-01-01T00:00:00Z",
]  # fmt: skip
ZONES = [
    "right/UTC", "localtime", "posixrules", "Factory", "../../etc/passwd", "/etc/passwd", "America", "Mars/Phobos",
    "\0", "europe/berlin\n", "x" * 1_000,
]  # fmt: skip
CRONS = [
    "* * 31 2 *", "*/0 * * * *", "77 * * * *", "* * * *", "1," * 50_000 + "1 * * * *", "0 9 * * *\n", "0\u00a09 * * *",
    "@never", "0 9 * * mon-", "99999999999999999999 * * * *", "٥ * * * *",
]  # fmt: skip
OVER = {"every": "1h", "end_at": "2001-01-01T00:00:00Z"}
SCHEDULES: list[Any] = [
    *CRONS,
    *({"cron": one} for one in CRONS),
    *({"cron": "0 9 * * *", "timezone": one} for one in ZONES),
    *({"at": one} for one in TIMES if one != "now"),
    *({"every": "1h", "start_at": one} for one in TIMES if one != "now"),
    *({"every": one} for one in ("0s", "1ms", "-1s", "1e9d", "P1M", "999999999999d", "30", "")),
    *({"calendar": one} for one in ({}, {"month": 13}, {"hour": True}, {"minute": "*/0"}, {"date": 31, "month": 2})),
    *({"every": "1h", "max_runs": one} for one in (0, True, "x", [], 2**63)),
    *({"every": "1h", "jitter": one} for one in (0, True, "x", [], "-1s")),
    *({"every": "1h", "dst_gap": one} for one in (0, True, "x", [])),
    {"cron": "0 9 * * *", "every": "1h"}, OVER, {"x": 1},
    "2045-01-01T00:00:00Z", None, True, 7, [], "", "\0", "every 0s", "every", "x" * 1_001,
]  # fmt: skip
ANYTHING: list[Any] = [
    True, -1, 1.5, 2**63, -(2**63), 1e308, "", "\0", "\u202e", "nope", "x" * 10_000, [], [None], ["\0"], [[]], [True],
    {}, {"x": 1}, {"key": "\0"}, {"limit": True}, None,
]  # fmt: skip
LONG = pytest.mark.long


class Both:
    """The same API on two engines. Calls are an administrator's, who may make all of them."""

    def __init__(self, desks: list[Desk], ids: list[dict[str, str]]) -> None:
        self.desks = desks
        self.ids = ids
        self._taken = 0
        self._refused: list[tuple[str, str, Any, dict[str, Any]]] = []

    async def refused(self, method: str, path: str, body: Any = None, **how: Any) -> httpx2.Response:
        """The answer, which is a refusal on both, the same, and in time."""
        answer = await self.asked(method, path, body, **how)
        assert 400 <= answer.status_code < 500, (method, path, body, how, answer.text)
        return answer

    async def asked(self, method: str, path: str, body: Any = None, **how: Any) -> httpx2.Response:
        sqlite, postgres = await self._answers(method, path, body, **how)
        assert sqlite.status_code == postgres.status_code, (method, path, body, how, sqlite.text, postgres.text)
        if sqlite.status_code >= 400:
            assert sqlite.json() == postgres.json(), (method, path, body, how)
            self._refused.append((method, path, body, how))
        else:
            self._taken += 1
        return sqlite

    async def _answers(
        self, method: str, path: str, body: Any = None, *, query: str = "", **how: Any
    ) -> list[httpx2.Response]:
        answers = []
        for desk, ids in zip(self.desks, self.ids, strict=True):
            url = (
                path.format(id=ids[path.split("/")[2]] if "{id}" in path else "", queue="q", key="k", user_id="u")
                + query
            )
            began = time.process_time()
            answer = await desk.call(method, url, body, key="root", **how)
            assert time.process_time() - began < SECOND, (method, path, query)
            assert answer.status_code < 500, (method, path, query, body, answer.text)
            if answer.status_code >= 400:
                assert answer.headers["Content-Type"] == "application/problem+json"
            answers.append(answer)
        return answers

    async def stored(self) -> list[tuple[int, ...]]:
        return [await stored(desk) for desk in self.desks]

    async def leave_nothing(self, before: list[tuple[int, ...]]) -> None:
        """None of the refused calls left anything behind. Where others were taken in between, all come once more."""
        if self._taken:
            before = await self.stored()
            for method, path, body, how in self._refused:
                for answer in await self._answers(method, path, body, **how):
                    assert answer.status_code >= 400, (method, path, body, how)
        assert await self.stored() == before


async def stored(desk: Desk) -> tuple[int, ...]:
    store = desk.store
    return (
        len(await desk.jobs()),
        len(await store.runs()),
        len(await store.accounts.keys()),
        len((await store.audit.entries(None, 1_000, None)).items),
        len((await store.lists.dead_letters(None, 1_000, None)).items),
    )


@pytest.fixture
async def both(empty_sqlite: EmptyStore, empty_postgres: EmptyStore) -> AsyncIterator[Both]:
    async with AsyncExitStack() as open_desks:
        desks = [await open_desks.enter_async_context(desk_on(one)) for one in (empty_sqlite, empty_postgres)]
        ids = []
        for desk in desks:
            dead = str(await desk.dead())
            job = await desk.create(schedule="every 1h")
            key = next(one for one in await desk.store.accounts.keys() if one.role is Role.VIEWER)
            worker, order = await desk.store.worker(), {"action": "pause", "filter": {"name": "of none"}}
            bulk = (await desk.call("POST", "/v1/bulk", order, key="root")).json()["bulk_id"]
            of = {"jobs": job["job_id"], "runs": dead, "keys": str(key.key_id), "workers": str(worker), "bulk": bulk}
            ids.append(of)
        both = Both(desks, ids)
        before = await both.stored()
        yield both
        await both.leave_nothing(before)


def paths_of(answer: httpx2.Response) -> list[str]:
    return [error["path"] for error in answer.json()["errors"]]


# --------------------------------------------------------------------------------------------------------------- bodies


async def test_a_body_that_cannot_be_read_is_400_everywhere(both: Both) -> None:
    for (method, path), (name, body) in product(WITH_BODY, UNREADABLE):
        if (body or not CALLS[method, path].body_optional) and len(body) <= LARGEST.get(path, len(body)):
            assert (await both.refused(method, path, body)).status_code == 400, (method, path, name)


async def test_a_body_that_is_no_object_is_422_everywhere(both: Both) -> None:
    for (method, path), body in product(WITH_BODY, (b"[]", b"null", b'"x"', b"1", b"true")):
        answer = await both.refused(method, path, body)
        assert (answer.status_code, paths_of(answer)) == (422, [""]), (method, path, body)


async def test_another_type_is_415_and_too_much_413_everywhere(both: Both) -> None:
    for method, path in WITH_BODY:
        for kind in ("text/plain", "application/xml", "", "application/jsonx", "application/json2;x"):
            answer = await both.refused(method, path, b"{}", headers={"Content-Type": kind})
            assert answer.status_code == 415, (method, path, kind)
        largest = LARGEST.get(path, 1024 * 1024)
        answer = await both.refused(method, path, b"{}", headers={"Content-Length": str(largest + 1)})
        assert answer.status_code == 413, (method, path)


async def test_an_unknown_field_is_named_everywhere(both: Both) -> None:
    for method, path in WITH_BODY:
        good = msgspec.json.encode(SAMPLES[str(CALLS[method, path].body)]).decode()
        for name, told in (("unknown", "unknown"), ("\\u0000", "\\x00"), ("\\ud800", "\\ud800"), ("", "")):
            body = f'{good[:-1]}, "{name}": 1}}'.encode()
            answer = await both.refused(method, path, body)
            assert (answer.status_code, paths_of(answer)) == (422, [told]), (method, path, name, answer.text)


def fields_of(call: tuple[str, str]) -> Iterator[str]:
    yield from DOCUMENT["components"]["schemas"][CALLS[call].body]["properties"]


# A job is read in the same way wherever it is written: every day it is created, and replaced when everything is run.
REPLACING = [("PUT", "/v1/jobs/{id}"), ("PUT", "/v1/jobs/by-key/{key}"), ("POST", "/v1/jobs/{id}/preview")]
EACH = [
    pytest.param(call, id=" ".join(call), marks=[LONG] if call in REPLACING else [])
    for call in {CALLS[call].call: call for call in WITH_BODY}.values()
]


@pytest.mark.parametrize("values", [ANYTHING[::2], pytest.param(ANYTHING[1::2], marks=LONG)], ids=["even", "odd"])
@pytest.mark.parametrize("call", EACH)
async def test_whatever_is_written_into_a_field_is_taken_or_refused_by_its_name(
    both: Both, call: tuple[str, str], values: list[Any]
) -> None:
    method, path = call
    good = SAMPLES[str(CALLS[call].body)]
    refused = 0
    for field, value in product(fields_of(call), values):
        answer = await both.asked(method, path, {**good, field: value})
        if answer.status_code == 422 and answer.json()["errors"]:
            refused += 1
            named = {one.partition(".")[0] for one in paths_of(answer)}
            alone = {field} | INSTEAD.get(field, set())
            assert named & alone, (call, field, value, answer.text)
    assert refused


INSTEAD = {"filter": {"run_ids"}, "payload": {"payload_patch"}}  # one of the two is asked for
PREVIEW = ("POST", "/v1/schedules/preview")
TIMED = [("POST", "/v1/jobs"), ("PATCH", "/v1/jobs/{id}"), PREVIEW]
REPLACED = pytest.param(("PUT", "/v1/jobs/by-key/{key}"), marks=LONG)


@pytest.mark.parametrize("call", [*TIMED, REPLACED], ids=" ".join)
async def test_a_bad_schedule_is_422_wherever_there_is_one(both: Both, call: tuple[str, str]) -> None:
    task = {} if call == PREVIEW else {"task": "mark"}
    for schedule in SCHEDULES:
        if call == PREVIEW and schedule == OVER:
            continue  # told as what it is: a schedule that never fires
        answer = await both.refused(*call, {**task, "schedule": schedule})
        assert answer.status_code == 422, (schedule, answer.text)
        assert all(path.partition(".")[0] == "schedule" for path in paths_of(answer)), (schedule, answer.text)


async def test_one_bad_job_in_a_batch_is_told_by_its_index_and_none_is_made(both: Both) -> None:
    for schedule in SCHEDULES:
        body = {"jobs": [{"task": "mark"}, {"task": "mark", "schedule": schedule}, {"task": "mark"}]}
        answer = await both.refused("POST", "/v1/jobs/batch", body)
        assert answer.status_code == 422, schedule
        assert all(path.startswith("jobs.1.schedule") for path in paths_of(answer)), answer.text


async def test_a_bad_stretch_or_instant_is_422(both: Both) -> None:
    good = SAMPLES["Stretch"]
    for name, one in product(("from", "to"), TIMES):
        answer = await both.refused("POST", "/v1/jobs/{id}/backfill", {**good, name: one})
        assert (answer.status_code, name in paths_of(answer)) == (422, True), (name, one, answer.text)
    for one in TIMES:
        answer = await both.refused("POST", "/v1/schedules/preview", {"schedule": "every 1h", "after": one})
        assert (answer.status_code, paths_of(answer)) == (422, ["after"]), one
        answer = await both.refused("POST", "/v1/dead-letters/discard", {"filter": {"start_time": one}})
        assert (answer.status_code, paths_of(answer)) == (422, ["filter.start_time"]), one


# ---------------------------------------------------------------------------------------------------------- parameters


def bad_values(schema: dict[str, Any]) -> list[str]:
    match schema:
        case {"format": "date-time"}:
            return [*TIMES, *TEXTS]
        case {"format": "uuid"}:
            return ["nope", "{01990000-0000-7000-8000-000000000000}", "01990000000070008000000000000000", *TEXTS]
        case {"enum": _}:
            return ["nope", "ACTIVE", "1", *TEXTS]
        case {"type": "integer", "minimum": low, "maximum": high}:
            return [
                str(low - 1),
                "-1",
                str(high + 1),
                "1.5",
                "1e2",
                "+1",
                " 1",
                "0x1",
                "１",
                "99999999999999999999",
                "true",
                *TEXTS,
            ]
        case {"maxLength": _}:
            return TEXTS
        case _:
            return ["garbage", "AAAA", "AAAAAAAAAAAAAAAA", "=", "🙂", "%", "\0", "x" * 10_000, "x" * 9_999]


async def test_a_bad_parameter_is_422_and_named_wherever_it_may_stand(both: Both) -> None:
    for path, by_method in DOCUMENT["paths"].items():
        for method, operation in by_method.items():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "query":
                    name = parameter["name"]
                    for value in bad_values(parameter["schema"]):
                        answer = await both.refused(method.upper(), path, query=f"?{name}={quote(value)}")
                        assert (answer.status_code, paths_of(answer)) == (422, [name]), (path, name, value, answer.text)


async def test_a_parameter_that_is_unknown_or_comes_twice_is_422_wherever(both: Both) -> None:
    for method, path in CALLS:
        if CALLS[method, path].signs_in:
            continue  # the key in its body comes first
        body = SAMPLES.get(str(CALLS[method, path].body))
        for sent, told in (("unknown=1", "unknown"), ("%00=1", "\\x00"), ("LIMIT=1", "LIMIT")):
            answer = await both.refused(method, path, body, query=f"?{sent}")
            assert (answer.status_code, paths_of(answer)) == (422, [told]), (method, path, answer.text)
        for name in CALLS[method, path].query:
            answer = await both.refused(method, path, query=f"?{name}=x&{name}=x")
            assert (answer.status_code, name in paths_of(answer)) == (422, True), (method, path, name)


async def test_names_in_paths_are_checked_like_names_in_bodies(both: Both) -> None:
    for (method, path), route in CALLS.items():
        if "{queue}" in path or "{key}" in path:
            for name in TEXTS:
                url = path.replace("{queue}", quote(name)).replace("{key}", quote(name))
                answer = await both.refused(method, url, SAMPLES.get(str(route.body)))
                assert answer.status_code in (404, 405, 422), (method, path, name, answer.text)  # 405: no name at all


async def test_a_bad_idempotency_key_is_422_wherever_one_is_taken(both: Both) -> None:
    for (method, path), route in CALLS.items():
        if "Idempotency-Key" in route.headers:
            for key in (b"", b"x" * 256, "ä".encode(), b"a\tb"):
                body = SAMPLES.get(str(route.body))
                answer = await both.refused(method, path, body, headers={"Idempotency-Key": key})
                assert (answer.status_code, paths_of(answer)) == (422, ["Idempotency-Key"]), (
                    method,
                    path,
                    key,
                    answer.text,
                )
