"""Payloads that name secrets: what is refused, whose secrets a job may use, and tokens in plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.api.conftest import Desk, add_key, read_back

from oncue import Context, Secret, Tasks
from oncue.domain.ids import JobId
from oncue.domain.secret_refs import SecretAccess
from oncue.engines.port import Role
from oncue.engines.port import Task as Registered
from oncue.executors.command import command_task
from oncue.executors.http import http_task
from oncue.settings import Settings
from oncue.tasks import Task

URL = "https://example.org/"
NAMED = {"secret": "crm-token"}
WARNING = {
    "path": "payload.headers.Authorization",
    "code": "plain_secret",
    "message": 'is stored in plain text; name a secret, like {"secret": "crm-token"}',
}

mine = Tasks()


@dataclass
class Login:
    name: str
    password: Secret


@mine.task("mine")
async def task_of_mine(
    ctx: Context,
    token: Secret,
    data: dict[str, Any] = {},  # noqa: B006
    other: Secret | None = None,
    several: list[Secret] = [],  # noqa: B006
    login: Login | None = None,
) -> None: ...


@pytest.fixture(autouse=True)
async def registered(desk: Desk) -> None:
    own = mine.get("mine")
    assert own is not None
    built_in: list[Task] = [http_task(Settings()), command_task(Settings()), own]
    await desk.store.fleet.announce([Registered(t.name, t.schema(), roles=t.roles) for t in built_in], desk.store.now)


async def access(desk: Desk, job: Any) -> SecretAccess | None:
    snap = await desk.store.engine.jobs.read(None, JobId(UUID(job["job_id"])))
    assert snap is not None
    return snap.job.spec.secrets


async def problems(desk: Desk, task: str, payload: Any, key: str = "root") -> dict[str, str]:
    answer = await desk.call("POST", "/v1/jobs", {"task": task, "payload": payload}, key=key)
    assert answer.status_code == 422, answer.text
    assert await desk.nothing_stored()
    return {problem["path"]: problem["code"] for problem in answer.json()["errors"]}


@pytest.mark.parametrize("wrong", [{"secret": "../x"}, {"secret": ""}, {"secret": "a\n"}, {"secret": "x" * 101}])
async def test_a_name_that_is_none_is_refused(desk: Desk, wrong: Any) -> None:
    for payload, path in (
        ({"url": wrong}, "payload.url"),
        ({"url": URL, "headers": {"X": wrong}}, "payload.headers.X"),
        ({"url": URL, "body": [{"a": wrong}]}, "payload.body.0.a"),
    ):
        assert await problems(desk, "http", payload) == {f"{path}.secret": "bad_secret_name"}
    assert await problems(desk, "command", {"argv": ["x"], "env": {"A": wrong}}) == {
        "payload.env.A.secret": "bad_secret_name"
    }
    assert await problems(desk, "mine", {"token": wrong}) == {"payload.token": "bad_secret"}


@pytest.mark.parametrize("wrong", [{"secret": "a", "more": 1}, {"secret": 1}, {}, {"Secret": "a"}])
async def test_what_names_no_secret_is_refused_where_a_text_must_stand(desk: Desk, wrong: Any) -> None:
    for payload, path in (
        ({"url": wrong}, "payload.url"),
        ({"url": URL, "headers": {"X": wrong}}, "payload.headers.X"),
    ):
        assert await problems(desk, "http", payload) == {path: "bad_secret"}
    assert set((await problems(desk, "mine", {"token": wrong})).values()) == {"bad_secret"}


async def test_a_plain_text_for_a_secret_is_refused_and_not_repeated(desk: Desk) -> None:
    answer = await desk.call("POST", "/v1/jobs", {"task": "mine", "payload": {"token": "planted-value"}})

    assert answer.status_code == 422
    assert "planted-value" not in answer.text
    assert answer.json()["errors"] == [
        {"path": "payload.token", "code": "bad_secret", "message": 'must name a secret, like {"secret": "crm-token"}'}
    ]


async def test_nor_is_one_that_stands_where_a_secret_might(desk: Desk) -> None:
    login = {"name": "root", "password": "planted-value"}
    payload = {"token": NAMED, "other": "planted-value", "several": "planted-value", "login": login}

    answer = await desk.call("POST", "/v1/jobs", {"task": "mine", "payload": payload})

    assert {one["path"]: one["code"] for one in answer.json()["errors"]} == dict.fromkeys(
        ("payload.other", "payload.several", "payload.login"), "bad_secret"
    )
    assert "planted-value" not in answer.text


async def test_data_that_looks_like_a_secret_is_data(desk: Desk) -> None:
    body = {"secret": "a", "user": "b"}
    await desk.create("http", payload={"url": URL, "method": "POST", "body": body}, key="root")
    await desk.create("mine", payload={"token": NAMED, "data": {"secret": 5}})


async def test_the_role_that_writes_the_payload_decides(desk: Desk) -> None:
    payload = {"url": URL, "headers": {"Authorization": NAMED}}

    assert await access(desk, await desk.create("http", payload=payload)) == SecretAccess("ada")
    assert await access(desk, await desk.create("http", payload=payload, key="root")) == SecretAccess("root", True)
    assert await access(desk, await desk.create("http", payload={"url": URL}, key="root")) is None
    assert await access(desk, await desk.create("http", payload={"url": NAMED})) == SecretAccess("ada")
    assert await access(desk, await desk.create("mine", payload={"token": NAMED})) == SecretAccess("ada")


async def test_each_job_of_a_batch_has_its_own(desk: Desk) -> None:
    payloads: list[Any] = [{"url": URL}, {"url": NAMED}, {"url": URL}, {"url": URL, "headers": {"Authorization": "x"}}]
    jobs = [{"task": "http", "payload": payload} for payload in payloads]
    made = read_back(await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs}))

    found = [await access(desk, {"job_id": job_id}) for job_id in made["job_ids"]]
    assert found == [None, SecretAccess("ada"), None, None]
    assert made["warnings"] == [{**WARNING, "path": "jobs.3.payload.headers.Authorization"}]


LATER = "every 1d"


async def test_an_edit_of_something_else_leaves_it(desk: Desk) -> None:
    job = await desk.create("http", payload={"url": NAMED}, schedule=LATER)
    await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", {"name": "other"}, key="root")

    assert await access(desk, job) == SecretAccess("ada")


async def test_an_administrator_who_edits_the_job_of_another_lends_nothing(desk: Desk) -> None:
    job = await desk.create("http", payload={"url": URL}, schedule=LATER)
    for change in ({"payload": {"url": NAMED}}, {"priority": "high"}, {"task": "http"}):
        answer = await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", change, key="root")
        assert answer.status_code == 200, answer.text
        assert await access(desk, job) == SecretAccess("ada")


@pytest.mark.parametrize("change", [{"payload": {"url": NAMED, "method": "POST"}}, {"task": "http"}])
async def test_a_key_with_a_lesser_role_takes_it_back(desk: Desk, change: Any) -> None:
    """Else it could send what an administrator's key may use to where it likes."""
    root = await desk.store.accounts.user("root", desk.store.now)
    desk.keys["lesser"] = await add_key(desk.store, root, "root", Role.MEMBER)
    job = await desk.create("http", payload={"url": NAMED}, schedule=LATER, key="root")
    assert await access(desk, job) == SecretAccess("root", shared=True)
    await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", change, key="lesser")

    assert await access(desk, job) == SecretAccess("root")


