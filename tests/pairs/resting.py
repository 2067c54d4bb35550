"""After two verbs have met, everything must come to rest: stale attempts are refused, and whatever lives can end."""

from collections import Counter
from typing import Any

from tests.pairs.checking import CANCELLED, Met, payload_of
from tests.pairs.state import Image, Session, look

from oncue.domain import attempt
from oncue.domain.instants import MINUTE, Instant
from oncue.domain.lane import Held
from oncue.domain.run import Claimed, State
from oncue.engines.port import Engine

LATER = 10 * MINUTE
ROUNDS = 40


async def at_rest(engine: Engine, session: Session, met: Met) -> list[str]:
    """What is wrong with how it comes to rest, if anything."""
    return [f"at rest: {what}" for what in await _come_to_rest(engine, session, met)]


async def _come_to_rest(engine: Engine, session: Session, met: Met) -> list[str]:
    wrong: list[str] = []
    running = {(row["run_id"], row["token"], row["worker_id"]) for row in met.after.rows("running")}
    mine = [(worker, run) for worker, run in met.claims if (str(run.run_id), run.token, str(worker)) in running]
    now = Instant(met.at.now + 1)
    for worker, run in met.claims:
        if (worker, run) not in mine:
            wrong += await _refused(engine, worker, run, now)
    if wrong or met.after.key != (await look(session)).key:
        return wrong or ["a stale attempt changed something"]
    for worker, run in mine:
        await engine.running.settle(worker, [attempt.succeeded(run, now, now, None)], now)
    await engine.running.recover_runs(100, now, lambda run, worker, since: attempt.lost(run, worker, since, now))
    wrong += await _run_all(engine, met, now)
    return wrong + _left(met, await look(session))


async def _refused(engine: Engine, worker: Any, run: Claimed, now: Instant) -> list[str]:
    settled = await engine.running.settle(worker, [attempt.succeeded(run, now, now, None)], now)
    back = await engine.running.hand_back(worker, [run], now)
    again = await engine.running.settle(worker, [attempt.handed_back(run, now)], now)
    if run.run_id in settled.lost and not back and run.run_id in again.lost:
        return []
    return [f"a stale attempt of {run.run_id} was taken"]


async def _run_all(engine: Engine, met: Met, now: Instant) -> list[str]:
    """Claim whatever may start, let it succeed, and so on until nothing may: time passes in between."""
    wrong: list[str] = []
    classes, worker = list(await engine.jobs.classes()), met.at.idle[2]
    for _ in range(ROUNDS):
        now = Instant(now + LATER)
        due = await engine.running.peek(classes, Instant(0), now, 100)
        claimed = await engine.running.claim(worker, [run.run_id for run in due], now) if due else []
        if claimed:
            wrong += _misfits(met, claimed)
            await engine.running.settle(worker, [attempt.succeeded(run, now, now, None) for run in claimed], now)
        elif not await engine.planning.expire(100, now) and not (await engine.planning.permit(now, 100, now)).runs:
            return wrong
    return [*wrong, "it never ends"]


def _misfits(met: Met, claimed: list[Claimed]) -> list[str]:
    wrong = []
    jobs = {row["job_id"]: row["status"] for row in met.after.rows("jobs")}
    for run in claimed:
        if jobs.get(str(run.job_id)) == CANCELLED:
            wrong.append(f"{run.run_id} of a cancelled job was started")
        if run.job_id == met.at.job_id and run.payload != payload_of(run.job_version):
            wrong.append(f"{run.run_id} of version {run.job_version} was started with {run.payload!r}")
    serial = Counter(run.lane for run in claimed if run.lane is not None)
    wrong += [f"{n} of one lane were started at once" for n in serial.values() if n > 1]
    return wrong


def _left(met: Met, rest: Image) -> list[str]:
    """Nothing lives but what is paused, and what stands behind a paused one that keeps its place, having been tried."""
    wrong = [f"{row['run_id']} runs for ever" for row in rest.rows("running")]
    paused = [row for row in rest.rows("waiting") if row["held"] & Held.PAUSED]
    in_the_way = {row[place] for row in paused for place in ("lane", "gate") if row["failures"] + row["losses"]}
    for row in rest.rows("waiting"):
        if row not in paused and not in_the_way & {row["lane"], row["gate"]}:
            wrong += [f"{row['run_id']} is held for ever: {row['held']}"]
    ended = set(rest.tables["history"])
    wrong += [f"final, and changed: {row}" for row in met.after.tables["history"] if row not in ended]
    told = {row["run_id"] for row in met.after.rows("running") if row["cancel_at"] is not None}
    for row in rest.rows("history"):
        if row["run_id"] in told and row["state"] != State.CANCELLED:
            wrong.append(f"{row['run_id']} was told to stop and ended as {row['state']}")
    return wrong
