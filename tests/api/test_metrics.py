"""Metrics over HTTP: who may read them, where they are served, and what the API counts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.conftest import Desk

from oncue.api.application import Application
from oncue.api.http.address import take_metrics_address
from oncue.api.metrics import TRUSTED_FOR, Metrics, metrics_access
from oncue.api.metrics_port import LATE, MetricsApplication
from oncue.domain.errors import Invalid, StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.metrics import table
from oncue.metrics.exposed import Exposed
from oncue.metrics.metric import Roles
from oncue.metrics.token import read_token
from oncue.settings import Settings

TOKEN = "a-token-that-is-long-enough"
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return Settings(metrics_token_file=str(file))


@asynccontextmanager
async def calling(app: Any) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://oncue") as client:
        yield client


async def get(client: httpx2.AsyncClient, secret: str | None, path: str = "/metrics") -> httpx2.Response:
    return await client.get(path, headers={} if secret is None else {"Authorization": f"Bearer {secret}"})


async def samples(desk: Desk) -> dict[str, float]:
    """Each sample of the desk's process that is not 0, by its line."""
    answer = await get(desk.client, desk.keys["root"])
    assert answer.status_code == 200, answer.text
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.value and not sample.name.endswith("_bucket")
    }


# ------------------------------------------------------------------------------------------------------- who may ask