async def test_the_same_definition_again_by_a_key_that_may_is_a_change(desk: Desk) -> None:
    root = await desk.store.accounts.user("root", desk.store.now)
    desk.keys["lesser"] = await add_key(desk.store, root, "root", Role.MEMBER)
    definition = {"task": "http", "payload": {"url": NAMED}, "schedule": LATER}
    job = (await desk.call("PUT", "/v1/jobs/by-key/k", definition, key="lesser")).json()
    assert await access(desk, job) == SecretAccess("root")
    await desk.call("PUT", "/v1/jobs/by-key/k", definition, key="root")

    assert await access(desk, job) == SecretAccess("root", shared=True)


async def test_nobody_sets_it_by_a_field(desk: Desk) -> None:
    given = {"task": "http", "payload": {"url": NAMED}, "secrets": {"user_id": "root", "shared": True}}
    assert (await desk.call("POST", "/v1/jobs", given)).status_code == 422


@pytest.mark.parametrize("value", ["x", NAMED], ids=["text", "secret"])
async def test_headers_that_cannot_be_sent_are_refused_whatever_their_values(desk: Desk, value: Any) -> None:
    bad = ("Host", "content-length", "Oncue-Run-Id", "X A", "Ü")
    found = await problems(desk, "http", {"url": URL, "headers": dict.fromkeys(("X-Good", *bad), value)})
    assert found == {f"payload.headers.{header}": "bad_header" for header in bad}


