"""What `oncue doctor --url` sees of a server from outside, as far as the role of the API key allows."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TypeVar

import click
import msgspec

from oncue import __version__
from oncue.cli.destination import Destination
from oncue.client import (
    Client,
    ClientError,
    Finding,
    Forbidden,
    OncueApiError,
    Page,
    Queue,
    QueueScaling,
    ServerUnreachable,
    Worker,
)
from oncue.client import fleet as calls
from oncue.client.call import Answer, Call, field, get
from oncue.clock import Clock
from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.instants import MILLISECOND, SECOND, Duration, instant
from oncue.engines.conditions import LATE_START
from oncue.services.cluster_checks import findings, named

T = TypeVar("T")

TIMEOUT = 10.0  # seconds
CLOCK_DIFFERENCE = Duration(SECOND)
DATE_RESOLUTION = Duration(2 * SECOND)  # the header has whole seconds, and servers renew it once a second


class _Info(msgspec.Struct):
    version: str


def diagnose_server(to: Destination, key: str | None, clock: Clock) -> Iterator[Diagnosis]:
    try:
        client = Client(to.url, key, timeout=TIMEOUT, retries=0, context=to.context)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
    with client:
        try:
            yield from _reached(client, to.words(client.url), clock)
            yield from _allowed(client)
        except ServerUnreachable as away:
            yield problem("server", str(away), "Check the address, that the server runs, and what lies in between.")
        except ClientError as no:
            yield problem("server", str(no), "Check that this is the address of an oncue server.")


def _reached(client: Client, server: str, clock: Clock) -> Iterator[Diagnosis]:
    asked = clock.monotonic()
    answer = client.ask(get("/healthz", _itself))
    took = Duration(clock.monotonic() - asked)
    yield ok("server", f"{server} answered in {took / MILLISECOND:.1f} ms")
    yield from _clock(answer, clock, took)
    try:
        client.ask(get("/readyz", _itself))
        yield ok("ready", "the server can store jobs")
    except OncueApiError as no:
        yield problem("ready", _words(no), "Check the database of the server, and the server's log.")


def _clock(answer: Answer, clock: Clock, took: Duration) -> Iterator[Diagnosis]:
    with suppress(ValueError):  # a proxy may leave it out
        ahead = clock.now() - instant(parsedate_to_datetime(answer.headers.get("date", "")))
        seen = f"this machine's clock is about {abs(ahead) / SECOND:.0f} s {'ahead of' if ahead > 0 else 'behind'}"
        if abs(ahead) - took > CLOCK_DIFFERENCE + DATE_RESOLUTION:
            yield warning("clock", f"{seen} the server's", "Synchronise the clocks of both machines (NTP).")
        else:
            yield ok("clock", f"{seen} the server's" if abs(ahead) > DATE_RESOLUTION else "same as the server's")


def _allowed(client: Client) -> Iterator[Diagnosis]:
    try:
        me = client.me()
    except OncueApiError as no:
        yield problem("key", _words(no), "Set a valid API key in ONCUE_API_KEY; `oncue keys create` creates one.")
        return
    yield ok("key", named([f"{me.role} key of {me.user_id}"]))
    yield _version(client.ask(get("/openapi.json", field("info", _Info))).version)
    yield _judged(client, "workers", calls.workers(), _workers)
    yield _judged(client, "queues", calls.queues(), _queues)
    yield _judged(client, "late runs", calls.scaling(), _late)
    yield _judged(client, "findings", calls.findings_page(limit=100), _findings)


def _version(of_server: str) -> Diagnosis:
    if of_server == __version__:
        return ok("version", __version__)
    seen = f"the server has {of_server}, this command {__version__}"
    return warning("version", named([seen]), "Use the same version on both.")


def _judged(client: Client, check: str, call: Call[T], judge: Callable[[T], Diagnosis]) -> Diagnosis:
    try:
        return judge(client.ask(call))
    except Forbidden:
        return ok(check, "not checked: this needs an admin key")
    except OncueApiError as no:
        return problem(check, _words(no), "Read the log of the server.")


def _workers(found: tuple[Worker, ...]) -> Diagnosis:
    taking = [one for one in found if not one.draining]
    if not taking:
        return problem("workers", "no worker takes runs", "Start `oncue worker` or `oncue up`.")
    return ok("workers", f"{len(taking)} registered: " + named(one.name or str(one.worker_id) for one in taking))


def _queues(found: tuple[Queue, ...]) -> Diagnosis:
    waiting = [one for one in found if one.depth > 0]
    paused = [one.name for one in waiting if one.paused_since is not None]
    without = [one.name for one in waiting if not one.workers]
    if without:
        seen = f"runs wait, but no live worker takes from: {named(without)}"
        remedy = "Start a worker with --tasks FILE.py, and --queues with these names, or cancel the jobs."
        return problem("queues", seen, remedy)
    if paused:
        remedy = "Resume each queue when its runs may start: `POST /v1/queues/QUEUE/resume`."
        return warning("queues", f"runs wait in paused queues: {named(paused)}", remedy)
    return ok("queues", f"{len(found)} with live workers, none paused with runs in it")


def _late(found: tuple[QueueScaling, ...]) -> Diagnosis:
    late = [one for one in found if one.oldest_due_seconds > LATE_START / SECOND]
    if not late:
        return ok("late runs", f"no run is due for longer than {LATE_START // SECOND} s")
    return problem(
        "late runs",
        named(f"queue {one.queue}: {one.due} due, the oldest for {one.oldest_due_seconds:,.0f} s" for one in late),
        "See why: `oncue runs list --status queued`, then `oncue runs explain RUN_ID`.",
    )


def _findings(found: Page[Finding]) -> Diagnosis:
    return findings(Tally(one.check for one in found.items if one.cleared_at is None))


def _itself(answer: Answer) -> Answer:
    return answer


def _words(no: OncueApiError) -> str:
    return no.detail or no.title