def outage(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(desk.store.accounts, "key", away)


ACCESS = [  # secret, the answer, and the answer while the database is unavailable
    (None, 401, 401),
    ("root", 200, 200),
    ("ada", 403, 403),
    ("viewer", 403, 403),
    (TOKEN, 200, 200),
    (TOKEN + "!", 401, 401),
    (TOKEN[:-1], 401, 401),
    ("", 401, 401),
]


@pytest.mark.parametrize("port", ["api", "metrics"])
@pytest.mark.parametrize(("secret", "status", "without"), ACCESS)
async def test_the_token_and_admin_keys_may_read_metrics(
    desk: Desk,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    port: str,
    secret: str | None,
    status: int,
    without: int,
) -> None:
    given = None if secret is None else desk.keys.get(secret, secret)
    async with calling(application(desk, settings, port)) as client:
        answer = await get(client, given)
        assert answer.status_code == status
        assert (answer.headers["content-type"] == TYPE) == (status == 200)
        await desk.store.clock.advance(Duration(SECOND))  # keys are looked up again

        outage(desk, monkeypatch)
        assert (await get(client, given)).status_code == without


def application(desk: Desk, settings: Settings, port: str = "metrics", *checks: Any) -> Any:
    clock = desk.store.clock
    if port == "api":
        return Application(desk.store.engine, clock, settings)
    exposed = Exposed(clock, Roles.WORKER)
    return MetricsApplication(
        Metrics(exposed, metrics_access(desk.store.engine, clock, settings)), exposed.tick, clock, checks
    )


@pytest.mark.parametrize("port", ["api", "metrics"])
async def test_without_the_database_a_key_counts_that_was_valid_within_five_minutes_and_for_nothing_else(
    desk: Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    key = desk.keys["root"]
    async with calling(application(desk, settings, port)) as client:
        with monkeypatch.context() as away:
            outage(desk, away)
            assert (await get(client, key)).status_code == 503  # never seen before
        assert (await get(client, key)).status_code == 200
        outage(desk, monkeypatch)
        await desk.store.clock.advance(TRUSTED_FOR)
        assert (await get(client, key)).status_code == 200
        if port == "api":
            assert (await get(client, key, "/v1/me")).status_code == 503
        await desk.store.clock.advance(Duration(1))
        assert (await get(client, key)).status_code == 503


@pytest.mark.parametrize("port", ["api", "metrics"])
async def test_a_database_that_hangs_delays_no_key_that_counts_without_it(
    desk: Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    async with calling(application(desk, settings, port)) as client:
        assert (await get(client, desk.keys["root"])).status_code == 200
        await desk.store.clock.advance(Duration(SECOND))
        monkeypatch.setattr(desk.store.accounts, "key", hang)
        async with asyncio.timeout(60):
            assert (await get(client, desk.keys["root"])).status_code == 200


async def test_an_answer_is_shared_for_a_second(desk: Desk, settings: Settings) -> None:
    """Catches an event loop that is blocked by clients that ask again and again."""
    exposed = Exposed(desk.store.clock, Roles.WORKER)
    asked: list[None] = []
    exposed.numbers.read(table.CLOCK_OFFSET, lambda: asked.append(None) or {(): 1.0})
    metrics = Metrics(exposed, metrics_access(desk.store.engine, desk.store.clock, settings))
    async with calling(MetricsApplication(metrics, exposed.tick, desk.store.clock, ())) as client:
        answers = [await get(client, TOKEN) for _ in range(10)]
        assert {(one.status_code, one.content) for one in answers} == {(200, answers[0].content)}
        assert len(asked) == 1

        await desk.store.clock.advance(Duration(SECOND))
        await get(client, TOKEN)
    assert len(asked) == 2


async def test_without_the_database_a_revoked_key_is_as_good_as_before(
    desk: Desk, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = desk.keys["root"]
    async with calling(application(desk, settings)) as client:
        assert (await get(client, key)).status_code == 200
        [me] = [one for one in await desk.store.accounts.keys() if one.user_id == "root"]
        other = await desk.call("POST", "/v1/keys", {"user_id": "root", "role": "admin"}, key="root")
        await desk.store.accounts.revoke(me.key_id, desk.store.now)
        await desk.store.clock.advance(Duration(SECOND))
        assert (await get(client, key)).status_code == 401
        assert (await get(client, other.json()["key"])).status_code == 200

        outage(desk, monkeypatch)
        assert (await get(client, key)).status_code == 401


async def test_a_metrics_port_that_is_open_asks_for_nothing(desk: Desk) -> None:
    async with calling(application(desk, Settings(metrics_open=True))) as client:
        assert (await get(client, None)).status_code == 200


@pytest.mark.parametrize(
    ("written", "said"),
    [("", "fewer than 16"), ("short\n", "fewer than 16"), (b"\xff\xfe", "not ASCII"), (None, "No such")],
)
async def test_a_bad_token_file_is_refused_by_name(
    desk: Desk, tmp_path: Path, written: str | bytes | None, said: str
) -> None:
    file = tmp_path / "token"
    if written is not None:
        file.write_bytes(written if isinstance(written, bytes) else written.encode())

    with pytest.raises(Invalid, match=said) as no:
        application(desk, Settings(metrics_token_file=str(file)))

    assert [problem.path for problem in no.value.problems] == ["metrics_token_file"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        *((TOKEN + "x" * 4_096, "more than 4096 bytes"), (f"{TOKEN}\n{TOKEN}\n", "more than one line")),
        *((bad, "not ASCII") for bad in (f"{TOKEN} x", f"{TOKEN}Å", f"\ufeff{TOKEN}", f"{TOKEN}\0x")),
    ],
    ids=["large", "lines", "space", "letter", "mark", "control"],
)
def test_a_token_is_one_line_of_visible_ascii(tmp_path: Path, written: str, said: str) -> None:
    (tmp_path / "token").write_text(written)
    with pytest.raises(Invalid, match=said):
        read_token(Settings(metrics_token_file=str(tmp_path / "token")))


def test_only_a_regular_file_is_read_for_the_token(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(Invalid, match="not a regular file"):
            read_token(Settings(metrics_token_file=str(path)))


def test_a_link_to_the_token_is_followed(tmp_path: Path) -> None:
    (tmp_path / "data").write_text(f"{TOKEN}\n")
    (tmp_path / "link").symlink_to("data")

    assert read_token(Settings(metrics_token_file=str(tmp_path / "link"))) == TOKEN


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"metrics_host": "127.0.0.1"}, None),
        ({"metrics_host": "127.8.8.8"}, None),
        ({"metrics_host": "::1"}, None),
        ({"metrics_host": "localhost"}, None),
        ({"metrics_host": "0.0.0.0"}, "metrics_host"),
        ({"metrics_host": "::"}, "metrics_host"),
        ({"metrics_host": "0.0.0.0", "metrics_open": True}, None),
        ({"metrics_host": "0.0.0.0", "metrics_token_file": "a file"}, None),
        ({"metrics_port": 0}, None),
        ({"metrics_port": 0, "metrics_open": True}, "metrics_open"),
    ],
)
def test_what_other_machines_can_reach_needs_a_token(
    given: dict[str, Any], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The addresses themselves are not taken here: another program may have them."""
    bound: list[str] = []
    monkeypatch.setattr("oncue.api.http.address._bound", lambda host, *_: bound.append(host))
    settings = Settings(**{"metrics_port": 9_000} | given)
    if refused is None:
        take_metrics_address(settings)
        assert bound == ([settings.metrics_host] if settings.metrics_port else [])
        return

    with pytest.raises(Invalid) as no:
        take_metrics_address(settings)

    assert ([problem.path for problem in no.value.problems], bound) == ([refused], [])


# -------------------------------------------------------------------------------------------------- where it is served


async def test_metrics_with_a_port_of_their_own_have_left_the_apis(desk: Desk, settings: Settings) -> None:
    app = Application(desk.store.engine, desk.store.clock, Settings(metrics_port=9_000))
    async with calling(app) as client:
        assert (await get(client, desk.keys["root"])).status_code == 404
        assert (await get(client, None, "/healthz")).status_code == 200
        assert "/metrics" not in (await get(client, desk.keys["root"], "/openapi.json")).json()["paths"]


async def test_a_metrics_port_has_three_calls_and_no_other(desk: Desk, settings: Settings) -> None:
    async with calling(application(desk, settings)) as client:
        assert (await get(client, TOKEN, "/v1/jobs")).status_code == 404
        refused = await client.post("/metrics")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
        assert (await client.head("/healthz")).status_code == 200


async def test_a_process_is_alive_while_its_loop_turns(desk: Desk, settings: Settings) -> None:
    app = application(desk, settings)
    async with calling(app) as client:
        await desk.store.clock.advance(LATE)
        assert (await get(client, None, "/healthz")).status_code == 200
        await desk.store.clock.advance(Duration(1))
        assert (await get(client, None, "/healthz")).status_code == 503
        app._tick()
        assert (await get(client, None, "/healthz")).status_code == 200


async def test_a_process_is_ready_when_all_of_it_is(desk: Desk, settings: Settings) -> None:
    wrong: list[str | None] = [None, None]

    async def first() -> str | None:
        return wrong[0]

    async def second() -> str | None:
        if wrong[1] == "away":
            raise StoreUnavailable("away")
        return wrong[1]

    async with calling(application(desk, settings, "metrics", first, second)) as client:
        for state, status in (
            ([None, None], 200),
            (["The worker is draining.", None], 503),
            ([None, "It has not planned."], 503),
            ([None, "away"], 503),
        ):
            wrong[:] = state
            answer = await get(client, None, "/readyz")
            assert (answer.status_code, answer.headers.get("retry-after")) == (status, "1" if status == 503 else None)
            if state[0] is not None:
                assert answer.json()["detail"] == state[0]


# ------------------------------------------------------------------------------------------------ what the API counts


async def test_requests_are_counted_by_the_pattern_of_their_path(desk: Desk) -> None:
    job = await desk.create(name="PLANTED name", key="ada")
    for path in (f"/v1/jobs/{job['job_id']}", "/v1/jobs/PLANTED", "/v1/jobs/by-key/PLANTED/key", "/PLANTED"):
        await desk.call("GET", path)
    await desk.call("PLANTED", "/v1/jobs")

    found = await samples(desk)

    assert {line: n for line, n in found.items() if line.startswith("oncue_http_request")} == {
        "oncue_http_requests_total[('route', '/v1/jobs'), ('status', '201')]": 1,
        "oncue_http_requests_total[('route', '/v1/jobs'), ('status', '405')]": 1,
        "oncue_http_requests_total[('route', '/v1/jobs/{id}'), ('status', '200')]": 1,
        "oncue_http_requests_total[('route', '/v1/jobs/{id}'), ('status', '404')]": 1,
        "oncue_http_requests_total[('route', '/v1/jobs/by-key/{key}'), ('status', '404')]": 1,
        "oncue_http_requests_total[('route', 'other'), ('status', '404')]": 1,
        "oncue_http_request_seconds_count[('route', '/v1/jobs')]": 2,
        "oncue_http_request_seconds_count[('route', '/v1/jobs/{id}')]": 2,
        "oncue_http_request_seconds_count[('route', '/v1/jobs/by-key/{key}')]": 1,
        "oncue_http_request_seconds_count[('route', 'other')]": 1,
    }
    assert "PLANTED" not in (await get(desk.client, desk.keys["root"])).text


async def test_jobs_that_are_accepted_and_calls_that_are_refused(desk: Desk) -> None:
    await desk.create()
    await desk.call("POST", "/v1/jobs/batch", {"jobs": [{"task": "mark"}] * 3})
    for _ in range(2):  # the second changes nothing
        await desk.call("PUT", "/v1/jobs/by-key/nightly", {"task": "mark"})
    await desk.call("POST", "/v1/jobs", {"task": "nobody has it"})
    await desk.call("GET", "/v1/jobs", key="no key")
    await desk.call("POST", "/v1/jobs", {"task": "mark"}, key="viewer")
    await desk.call("GET", "/v1/keys")

    found = await samples(desk)

    assert {line: n for line, n in found.items() if line.startswith(("oncue_jobs_acc", "oncue_ref", "oncue_com"))} == {
        "oncue_jobs_accepted_total[('how', 'single')]": 1,
        "oncue_jobs_accepted_total[('how', 'batch')]": 3,
        "oncue_jobs_accepted_total[('how', 'apply')]": 1,
        "oncue_refused_total[('why', 'key')]": 1,
        "oncue_refused_total[('why', 'role')]": 2,
        "oncue_commit_jobs_sum[]": 2,
        "oncue_commit_jobs_count[]": 2,
    }


@pytest.mark.parametrize(
    ("limits", "why"), [({"rate_limit": 1}, "rate"), ({"max_jobs_per_user": 1}, "quota")], ids=["rate", "quota"]
)
async def test_limits_that_were_reached(desk: Desk, limits: dict[str, int], why: str) -> None:
    async with calling(Application(desk.store.engine, desk.store.clock, Settings(**limits))) as desk.client:
        for _ in range(2):
            await desk.call("POST", "/v1/jobs", {"task": "mark"})

        assert (await samples(desk))[f"oncue_refused_total[('why', '{why}')]"] == 1


async def test_an_event_stream_is_counted_while_it_is_open_and_not_timed(desk: Desk) -> None:
    stream = asyncio.create_task(desk.call("GET", "/v1/events"))
    async with asyncio.timeout(60):
        while not desk.app.api.watching.streams.total():
            await asyncio.sleep(0.01)
    assert (await samples(desk))["oncue_event_streams[]"] == 1

    await desk.app.api.watching.close()
    await stream
    await desk.store.clock.advance(Duration(SECOND))  # answers are shared that long

    found = await samples(desk)
    assert "oncue_event_streams[]" not in found
    assert found["oncue_http_requests_total[('route', '/v1/events'), ('status', '200')]"] == 1
    assert "oncue_http_request_seconds_count[('route', '/v1/events')]" not in found