async def test_a_header_with_a_line_break_is_refused(desk: Desk) -> None:
    payload = {"url": URL, "headers": {"X-A": "b\r\nX-C: d"}}
    assert await problems(desk, "http", payload) == {"payload.headers.X-A": "bad_header"}


# ------------------------------------------------------------------------------------------------------- in plain text


@pytest.mark.parametrize("header", ["Authorization", "authorization", "COOKIE", "X-Api-Key", "Proxy-Authorization"])
async def test_a_token_in_plain_text_is_accepted_with_a_warning(desk: Desk, header: str) -> None:
    job = await desk.create("http", payload={"url": URL, "headers": {header: "Bearer x", "Accept": "y"}})

    assert job["warnings"] == [{**WARNING, "path": f"payload.headers.{header}"}]
    assert (await desk.get(f"/jobs/{job['job_id']}"))["warnings"] == []


async def test_edits_and_puts_warn_as_well(desk: Desk) -> None:
    payload = {"url": URL, "headers": {"Authorization": "x"}}
    job = await desk.create("http", payload={"url": URL}, schedule=LATER)
    edited = await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", {"payload": payload})
    assert edited.json()["warnings"] == [WARNING]
    put = {"task": "http", "payload": payload, "schedule": LATER}
    for _ in range(2):
        assert read_back(await desk.call("PUT", "/v1/jobs/by-key/k", put))["warnings"] == [WARNING]


async def test_a_named_secret_is_nothing_to_warn_of(desk: Desk) -> None:
    job = await desk.create("http", payload={"url": URL, "headers": {"Authorization": NAMED}})
    assert job["warnings"] == []


@pytest.mark.parametrize(
    ("mode", "status", "warned"), [("allow", 201, []), ("warn", 201, [WARNING]), ("refuse", 422, None)]
)
async def test_the_setting_says_what_becomes_of_it(desk: Desk, mode: Any, status: int, warned: Any) -> None:
    desk.app.api.intake.plain_secrets = mode
    body = {"task": "http", "payload": {"url": URL, "headers": {"Authorization": "Bearer planted-value"}}}
    answer = await desk.call("POST", "/v1/jobs", body)

    assert answer.status_code == status
    if status == 201:
        assert read_back(answer)["warnings"] == warned
    else:
        assert [(one["path"], one["code"]) for one in answer.json()["errors"]] == [(WARNING["path"], "plain_secret")]
        assert "planted-value" not in answer.text


async def test_a_job_with_secrets_is_shown_as_it_was_sent(desk: Desk) -> None:
    payload = {"url": NAMED, "headers": {"X": NAMED}}
    job = await desk.create("http", payload=payload)

    assert (await desk.get(f"/jobs/{job['job_id']}"))["payload"] == payload
    assert msgspec.json.encode(job).count(b"shared") == 0
