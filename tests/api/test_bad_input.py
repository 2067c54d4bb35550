"""What must not get in: refused the same way on every engine, with the field's name, and nothing is stored."""

from collections.abc import AsyncIterator

import pytest
from tests.api.conftest import Desk

from oncue.api.http.reading import LARGEST_BODY
from oncue.engines.port import Task
from oncue.settings import Settings

LARGEST_JOB = LARGEST_BODY + Settings().max_payload_bytes
DEEP = b"[" * 64 + b"]" * 64

UNREADABLE: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("half an object", b'{"task": "mark"'),
    ("two values", b'{"task": "mark"} {}'),
    ("single quotes", b"{'task': 'mark'}"),
    ("NaN", b'{"task": "mark", "payload": {"x": NaN}}'),
    ("infinity", b'{"task": "mark", "payload": {"x": -Infinity}}'),
    ("a number too large", b'{"task": "mark", "payload": {"x": 1e400}}'),
    ("a 5,000-digit integer", b'{"task": "mark", "payload": {"x": ' + b"1" * 5_000 + b"}}"),
    ("an integer of 65 bits", b'{"task": "mark", "payload": {"x": 18446744073709551616}}'),
    ("200,000 brackets", b"[" * 200_000),
    ("200,000 objects", b'{"a":' * 200_000),
    ("a name twice", b'{"task": "mark", "task": "slow"}'),
    ("a name twice inside", b'{"task": "mark", "payload": {"a": 1, "b": 2, "a": 3}}'),
    ("Latin-1", '{"task": "märk"}'.encode("latin-1")),
    ("a surrogate in UTF-8", b'{"task": "\xed\xa0\x80"}'),
    ("a raw control character", b'{"task": "a\x01"}'),
    ("a byte order mark", b'\xef\xbb\xbf{"task": "mark"}'),
]


@pytest.mark.parametrize("body", [body for _, body in UNREADABLE], ids=[name for name, _ in UNREADABLE])
async def test_a_body_that_cannot_be_read_is_400(desk: Desk, body: bytes) -> None:
    answer = await desk.call("POST", "/v1/jobs", body)

    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith("The body is not valid JSON: ")
    assert await desk.nothing_stored()


