"""Self-audit: compare what should have happened with what is stored, a step every few seconds, and record findings.

Any scheduler takes the next step: see `Maintenance.take_turn`. What looks wrong is looked at again half a minute later,
with everything read anew; only then it is a finding. Nothing is repaired: a finding is a bug, and the evidence stays.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

import msgspec
from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.ids import JobId, RunId, occurrence_id
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant, rfc3339
from oncue.domain.reference import MARK
from oncue.domain.self_audit import (
    SETTLED,
    TURN,
    WINDOW,
    AuditedCursor,
    Check,
    LongRunning,
    Progress,
    cursor_problem,
    forgotten_problem,
    occurrence_problem,
    occurrences_to_look_up,
    read_progress,
    unaccounted,
)
from oncue.engines.port import Engine, Finding
from oncue.log import log
from oncue.services.attempts import DOES_NOT_STOP

EVERY = Duration(5 * SECOND)
SECOND_LOOK = Duration(30 * SECOND)
STILL_KEPT = Duration(10 * SECOND)  # before it may be dropped: other processes' clocks, and the time to read
LOOK_INTERVAL = Duration(SECOND)  # how often this process tries to take a turn
SUM_INTERVAL = Duration(HOUR)
LOOKED_UP_AT_ONCE = 1_000  # runs
MOST_SUSPECTS = 1_000
BUSY_FOR = Duration(5 * MILLISECOND)  # then others have their turn in the event loop

RUNS_AT_ONCE = 500  # that one step looks at
NO_GRACE = Duration(0)
STOPPED_LONG_AGO = Duration(MINUTE)  # what was claimed since is not looked at

CHECKS = frozenset(Check)
OF_THE_STORE = (Check.LANE, Check.ORPHAN, Check.EXPIRY)


Key: TypeAlias = tuple[Check, str]  # which check, and the id of the object


class Problem(msgspec.Struct, frozen=True):
    words: str
    instants: tuple[Instant, ...] = ()  # the occurrences that are missing


class Suspect(msgspec.Struct, frozen=True):
    """A problem that was seen once."""

    seen_at: Instant  # by the monotonic clock
    problem: Problem


class SelfAudit:
    name = "self-audit"

    def __init__(
        self, engine: Engine, clock: Clock, lease: Duration, retention: Duration, grace: Duration = NO_GRACE
    ) -> None:
        """`grace`: what workers may need after a timeout, to stop a run and to store its result."""
        self._engine = engine
        self._kept = Duration(retention - STILL_KEPT)
        self._clock = clock
        self._unregistered_for = Duration(max(2 * lease, SETTLED))
        self._grace = Duration(grace + SETTLED)
        self._suspects: dict[Key, Suspect] = {}

    async def run_once(self) -> Duration:
        await self._look_again()
        taken = await self._engine.maintenance.take_turn(TURN, self._clock.now(), EVERY)
        if taken is not None:
            progress = await self._step(read_progress(taken))
            await self._engine.maintenance.finish_turn(TURN, taken, msgspec.json.encode(progress))
        return LOOK_INTERVAL

    async def _step(self, progress: Progress) -> Progress:
        """Look at the next jobs, at what waits and runs, and once an hour at the sums."""
        now, checked = self._clock.now(), Tally(progress.checked)
        after = None if progress.after is None else JobId(progress.after)
        jobs = await self._engine.auditing.cursors(after, progress.page)
        runs_after = None if progress.runs_after is None else RunId(progress.runs_after)
        runs = await self._running(runs_after, now, RUNS_AT_ONCE)
        problems = await self._in_jobs(jobs, now) | await self._in_store(now) | await self._in_runs(runs, now)
        checked[Check.FORGOTTEN_RUN] += len(runs)
        progress = replace(progress, runs_after=runs[-1].run_id if len(runs) == RUNS_AT_ONCE else None)
        checked.update(dict.fromkeys((Check.CURSOR, Check.OCCURRENCE), len(jobs)))
        checked.update(OF_THE_STORE)
        summed_at = progress.summed_at
        if summed_at is None or not 0 <= now - summed_at < SUM_INTERVAL:
            problems |= await self._in_sums()
            checked[Check.SUMS] += 1
            summed_at = now
        self._suspect(problems)
        await self._clear(now)
        return _moved_on(progress, jobs, now, summed_at, checked)

    # -------------------------------------------------------------------------------------------------- what is wrong

    async def _in_jobs(
        self, jobs: Sequence[AuditedCursor], now: Instant, instants: Mapping[JobId, Sequence[Instant]] | None = None
    ) -> dict[Key, Problem]:
        """Check cursors, and that occurrences became something: those of the last minutes, or these instants.

        What retention may have dropped is not looked up.
        """
        found: dict[Key, Problem] = {}
        wanted: dict[JobId, Sequence[Instant]] = {}
        rested = self._clock.monotonic()
        for job in jobs:
            if (wrong := cursor_problem(job, now)) is not None:
                found[wrong[0], str(job.job_id)] = Problem(wrong[1])
            looked_up = occurrences_to_look_up(job, now) if instants is None else instants[job.job_id]
            wanted[job.job_id] = [at for at in looked_up if at > now - self._kept]
            if self._clock.monotonic() - rested > BUSY_FOR:
                await asyncio.sleep(0)
                rested = self._clock.monotonic()
        for job_id, missing in (await self._missing(wanted, now)).items():
            found[Check.OCCURRENCE, str(job_id)] = Problem(occurrence_problem(missing), missing)
        return found

    async def _missing(
        self, wanted: Mapping[JobId, Sequence[Instant]], now: Instant
    ) -> dict[JobId, tuple[Instant, ...]]:
        """Return the occurrences that are neither a run nor in the occurrence history."""
        ids = {occurrence_id(job_id, at): (job_id, at) for job_id, instants in wanted.items() for at in instants}
        absent: dict[JobId, list[Instant]] = defaultdict(list)
        for run_id in ids.keys() - await self._existing(list(ids), Instant(now - SETTLED - 2 * WINDOW)):
            job_id, at = ids[run_id]
            absent[job_id].append(at)
        missing: dict[JobId, tuple[Instant, ...]] = {}
        for job_id, instants in absent.items():
            entries = await self._engine.auditing.stretches(job_id, min(instants), max(instants))
            if left := unaccounted(sorted(instants), entries):
                missing[job_id] = left
        return missing

    async def _existing(self, run_ids: Sequence[RunId], since: Instant) -> set[RunId]:
        found: set[RunId] = set()
        for start in range(0, len(run_ids), LOOKED_UP_AT_ONCE):
            found |= await self._engine.auditing.existing_runs(run_ids[start : start + LOOKED_UP_AT_ONCE], since)
        return found

    async def _in_store(self, now: Instant) -> dict[Key, Problem]:
        auditing, found = self._engine.auditing, dict[Key, Problem]()
        for one in await auditing.longest_held(now):
            if one.wanted < now - SETTLED and not one.admitted:
                by = "lane" if one.by_lane else "gate"
                words = f"waits since {rfc3339(one.wanted)}, but its {by} has admitted no run"
                found[Check.LANE, str(one.run_id)] = Problem(words)
        for orphan in await auditing.orphans(Instant(now - self._unregistered_for)):
            words = f"runs since {rfc3339(orphan.claimed_at)} on worker {orphan.worker_id}, which is not registered"
            found[Check.ORPHAN, str(orphan.run_id)] = Problem(words)
        if (late := await auditing.unexpired(Instant(now - SETTLED))) is not None:
            words = f"still waits, but should have expired at {rfc3339(late.expires_at)}"
            found[Check.EXPIRY, str(late.run_id)] = Problem(words)
        return found

    async def _running(self, after: RunId | None, now: Instant, limit: int) -> list[LongRunning]:
        return await self._engine.auditing.long_running(after, Instant(now - STOPPED_LONG_AGO), limit)

    async def _in_runs(self, runs: Iterable[LongRunning], now: Instant) -> dict[Key, Problem]:
        """Check that no worker has forgotten a run. Of one that does not stop its log says so."""
        found: dict[Key, Problem] = {}
        for run in runs:
            words = forgotten_problem(run, self._grace, now)
            if words is not None and not await self._says_it_does_not_stop(run.run_id):
                found[Check.FORGOTTEN_RUN, str(run.run_id)] = Problem(words)
        return found

    async def _says_it_does_not_stop(self, run_id: RunId) -> bool:
        """Also if the end of its log is in object storage, where we do not look."""
        parts = [part.text for part in await self._engine.history.read_log(run_id)]
        return any(text.startswith(MARK) or DOES_NOT_STOP.encode() in text for text in parts)

    async def _in_sums(self) -> dict[Key, Problem]:
        sums = await self._engine.auditing.sums() if self._engine.capabilities.exact_counters else None
        if sums is None or sums.counted == sums.stored:
            return {}
        return {(Check.SUMS, ""): Problem(f"{sums.stored} open runs are stored, but the counters say {sums.counted}")}

    # ------------------------------------------------------------------------------------------------ the second look

    def _suspect(self, problems: Mapping[Key, Problem]) -> None:
        now = self._clock.monotonic()
        for key, problem in problems.items():
            if len(self._suspects) < MOST_SUSPECTS:
                self._suspects.setdefault(key, Suspect(now, problem))

    async def _look_again(self) -> None:
        """Look once more at what looked wrong half a minute ago, and record what still does."""
        before = self._clock.monotonic() - SECOND_LOOK
        due = {key: suspect for key, suspect in self._suspects.items() if suspect.seen_at <= before}
        if not due:
            return
        now = self._clock.now()
        still = await self._wrong_now(due, now, {key: suspect.problem.instants for key, suspect in due.items()})
        findings = [Finding(*key, still[key].words, now, now) for key in due if key in still]
        for new in await self._engine.auditing.record_findings(findings, now) if findings else ():
            log.error(
                "The self-audit found a problem: a bug, or the database was changed from outside.",
                kind="finding",
                check=new.check,
                object_id=new.object_id,
                found=new.words,
            )
        for key in due:
            del self._suspects[key]

    async def _wrong_now(
        self, keys: Iterable[Key], now: Instant, instants: Mapping[Key, Sequence[Instant]]
    ) -> dict[Key, Problem]:
        """Read everything about these objects anew. `instants`: the occurrences to look up; else the latest."""
        found: dict[Key, Problem] = {}
        checks = {check for check, _ in keys}
        if checks.intersection(OF_THE_STORE):
            found |= await self._in_store(now)
        if Check.SUMS in checks:
            found |= await self._in_sums()
        for check, object_id in keys:
            if check is Check.FORGOTTEN_RUN:
                found |= await self._in_runs(await self._run(RunId(UUID(object_id)), now), now)
            elif check not in OF_THE_STORE and check is not Check.SUMS:
                found |= await self._in_job(JobId(UUID(object_id)), now, instants.get((check, object_id)))
        return found

    async def _run(self, run_id: RunId, now: Instant) -> list[LongRunning]:
        just_before = RunId(UUID(int=run_id.int - 1))
        return [run for run in await self._running(just_before, now, 1) if run.run_id == run_id]

    async def _in_job(self, job_id: JobId, now: Instant, instants: Sequence[Instant] | None) -> dict[Key, Problem]:
        just_before = JobId(UUID(int=job_id.int - 1))
        jobs = [job for job in await self._engine.auditing.cursors(just_before, 1) if job.job_id == job_id]
        if not jobs or instants is None:
            return await self._in_jobs(jobs, now)
        return await self._in_jobs(jobs, now, {job_id: [at for at in instants if at > jobs[0].updated_at]})

    async def _clear(self, now: Instant) -> None:
        """Clear findings whose check holds again."""
        found = (await self._engine.auditing.findings()).items
        keys = [
            (Check(one.check), one.object_id) for one in found if one.cleared_at is None and one.check in set(Check)
        ]
        still = await self._wrong_now(keys, now, {}) if keys else {}
        for check, object_id in keys:
            if (check, object_id) not in still:
                await self._engine.auditing.clear_findings(check, [object_id], now)


def _moved_on(
    progress: Progress, jobs: Sequence[AuditedCursor], now: Instant, summed_at: Instant, checked: Tally[str]
) -> Progress:
    seen = progress.jobs + len(jobs)
    if len(jobs) < progress.page:  # that was the last page
        return Progress(None, progress.runs_after, 0, seen, now, summed_at, dict(checked))
    before = progress.jobs_before, progress.passed_at
    return Progress(jobs[-1].job_id, progress.runs_after, seen, *before, summed_at, dict(checked))
