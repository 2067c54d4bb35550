"""Log attempts that failed, runs that failed permanently, and runs that started late; on request every run that ended.

There may be thousands a second: the task of a run is looked up by its class, and a line that bursts cut is not put
together at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncue import logs
from oncue.domain.ids import ClassId, RunId
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.job import decode_spec
from oncue.domain.run import Claimed, Settlement, State
from oncue.log import log

LATE = Duration(MINUTE)
MOST_CLASSES = 10_000  # whose tasks are remembered


class OutcomeLines:
    def __init__(self, *, every: bool = False) -> None:
        self._every = every
        self._tasks: dict[ClassId, str] = {}

    def tell(self, settled: Iterable[Settlement], except_for: frozenset[RunId] = frozenset()) -> None:
        """Log what the database has accepted; pass the runs of which it accepted another outcome, or none."""
        for one in settled:
            if except_for and one.run.run_id in except_for:
                continue
            if one.error_type is not None:
                self._tell(one)
            elif self._every:
                self._tell_end(one)

    def tell_late(self, started: Iterable[Claimed]) -> None:
        """Time that a run spent held by a lane, a rate or a pause does not count: it could not start."""
        for run in started:
            if run.claimed_at - run.due > LATE and run.lag > LATE:  # the cheap one first
                task = self._task_of(run)
                if not logs.bursts.full("run_late", task):
                    late = round(run.lag / SECOND)
                    log.warning("A run started late", kind="run_late", seconds=late, **about(run))

    def _tell(self, end: Settlement) -> None:
        dead, task = end.state is State.DEAD, self._task_of(end.run)
        if logs.bursts.full("run_dead" if dead else "attempt_failed", task):
            return
        told = {**about(end.run), "attempt": end.run.attempt, "error_type": end.error_type, "error": end.error}
        if dead:
            counts = {"failures": end.failures, "losses": end.losses}
            look = f"oncue dead show {end.run.run_id}"
            log.error("A run failed permanently", kind="run_dead", **told, **counts, look=look)
        elif end.due is not None:
            retry_in = round((end.due - end.ended_at) / SECOND, 3)
            log.warning("An attempt failed and will be retried", kind="attempt_failed", **told, retry_in=retry_in)

    def _tell_end(self, end: Settlement) -> None:
        seconds = round((end.ended_at - (end.started_at or end.run.claimed_at)) / SECOND, 3)
        told = {**about(end.run), "attempt": end.run.attempt}
        log.info("A run ended", kind="run_ended", **told, status=end.state.name.lower(), seconds=seconds)

    def _task_of(self, run: Claimed) -> str:
        """A class has one task."""
        task = self._tasks.get(run.class_id)
        if task is None:
            if len(self._tasks) >= MOST_CLASSES:
                self._tasks.clear()
            task = self._tasks[run.class_id] = _read(run)[0]
        return task


def about(run: Claimed) -> dict[str, str]:
    """Return what lines about a run say of it."""
    task, name = _read(run)
    named = {} if name is None else {"name": name}
    return {"run_id": str(run.run_id), "job_id": str(run.job_id), "task": task} | named


def _read(run: Claimed) -> tuple[str, str | None]:
    """Return the task and the job's name."""
    try:
        spec = decode_spec(run.spec)
    except ValueError:  # a newer oncue wrote it, or it is damaged
        return "?", None
    return spec.task, spec.name
