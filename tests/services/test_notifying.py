"""Notices from the end of a run to the receiver: retried, gathered, muted; and nothing that goes in circles."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import datetime, tzinfo
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook as Independent
from standardwebhooks import WebhookVerificationError
from tests.services.notified import PASSWORD, HttpServer, MailServer, Post, certificate, http_server, office_on

from oncue.client.webhooks import verify
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import NOTICES, RunId, UserNumber
from oncue.domain.instants import HOUR, MINUTE, SECOND, moment
from oncue.domain.notices import read_told, trial_notice
from oncue.domain.notify import Entry, Event, NotifyDefault, SecretName, Webhook
from oncue.domain.rerun import again
from oncue.domain.run import State
from oncue.domain.signing import derived_secret, url_hash
from oncue.engines.derived_secrets import DerivedSecrets, master_key
from oncue.executors.dialling import Address
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import Bounds, Numbers
from oncue.services.scheduler import Scheduler
from oncue.settings import Settings
from oncue_conformance.store import Store

pytestmark = pytest.mark.anyio
__all__ = ["certificate"]


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with http_server() as server:
        yield server


@pytest.fixture
async def mail(certificate: Path) -> AsyncIterator[MailServer]:
    server = MailServer(certificate)
    await server.up()
    yield server
    await server.down()


def on(*events: str, **how: Any) -> tuple[Entry, ...]:
    return (Entry(tuple(map(Event, events)), **how),)


def mailing(mail: MailServer, certificate: Path) -> dict[str, Any]:
    """Settings of a worker that sends its mail to this server."""
    smtp = f"smtp://oncue:{PASSWORD}@localhost:{mail.port}"
    trust = ssl.create_default_context(cafile=certificate)
    return {"smtp": smtp, "smtp_from": "oncue <oncue@example.org>", "trust": trust}


async def next_occurrence(store: Store, length: int = MINUTE) -> None:
    store.advance(length)
    await store.plan()


# ------------------------------------------------------------------------------------------------------------- webhooks


async def test_the_independent_library_takes_our_signature(
    store: Store, tmp_path: Path, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = await office_on(store, tmp_path, public_url="https://oncue.example.org/")
    entries = on("failed", webhook=Webhook(server.url), text="{job_name}: {status}, {error_type} {nothing}")
    run_id = await store.one_shot(task="fail", max_retries=0, name="backup", notify=entries)

    await office.turn()
    [post] = server.posts
    [notice] = await office.notices()
    master = master_key(Settings(data_dir=str(tmp_path)))
    secret = derived_secret(master, store.uid, server.url, 0)
    event = verify(post.body, post.headers, secret, now=store.now / SECOND)

    class TestTime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return moment(store.now)

    monkeypatch.setattr("standardwebhooks.webhooks.datetime", TestTime)
    Independent(secret).verify(post.body, post.headers)
    for forged in (post.body + b" ", post.body.replace(b"backup", b"backdo")):
        with pytest.raises(WebhookVerificationError):
            Independent(secret).verify(forged, post.headers)
    assert post.headers["webhook-id"] == str(notice.run_id)
    assert (event.type, event.data["run_id"], event.data["name"]) == ("run.failed", str(run_id), "backup")
    assert (event.data["error_type"], event.data["error_message"][:6]) == ("RuntimeError", "boom 1")
    assert event.data["text"] == "backup: dead, RuntimeError {nothing}"
    assert event.data["url"] == f"https://oncue.example.org/v1/runs/{run_id}"
    assert {"payload", "result"}.isdisjoint(event.data)
    assert (post.headers["ce-id"], post.headers["ce-type"]) == (str(notice.run_id), "oncue.run.failed")
    assert (await store.run(notice.run_id)).state is State.SUCCEEDED
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600


async def test_a_failed_try_is_repeated_with_the_same_id_when_the_receiver_says(
    store: Store, tmp_path: Path, server: HttpServer
) -> None:
    office = await office_on(store, tmp_path)
    server.answers = [(500, ""), (503, "retry-after: 90\r\n"), (302, "location: http://127.0.0.1:1/\r\n")]
    await store.one_shot(task="fail", max_retries=0, notify=on("failed", webhook=Webhook(server.url)))

    await office.turn()
    assert len(server.posts) == 1
    await office.pass_time(8 * SECOND)
    assert len(server.posts) == 2
    await office.pass_time(80 * SECOND, step=10 * SECOND)
    assert len(server.posts) == 2
    await office.pass_time(20 * SECOND)
    assert len(server.posts) == 3
    await office.pass_time(HOUR, step=MINUTE)
    assert len(server.posts) == 4
    assert len({post.headers["webhook-id"] for post in server.posts}) == 1
    assert len({post.headers["webhook-timestamp"] for post in server.posts}) == 4


async def test_two_secrets_sign_for_a_day_after_a_rotation(store: Store, tmp_path: Path, server: HttpServer) -> None:
    settings = Settings(data_dir=str(tmp_path))
    derived = DerivedSecrets(store.engine.notices, store.clock, settings)
    [first] = await derived(store.uid, server.url)
    await store.engine.notices.rotate(store.uid, url_hash(server.url), store.now)
    second, old = await derived(store.uid, server.url)
    office = await office_on(store, tmp_path)
    await store.one_shot(task="fail", max_retries=0, notify=on("failed", webhook=Webhook(server.url)))
    await office.turn()

    [post] = server.posts
    assert (old, len({first, second})) == (first, 2)
    for secret in (first, second):
        assert verify(post.body, post.headers, secret, now=store.now / SECOND)
    store.advance(25 * HOUR)
    assert await derived(store.uid, server.url) == [second]


async def test_a_secret_by_name_signs(store: Store, tmp_path: Path, server: HttpServer) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    async def find(name: str, uid: UserNumber | None) -> str:
        assert (name, uid) == ("hook", store.uid)
        return secret

    office = await office_on(store, tmp_path, find_secret=find)
    hook = Webhook(server.url, SecretName("hook"))
    await store.one_shot(task="fail", max_retries=0, notify=on("failed", webhook=hook))
    await office.turn()

    [post] = server.posts
    assert verify(post.body, post.headers, secret, now=store.now / SECOND)
    assert not (tmp_path / "master.key").exists()


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://lying.example/", "http://example.org/"])
async def test_a_webhook_to_a_private_address_is_refused_also_after_a_lying_dns(
    store: Store, tmp_path: Path, server: HttpServer, url: str
) -> None:
    asked: list[str] = []

    async def lying(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [ip_address("127.0.0.1")]

    office = await office_on(store, tmp_path, http_allow=(), webhook_plain=False, resolve=lying)
    url = url.replace("lying.example/", f"lying.example:{server.port}/")
    await store.one_shot(task="fail", max_retries=0, notify=on("failed", webhook=Webhook(url)))
    await office.turn()

    [notice] = await office.notices()
    assert (notice.state, notice.error_type) == (State.DEAD, "AddressRefused")
    assert server.posts == []
    assert asked == (["lying.example"] if "lying" in url else [])


async def test_a_receiver_that_is_gone_is_muted(
    store: Store, tmp_path: Path, server: HttpServer, logged: list[Any]
) -> None:
    office = await office_on(store, tmp_path)
    hook = Webhook(server.url + "?token=x")
    default = on("succeeded", webhook=hook) + on("succeeded", webhook=Webhook(server.url + "/other"))
    await store.engine.notices.put_default(store.uid, NotifyDefault(default), store.now)
    server.answers = [(410, "")]
    for _ in range(2):
        await store.one_shot(task="fail", max_retries=0, notify=on("failed", webhook=hook))
        await office.turn()
        store.advance(MINUTE)
        await office.turn()

    [target] = await store.engine.notices.targets(store.uid)
    assert [(post.path, post.json["type"]) for post in server.posts] == [
        ("/hook?token=x", "run.failed"),
        ("/hook/other", "muted"),
    ]
    assert server.posts[1].json["data"]["name"] == server.url
    assert (target.shown, target.dead, target.muted_at is not None) == (server.url, 1, True)
    assert {"notice_dead", "target_muted"} <= {line.get("kind") for line in logged}

    trial = trial_notice(store.uid, Entry((), hook), RunId(store.new_id()), store.now)
    await store.engine.notices.add([trial], store.now)
    await office.turn()
    assert [post.json["type"] for post in server.posts[2:]] == ["test"]
    assert await store.engine.notices.targets(store.uid) == []


async def test_five_dead_in_a_row_mute_a_target(store: Store, tmp_path: Path) -> None:
    office = await office_on(store, tmp_path, http_allow=())
    for number in range(6):
        await store.one_shot(task="fail", max_retries=0, notify=on("dead", webhook=Webhook("https://127.0.0.1/")))
        store.advance(MINUTE)
        await office.turn()
        [target] = await store.engine.notices.targets(store.uid)
        assert (target.dead, target.muted_at is not None) == (min(number + 1, 5), number >= 4)
    states = [notice.state for notice in await office.notices()]
    assert (states.count(State.DEAD), states.count(State.SUCCEEDED)) == (5, 1)


@pytest.mark.parametrize("verb", ["gather", "save"])
async def test_what_a_lost_answer_has_stored_is_what_is_sent(
    store: Store, tmp_path: Path, server: HttpServer, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    office = await office_on(store, tmp_path)
    real = getattr(store.engine.running, verb)

    async def written_and_not_answered(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(store.engine.running, verb, real)
        await real(*given, **more)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(store.engine.running, verb, written_and_not_answered)
    entries = on("dead", webhook=Webhook(server.url))
    await store.one_shots(4, task="fail", max_retries=0, notify=entries)
    await office.turn()
    first = {str(notice.run_id) for notice in await office.notices()}
    assert server.posts == []
    assert State.RUNNING not in {notice.state for notice in await office.notices()}
    await store.one_shots(3, task="fail", max_retries=0, notify=entries)
    await office.pass_time(MINUTE)

    said = {post.headers["webhook-id"]: told_in(post) for post in server.posts}
    assert len(said) == len(server.posts) == 2
    assert [ids for ids in said.values() if set(ids) & first] == [sorted(first)]
    assert {notice.state for notice in await office.notices()} == {State.SUCCEEDED}


async def test_a_message_that_was_sent_alone_takes_nothing_along_later(
    store: Store, tmp_path: Path, server: HttpServer
) -> None:
    office = await office_on(store, tmp_path, notify_rate=1)
    server.answers = [(500, "")]
    entries = on("dead", webhook=Webhook(server.url))
    for _ in range(2):
        await store.one_shot(task="fail", max_retries=0, notify=entries)
        await office.turn()
    await office.pass_time(3 * MINUTE, step=5 * SECOND)

    first, other, repeat = server.posts  # in the order in which they were due
    assert (first.body, first.headers["webhook-id"]) == (repeat.body, repeat.headers["webhook-id"])
    assert (first.headers["ce-time"], told_in(first)) == (repeat.headers["ce-time"], [first.headers["webhook-id"]])
    assert told_in(other) == [other.headers["webhook-id"]] != told_in(first)


async def test_a_dead_digest_that_is_requeued_is_the_same_message(
    store: Store, tmp_path: Path, server: HttpServer
) -> None:
    office = await office_on(store, tmp_path)
    server.answers = [(410, "")]
    await store.one_shots(30, task="fail", max_retries=0, notify=on("dead", webhook=Webhook(server.url)))
    await office.turn()
    [letter] = [one for one in (await store.lists.dead_letters(store.uid)).items if one.job_id == NOTICES]
    await store.engine.notices.target_reached(store.uid, Entry((), Webhook(server.url)).target)
    await store.history.requeue([again(letter, RunId(store.new_id()), store.now)], store.now)
    await office.pass_time(MINUTE)

    dead, requeued = server.posts
    assert (dead.body, dead.headers["webhook-id"]) == (requeued.body, requeued.headers["webhook-id"])
    assert (len(told_in(dead)), len(dead.body) < 20_000) == (30, True)
    assert (await store.run(letter.run_id)).payload == letter.payload
    with pytest.raises(msgspec.ValidationError):
        read_told(letter.payload or b"")  # a worker of an older release fails, and sends nothing


async def test_a_digest_lists_a_hundred_notices_and_a_chat_those_that_fit(
    store: Store, tmp_path: Path, server: HttpServer
) -> None:
    async def find(name: str, uid: UserNumber | None) -> str:
        return server.url

    office = await office_on(store, tmp_path, find_secret=find)
    name = "ä" * 200
    for entries in (on("dead", webhook=Webhook(server.url)), on("dead", discord=SecretName("chat"))):
        await store.one_shots(110, task="fail", max_retries=0, name=name, notify=entries)
    await office.turn()
    await office.pass_time(MINUTE)

    hooks = [told_in(post) for post in server.posts if "webhook-id" in post.headers]
    chats = [post.json["content"].replace("\\", "") for post in server.posts if "webhook-id" not in post.headers]
    in_chats = [one.partition("Notices: ")[2].split() for one in chats]
    assert (sorted(map(len, hooks)), sorted(map(len, in_chats))) == ([10, 100], [10, 25, 25, 25, 25])
    assert len({one for ids in (*hooks, *in_chats) for one in ids}) == 220
    assert max(len(post.body) for post in server.posts) <= 20_000
    assert max(len(post.json["content"]) for post in server.posts if "webhook-id" not in post.headers) <= 2_000


def told_in(post: Post) -> list[str]:
    """Return the ids of the notices that a webhook tells of."""
    data = post.json["data"]
    return sorted(one["notice_id"] for one in data.get("notices", [data]))


# ----------------------------------------------------------------------------------------------------------------- mail


async def test_a_failing_job_mails_once_through_an_outage_and_when_it_recovers(
    store: Store, tmp_path: Path, mail: MailServer, certificate: Path
) -> None:
    office = await office_on(store, tmp_path, **mailing(mail, certificate))
    entries = on("failed", "recovered", email=("ops@example.org", "b@example.org"))
    job_id = await store.recurring(task="fail", max_retries=0, name="näme", notify=entries)
    await mail.down()

    for _ in range(3):
        await next_occurrence(store)
        await office.turn()
    assert mail.mails == []
    [notice] = await office.notices()
    assert (notice.state, notice.failures > 0, notice.error_type) == (State.WAITING, True, None)
    await mail.up()
    await office.pass_time(10 * MINUTE, step=MINUTE // 2)
    assert mail.subjects == ["[oncue] näme failed"]

    await store.edit(job_id, task="noop")
    for _ in range(2):
        await next_occurrence(store)
        await office.turn()
    await office.pass_time(MINUTE, step=10 * SECOND)
    assert mail.subjects == ["[oncue] näme failed", "[oncue] näme succeeded again"]
    first, second = mail.mails
    assert (first["to"], first["auto-submitted"]) == ("ops@example.org, b@example.org", "auto-generated")
    assert first["message-id"] == f"<{notice.run_id}@example.org>" != second["message-id"]
    assert first["references"] == second["references"] == f"<{job_id}@example.org>"
    assert "RuntimeError: boom" in first.get_content()


async def test_five_hundred_failures_in_a_minute_are_at_most_twenty_mails_and_a_digest(
    store: Store, tmp_path: Path, mail: MailServer, certificate: Path
) -> None:
    numbers = Numbers(Bounds(("default",)), Roles.WORKER)
    office = await office_on(store, tmp_path, numbers=numbers, **mailing(mail, certificate))
    entries = on("dead", email=("ops@example.org",))
    began = store.now
    for number in range(25):
        await store.one_shots(20, task="fail", max_retries=0, name=f"job {number % 3}", notify=entries)
        await office.pass_time(2 * SECOND)
    assert store.now - began < MINUTE
    assert len(mail.mails) <= 20
    await office.pass_time(2 * MINUTE)

    digests = [one for one in mail.mails if "notices in one" in str(one["subject"])]
    told = len(mail.mails) - len(digests) + sum(int(str(one["subject"]).split()[1]) for one in digests)
    assert (told, len(mail.mails) <= 21, len(digests) >= 1) == (500, True, True)
    assert any("20 × job 1: dead RuntimeError" in one.get_content() for one in digests)
    assert {notice.state for notice in await office.notices()} == {State.SUCCEEDED}
    counted = {series.labels: series.values[0] for series in numbers.series() if series.name == "oncue_notices_total"}
    assert sum(counted.values()) == 500
    assert counted["email", "sent"] == len(mail.mails)
    await store.check_counts()


async def test_a_digest_says_once_how_many_were_dropped(
    store: Store, tmp_path: Path, mail: MailServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.engines.telling.MOST_WAITING", 3)
    office = await office_on(store, tmp_path, notify_rate=1, **mailing(mail, certificate))
    await mail.down()
    for _ in range(5):
        await store.one_shot(task="fail", max_retries=0, notify=on("dead", email=("ops@example.org",)))
        await office.turn()
        await store.counts()
    assert (await store.engine.notices.dropped(store.uid)).total == 2
    await mail.up()
    await office.pass_time(10 * MINUTE, step=MINUTE // 2)

    [digest] = [one for one in mail.mails if "notices in one" in str(one["subject"])]
    assert "2 more of your notices were dropped" in digest.get_content()

    await store.counts()  # sums are rolled up: none waits any more
    await store.one_shots(2, task="fail", max_retries=0, notify=on("dead", email=("ops@example.org",)))
    await office.pass_time(3 * MINUTE, step=5 * SECOND)
    assert len(mail.mails) > 1
    assert "dropped" not in mail.mails[-1].get_content()


async def test_a_digest_is_sent_again_as_it_was_and_what_comes_later_is_another(
    store: Store, tmp_path: Path, mail: MailServer, certificate: Path
) -> None:
    office = await office_on(store, tmp_path, notify_rate=1, **mailing(mail, certificate))
    mail.refusals = ["451 later"]
    entries = on("dead", email=("ops@example.org",))
    await store.one_shots(5, task="fail", max_retries=0, notify=entries)
    await office.turn()
    assert mail.mails == []
    first = {notice.run_id for notice in await office.notices()}
    [leader] = [notice for notice in await office.notices() if notice.state is State.WAITING]
    went = [notice.result for notice in await office.notices() if notice.state is State.SUCCEEDED]
    assert went == [b'{"outcome":"digested","message":"%s"}' % str(leader.run_id).encode()] * 4

    await store.one_shots(3, task="fail", max_retries=0, notify=entries)
    await office.pass_time(3 * MINUTE, step=5 * SECOND)
    assert {notice.state for notice in await office.notices()} == {State.SUCCEEDED}
    said = {str(one["message-id"]): listed(one) for one in mail.mails}
    assert sorted(map(len, said.values())) == [3, 5]
    assert set(said[f"<{leader.run_id}@example.org>"]) == {str(run_id) for run_id in first}
    assert {one for ids in said.values() for one in ids} == {str(one.run_id) for one in await office.notices()}


def listed(mail: EmailMessage) -> list[str]:
    """Return the ids of the notices that a mail says it tells of."""
    _, _, after = mail.get_content().partition("Notices:")
    return str(after).split()


async def test_a_mail_that_is_refused_for_good_is_dead_at_once(
    store: Store, tmp_path: Path, mail: MailServer, certificate: Path
) -> None:
    office = await office_on(store, tmp_path, **mailing(mail, certificate))
    mail.refusals = ["554 no"]
    await store.one_shot(task="fail", max_retries=0, notify=on("dead", email=("ops@example.org",)))
    await office.turn()
    [notice] = await office.notices()
    assert (notice.state, notice.error_type) == (State.DEAD, "MailRefused")


async def test_mail_is_not_sent_without_tls(store: Store, tmp_path: Path, mail: MailServer, certificate: Path) -> None:
    given = mailing(mail, certificate) | {"trust": ssl.create_default_context()}  # which does not know the server
    office = await office_on(store, tmp_path, **given)
    await store.one_shot(task="fail", max_retries=0, notify=on("dead", email=("ops@example.org",)))
    await office.turn()
    [notice] = await office.notices()
    assert (notice.state, notice.failures, mail.mails) == (State.WAITING, 1, [])


async def test_a_password_by_name_is_used(store: Store, tmp_path: Path, mail: MailServer, certificate: Path) -> None:
    async def find(name: str, uid: UserNumber | None) -> str:
        assert (name, uid) == ("smtp", None)
        return PASSWORD

    given = mailing(mail, certificate) | {"smtp": f"smtp://oncue@localhost:{mail.port}?secret=smtp"}
    office = await office_on(store, tmp_path, find_secret=find, **given)
    await store.one_shot(task="fail", max_retries=0, notify=on("dead", email=("ops@example.org",)))
    await office.turn()
    assert len(mail.mails) == 1


# ---------------------------------------------------------------------------------------------------------------- chats


@pytest.mark.parametrize("service", ["slack", "teams", "discord"])
async def test_nothing_in_a_chat_is_markup_or_mentions_anybody(
    store: Store, tmp_path: Path, server: HttpServer, service: str
) -> None:
    async def find(name: str, uid: UserNumber | None) -> str:
        return server.url

    office = await office_on(store, tmp_path, find_secret=find)
    name = "<!channel> @everyone *bold* [x](https://evil.example) <at>you</at>"
    entries = on("dead", **{service: SecretName("chat")})
    await store.one_shot(task="fail", max_retries=0, name=name, notify=entries)
    await office.turn()

    [post] = server.posts
    assert len(post.body) <= 4_096
    said = post.body.decode()
    match service:
        case "slack":
            assert (post.json["mrkdwn"], "<" in post.json["text"]) == (False, False)
        case "discord":
            assert "[x](" not in said
            assert post.json["allowed_mentions"] == {"parse": []}
            assert "\\@everyone \\*bold" in post.json["content"]
        case _:
            assert "[x](" not in said
            card = post.json["attachments"][0]["content"]
            assert card["type"] == "AdaptiveCard"
            assert "<at>" not in card["body"][0]["text"].replace("\\<", "")


async def test_a_secret_that_is_missing_is_dead_at_once(store: Store, tmp_path: Path) -> None:
    office = await office_on(store, tmp_path)
    await store.one_shot(task="fail", max_retries=0, notify=on("dead", slack=SecretName("chat")))
    await office.turn()
    [notice] = await office.notices()
    assert (notice.state, notice.error_type) == (State.DEAD, "SecretMissing")


# ----------------------------------------------------------------------------------------------------------------- late


async def test_a_run_that_has_not_started_is_told_of_and_one_that_has_is_not(
    store: Store, tmp_path: Path, server: HttpServer
) -> None:
    office = await office_on(store, tmp_path)
    scheduler = Scheduler(store.engine, store.clock)
    entries = on("late", webhook=Webhook(server.url), late_after=30 * SECOND)
    await store.recurring(task="noop", notify=entries, name="on time")
    await store.recurring(task="noop", queue="nowhere", notify=entries, name="late")
    store.advance(MINUTE)
    await scheduler.run_once()
    await office.turn()
    assert server.posts == []
    await office.pass_time(40 * SECOND, step=10 * SECOND)

    assert [post.json["data"]["name"] for post in server.posts] == ["late"]
    assert server.posts[0].json["type"] == "run.late"
    assert {notice.state for notice in await office.notices()} == {State.SUCCEEDED}


# ------------------------------------------------------------------------------------------------------------- no loops


async def test_a_receiver_that_creates_failing_jobs_is_bounded_by_the_rate(
    store: Store, tmp_path: Path, server: HttpServer
) -> None:
    office = await office_on(store, tmp_path)
    entries = on("failing", "dead", "succeeded", webhook=Webhook(server.url))
    await store.engine.notices.put_default(store.uid, NotifyDefault(entries), store.now)
    await store.one_shot(task="fail", max_retries=0)
    answered = 0
    for _ in range(120):
        await office.pass_time(SECOND // 2, step=SECOND // 2)
        for _ in server.posts[answered:]:
            await store.one_shots(2, task="fail", max_retries=0)
        answered = len(server.posts)

    assert 1 < len(server.posts) <= 20
    assert {type(post.json["data"]) for post in server.posts} == {dict}
    about = {post.json["data"].get("task") for post in server.posts if post.json["type"] != "digest"}
    assert about == {"fail"}


async def test_nobody_is_told_of_notices_that_fail(store: Store, tmp_path: Path, server: HttpServer) -> None:
    office = await office_on(store, tmp_path, http_allow=())
    everything = on("failing", "failed", "dead", "succeeded", webhook=Webhook(server.url))
    await store.engine.notices.put_default(store.uid, NotifyDefault(everything), store.now)
    await store.one_shot(task="fail", max_retries=0)
    await office.turn()
    store.advance(MINUTE)
    await office.turn()

    [notice] = await office.notices()
    assert notice.state is State.DEAD
    assert notice.job_id == NOTICES


async def test_while_a_user_is_muted_nothing_is_told(store: Store, tmp_path: Path, server: HttpServer) -> None:
    office = await office_on(store, tmp_path)
    muted = NotifyDefault(muted_until=store.at(HOUR))
    await store.engine.notices.put_default(store.uid, muted, store.now)
    await store.one_shot(task="fail", max_retries=0, notify=on("dead", webhook=Webhook(server.url)))
    await office.turn()
    assert await office.notices() == []