WRONG: list[tuple[str, bytes, list[tuple[str, str]]]] = [
    ("a list", b"[]", [("", "wrong_type")]),
    ("null", b"null", [("", "wrong_type")]),
    ("no task", b"{}", [("task", "required")]),
    ("an unknown task", b'{"task": "nope"}', [("task", "unknown_task")]),
    ("a number for a task", b'{"task": 7}', [("task", "wrong_type")]),
    ("an unknown field", b'{"task": "mark", "notfy": []}', [("notfy", "unknown_field")]),
    ("a lone surrogate for a field", b'{"task": "mark", "\\ud800": 1}', [("\\ud800", "unknown_field")]),
    ("a NUL in the name", b'{"task": "mark", "name": "a\\u0000b"}', [("name", "bad_text")]),
    ("a lone surrogate in the name", b'{"task": "mark", "name": "\\ud83d"}', [("name", "bad_text")]),
    ("a bidi mark in the name", '{"task": "mark", "name": "a\u202eb"}'.encode(), [("name", "bad_text")]),
    ("a newline in a tag", b'{"task": "mark", "tags": ["a", "b\\n"]}', [("tags.1", "bad_text")]),
    ("a long name", b'{"task": "mark", "name": "' + b"n" * 201 + b'"}', [("name", "too_long")]),
    ("true for a number", b'{"task": "mark", "max_retries": true}', [("max_retries", "wrong_type")]),
    ("a NUL in the payload", b'{"task": "mark", "payload": {"a": ["\\u0000"]}}', [("payload.a.0", "bad_text")]),
    ("half a pair in the payload", b'{"task": "mark", "payload": {"a": "\\udc00"}}', [("payload.a", "bad_text")]),
    ("a NUL in a name in the payload", b'{"task": "mark", "payload": {"\\u0000": 1}}', [("payload.\\x00", "bad_text")]),
    ("a list for a payload", b'{"task": "mark", "payload": [1]}', [("payload", "wrong_type")]),
    ("a large payload", b'{"task": "mark", "payload": {"a": "' + b"a" * 8_388_601 + b'"}}', [("payload", "too_large")]),
    ("a misfit", b'{"task": "slow", "payload": {"seconds": "x"}}', [("payload.seconds", "mismatch")]),
    ("an argument missing", b'{"task": "slow"}', [("payload.seconds", "required")]),
    ("an argument too many", b'{"task": "slow", "payload": {"seconds": 1, "x": 1}}', [("payload.x", "unknown_field")]),
    ("a bad cron", b'{"task": "mark", "schedule": "77 * * * *"}', [("schedule.cron", "bad_cron")]),
    ("a cron that never fires", b'{"task": "mark", "schedule": "* * 31 2 *"}', [("schedule.cron", "never_fires")]),
    ("a long cron", b'{"task": "mark", "schedule": "' + b"1," * 50_000 + b'1 * * * *"}', [("schedule", "too_long")]),
    ("a schedule that is over", b'{"task": "mark", "schedule": {"every": "1m", "end_at": "2001-01-01T00:00:00Z"}}',
     [("schedule", "never_fires")]),
    ("too far ahead", b'{"task": "mark", "schedule": "2045-01-01T00:00:00Z"}', [("schedule.at", "too_far")]),
    ("a naive time", b'{"task": "mark", "schedule": {"at": "2030-01-01T00:00:00"}}', [("schedule.at", "bad_instant")]),
    ("a bad zone", b'{"task": "mark", "schedule": {"cron": "0 9 * * *", "timezone": "../../etc/passwd"}}',
     [("schedule.timezone", "bad_timezone")]),
    ("null for a schedule", b'{"task": "mark", "schedule": null}', [("schedule", "wrong_type")]),
    ("an inner address", b'{"task": "http", "payload": {"url": "http://127.0.0.1/"}}', [("payload.url", "")]),
    ("several at once", b'{"task": "nope", "name": "", "queue": 1, "retry": {"factor": 0, "x": 1}}',
     [("name", "too_short"), ("queue", "wrong_type"), ("retry.factor", "out_of_range"), ("retry.x", "unknown_field"),
      ("task", "unknown_task")]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "errors"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
async def test_a_wrong_job_is_422_and_names_every_field(desk: Desk, body: bytes, errors: list[tuple[str, str]]) -> None:
    answer = await desk.call("POST", "/v1/jobs", body)

    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json"), answer.text
    found = answer.json()["errors"]
    assert [error["path"] for error in found] == [path for path, _ in errors]
    assert all(code in ("", error["code"]) for error, (_, code) in zip(found, errors, strict=True)), found
    assert all(error["message"] for error in found)
    assert await desk.nothing_stored()


async def test_a_payload_may_be_deep_but_not_deeper(desk: Desk) -> None:
    await desk.call("POST", "/v1/jobs", b'{"task": "mark", "payload": {"a": ' + DEEP[1:-1] + b"}}")
    assert len(await desk.jobs()) == 1

    answer = await desk.call("POST", "/v1/jobs", b'{"task": "mark", "payload": {"a": ' + DEEP + b"}}")

    assert (answer.status_code, answer.json()["errors"][0]["code"], len(await desk.jobs())) == (422, "too_deep", 1)


async def test_what_is_at_the_limit_is_taken_and_read_back(desk: Desk) -> None:
    payload = {"a": "ä" * 131_000, "big": 2**64 - 1, "small": -(2**63), "float": 1.5e300, "\\u0000": "\\ud800"}
    job = await desk.create(name="n" * 200, payload=payload, tags=["t" * 100] * 50, labels=["ü" * 31] * 16)

    assert (await desk.get(f"/jobs/{job['job_id']}")) == job
    assert (job["payload"], job["name"]) == (payload, "n" * 200)


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/xml", "application/x-www-form-urlencoded"])
async def test_another_content_type_is_415(desk: Desk, kind: str | None) -> None:
    headers = {"Authorization": f"Bearer {desk.keys['ada']}"} | ({} if kind is None else {"Content-Type": kind})

    answer = await desk.client.post("/v1/jobs", content=b'{"task": "mark"}', headers=headers)

    assert (answer.status_code, await desk.nothing_stored()) == (415, True)


async def test_json_may_name_its_charset(desk: Desk) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}

    assert (await desk.call("POST", "/v1/jobs", b'{"task": "mark"}', headers=headers)).status_code == 201


@pytest.mark.parametrize(
    ("declared", "read"), [({"Content-Length": str(LARGEST_JOB + 1)}, 0), ({}, LARGEST_JOB + 65_536)]
)
async def test_a_large_body_is_413_as_soon_as_that_is_known(desk: Desk, declared: dict[str, str], read: int) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * LARGEST_BODY:
            sent += 65_536
            yield b" " * 65_536

    headers = {"Authorization": f"Bearer {desk.keys['ada']}", "Content-Type": "application/json"} | declared
    answer = await desk.client.post("/v1/jobs", content=endless(), headers=headers)

    assert (answer.status_code, sent, await desk.nothing_stored()) == (413, read, True)


async def test_a_task_announced_a_moment_ago_is_known(desk: Desk) -> None:
    await desk.create()  # the list of tasks is remembered from here on
    await desk.store.fleet.announce([Task("fresh", b"{}")], desk.store.now)

    await desk.create("fresh")


async def test_an_allowed_inner_address_and_an_outer_one_are_taken(desk: Desk) -> None:
    await desk.create("http", payload={"url": "http://10.1.2.3/hook"})
    await desk.create("http", payload={"url": "https://example.org/"})


async def test_a_schema_that_is_none_leaves_the_check_to_the_worker(desk: Desk) -> None:
    await desk.store.fleet.announce([Task("odd", b'{"$ref": "http://127.0.0.1:1/x"}')], desk.store.now)

    await desk.create("odd", payload={"a": 1})
