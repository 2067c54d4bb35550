"""Metrics of the whole cluster: what the database says, as Prometheus reads it; and what is said without it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.conftest import Desk
from tests.api.test_metrics import TOKEN, calling, get, settings  # noqa: F401  # a fixture

from oncue.api import cluster_metrics
from oncue.api.application import Application
from oncue.api.cluster_metrics import MOST_QUEUES, SHARED_FOR, ClusterMetrics
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import ClassId, WorkerId
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.placement import ClassKey, Offer, show_offer
from oncue.domain.self_audit import TURN, Progress
from oncue.engines.port import ClassGauge, Count, Finding, Gauges, Member, Turn, Worker
from oncue.metrics.cluster_table import CLUSTER_METRICS
from oncue.settings import Settings
from oncue_conformance.store import LEASE

PROMTOOL = shutil.which("promtool")


def lines(text: str | bytes) -> dict[str, float]:
    text = text if isinstance(text, str) else text.decode()
    return {
        f"{sample.name.removeprefix('oncue_cluster_')}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def told(desk: Desk, key: str = "root") -> dict[str, float]:
    answer = await desk.call("GET", "/metrics/cluster", key=key)
    assert answer.status_code == 200, answer.text
    return lines(answer.text)


async def registered(desk: Desk, *queues: str) -> WorkerId:
    store = desk.store
    worker = WorkerId(store.new_id())
    offer = show_offer(Offer(frozenset({"mark"}), frozenset(queues)))
    await store.fleet.register(Worker(worker, "w", "h", LEASE, store.now, store.now, info=offer), store.now)
    return worker


async def test_it_tells_what_the_database_knows(desk: Desk) -> None:
    store = desk.store
    worker = await registered(desk, "default", "idle")
    await desk.create()
    [run] = await store.claim_due(worker)
    await store.succeed(worker, run)
    await desk.dead()
    await store.one_shots(2, task="slow", queue="not taken")
    await desk.create(schedule="every 1m")
    await store.members.beat(Member(store.new_id(), "scheduler", "0.1.0", 9, "h", store.now, store.now), store.now)
    await store.auditing.record_findings([Finding("cursor", "an id", "wrong", store.now, store.now)], store.now)
    await store.fleet.pause_queue("default", store.now)
    while await store.maintenance.roll_up():
        pass
    await store.clock.advance(Duration(10 * SECOND))

    found = await told(desk)

    now = store.now / SECOND
    assert (
        found.items()
        >= {
            "up[]": 1,
            "read_timestamp_seconds[]": now,
            "runs_created_total['mark']": 2,
            "runs_created_total['slow']": 2,
            "runs_ended_total['mark', 'succeeded']": 1,
            "runs_ended_total['dead', 'mark']": 1,
            "runs_ended_total['cancelled', 'mark']": 0,
            "attempts_retried_total['mark']": 0,
            "dead_letters['mark']": 1,
            "dead_letters['slow']": 0,
            "queue_open['default']": 0,
            "queue_paused['default']": 1,
            "queue_open['idle']": 0,
            "queue_paused['idle']": 0,
            "queue_open['other']": 2,
            "queue_due['other']": 2,
            "queue_due_more['other']": 0,
            "queue_oldest_due_seconds['other']": 10,
            "queue_paused['other']": 0,
            "planner_lag_seconds[]": 0,
            "orphans[]": 0,
            "tasks_without_worker[]": 1,
            "processes['0.1.0', 'scheduler']": 1,
            "workers['live']": 1 + 1,  # the desk's own, that had the dead run
            "workers['draining']": 0,
            "selfaudit_findings['cursor']": 1,
            "selfaudit_findings['lane']": 0,
            "history_keep_seconds[]": 90 * DAY / SECOND,
            "history_width_seconds[]": DAY / SECOND,
        }.items()
    )


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_without_the_database_it_says_so_and_nothing_else(
    desk: Desk,
    settings: Settings,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    async def away(*_: object) -> Any:
        if how == "hangs":
            await asyncio.Event().wait()
        raise StoreUnavailable("no answer")

    async with calling(Application(desk.store.engine, desk.store.clock, settings)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(cluster_metrics, "READ_WITHIN", 0.05)
            patch.setattr(desk.store.history, "gauges", away)
            answer = await get(client, TOKEN, "/metrics/cluster")
            assert (answer.status_code, lines(answer.text)) == (200, {"up[]": 0})

        assert lines((await get(client, TOKEN, "/metrics/cluster")).text)["up[]"] == 1  # at once


async def test_an_answer_is_shared_for_a_second(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, real = [], desk.store.history.gauges

    async def counted(*given: Any) -> Any:
        reads.append(given)
        return await real(*given)

    monkeypatch.setattr(desk.store.history, "gauges", counted)
    first, second = await asyncio.gather(told(desk), told(desk))
    await desk.store.clock.advance(Duration(SHARED_FOR - 1))
    assert first == second == await told(desk)
    assert len(reads) == 1

    await desk.store.clock.advance(Duration(1))
    assert (await told(desk))["read_timestamp_seconds[]"] == first["read_timestamp_seconds[]"] + 1
    assert len(reads) == 2


@pytest.mark.parametrize(("who", "status"), [("ada", 403), ("viewer", 403), ("nobody", 401), ("root", 200)])
async def test_only_admin_keys_and_the_token_may_read_it(desk: Desk, who: str, status: int) -> None:
    assert (await desk.call("GET", "/metrics/cluster", key=who)).status_code == status


async def test_a_key_that_cannot_be_looked_up_does_not_count_here(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("no answer")

    await told(desk)
    monkeypatch.setattr(desk.store.accounts, "key", away)
    await desk.store.clock.advance(Duration(SECOND))

    assert (await desk.call("GET", "/metrics", key="root")).status_code == 200
    assert (await desk.call("GET", "/metrics/cluster", key="root")).status_code == 503


# ----------------------------------------------------------------------------------------------------- made-up numbers

NOW = Instant(2_000_000_000 * SECOND)


def gauges(**given: Any) -> Gauges:
    nothing: dict[str, Any] = {
        "at": NOW,
        "counts": {},
        "classes": (),
        "more_classes": False,
        "paused": {},
        "next_plan": None,
        "held_since": None,
        "orphans": 0,
        "members": (),
        "workers": (),
        "oldest_transaction": None,
        "history_from": None,
        "findings": {},
        "turns": {},
    }
    return Gauges(**nothing | given)


async def written(desk: Desk, found: Gauges, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]) -> bytes:
    async def read(*_: object) -> Any:
        return found

    async def read_sizes(*_: object) -> Any:
        return sizes

    monkeypatch.setattr(desk.store.history, "gauges", read)
    monkeypatch.setattr(desk.store.history, "sizes", read_sizes)
    return await ClusterMetrics(desk.store.engine, desk.store.clock, Duration(DAY), Duration(DAY)).text()


def much() -> Gauges:
    """More of everything than anybody wants to see."""
    classes = [
        ClassGauge(ClassId(n), ClassKey(task=f"task{n}", queue=f"queue{n:05}"), 2, 1, n % 2 == 0, Instant(NOW - n))
        for n in range(10_000)
    ]
    offer = show_offer(Offer(frozenset({"task1"}), frozenset(f"queue{n:05}" for n in range(5_000))))
    worker = Worker(WorkerId(NOTHING), "w", "h", LEASE, NOW, NOW, info=offer)
    progress = Progress(passed_at=Instant(NOW - HOUR), checked={"cursor": 7, "sums": 1})
    return gauges(
        counts={(f"task{n}", what): 5 if what is Count.COALESCED else 3 for n in range(10_000) for what in Count},
        classes=tuple(classes),
        paused={"queue00001": NOW},
        next_plan=Instant(NOW - 3 * SECOND),
        held_since=Instant(NOW - MINUTE),
        orphans=4,
        members=(Member(NOTHING, "api", "0.1.0", 9, "h", NOW, NOW),),
        workers=(worker,),
        oldest_transaction=Duration(5 * SECOND),
        history_from=Instant(NOW - DAY),
        findings={"lane": 2},
        turns={TURN: Turn(NOW, msgspec.json.encode(progress))},
    )


NOTHING = UUID(int=0)


async def test_names_are_bounded_and_what_is_left_is_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    text = await written(desk, much(), monkeypatch, {"history": 123})
    found = lines(text)

    assert len(found) <= 5_000
    assert sum(one.startswith("queue_open[") for one in found) == MOST_QUEUES + 1
    assert sum(one.startswith("runs_created_total[") for one in found) == 100 + 1
    assert found["runs_created_total['other']"] == 9_900 * 3
    assert found["queue_open['other']"] == 2 * (10_000 - MOST_QUEUES)
    assert found["queue_oldest_due_seconds['other']"] == pytest.approx(9_999 / SECOND)
    assert (found["queue_paused['queue00001']"], found["queue_paused['other']"]) == (1, 0)
    assert (found["occurrences_total['skipped']"], found["occurrences_total['coalesced']"]) == (30_000, 50_000)
    assert (found["planner_lag_seconds[]"], found["held_oldest_seconds[]"], found["orphans[]"]) == (3, 60, 4)
    assert (found["selfaudit_findings['lane']"], found["selfaudit_checked_total['cursor']"]) == (2, 7)
    assert found["selfaudit_pass_timestamp_seconds[]"] == (NOW - HOUR) / SECOND
    assert (found["oldest_transaction_seconds[]"], found["store_bytes['history']"]) == (5, 123)
    outbox = {"oncue_cluster_outbox_rows", "oncue_cluster_outbox_oldest_seconds"}  # where there is one
    assert {family.name for family in text_string_to_metric_families(text.decode())} == {
        metric.name.removesuffix("_total") for metric in CLUSTER_METRICS
    } - (set() if desk.store.engine.capabilities.outbox else outbox)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: apt install prometheus")
async def test_promtool_has_nothing_to_say(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert PROMTOOL is not None
    text = await written(desk, much(), monkeypatch, {"history": 123})

    checked = await asyncio.to_thread(
        subprocess.run, [PROMTOOL, "check", "metrics"], input=text, capture_output=True, timeout=60
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


async def test_a_queue_keeps_its_label_when_its_workers_are_gone(desk: Desk) -> None:
    """Else no alert could say which queue has nobody."""
    worker = await registered(desk, "mail")
    await desk.store.one_shot(task="mark", queue="mail")
    before = await told(desk)
    await desk.store.fleet.leave(worker)
    await desk.store.clock.advance(SHARED_FOR)

    after = await told(desk)

    assert before["queue_due['mail']"] == after["queue_due['mail']"] == after["desired_workers['mail']"] == 1
    assert (before["workers['live']"], after["workers['live']"]) == (1, 0)


async def test_a_task_keeps_its_label_when_others_come(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that come later in a list, but were there before, are not moved to `other`: a counter would fall."""
    one = gauges(counts={(f"task{n:03}", Count.CREATED): 1 for n in range(50, 150)})
    more = gauges(counts={(f"task{n:03}", Count.CREATED): 1 for n in range(150)})
    found: list[Gauges] = [one, more]

    async def read(*_: object) -> Any:
        return found.pop(0)

    monkeypatch.setattr(desk.store.history, "gauges", read)
    metrics = ClusterMetrics(desk.store.engine, desk.store.clock, Duration(DAY), Duration(DAY))
    before = lines(await metrics.text())
    await desk.store.clock.advance(SHARED_FOR)
    after = lines(await metrics.text())

    assert before["runs_created_total['task149']"] == after["runs_created_total['task149']"] == 1
    assert after["runs_created_total['other']"] == 50
