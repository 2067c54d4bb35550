"""Count attempts by the batch: how late they start, how long they take, how they end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant
from oncue.domain.job import decode_spec
from oncue.domain.placement import ClassKey
from oncue.domain.run import Claimed, Settled, Settlement, State, read_attempts
from oncue.metrics.metric import OTHER
from oncue.metrics.numbers import SILENT, Numbers, Sink
from oncue.metrics.table import NOTICES_SENT, PREEMPTED, RESULTS_REFUSED, RUN_SECONDS, SETTLED, START_LAG

MOST_CLASSES: Final = 10_000  # remembered; each has its labels in its definition


class RunNumbers:
    """Keeps for each class of runs where its numbers go: a run costs a look-up by number and an append."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._silent = numbers is SILENT
        self._lags: dict[ClassId, Sink] = {}
        self._times: dict[ClassId, Sink] = {}  # of attempts that succeeded

    def started(self, runs: Iterable[Claimed], now: Instant) -> None:
        if self._silent:
            return
        lags = self._lags
        for run in runs:
            try:
                lags[run.class_id].append(now - run.eligible)
            except KeyError:
                self._lag_of(run).append(now - run.eligible)

    def settled(self, ends: Sequence[Settlement], answer: Settled) -> None:
        """Count attempts whose outcomes were written, or refused because their runs are another worker's."""
        if self._silent:
            return
        times, succeeded, again = self._times, State.SUCCEEDED, 0
        for end in ends:
            time = end.ended_at - (end.started_at or end.ended_at)
            if end.state is not succeeded:
                self._numbers.sink(RUN_SECONDS, _key(end.run).task, outcome_of(end)).append(time)
                again += end.state is State.WAITING and end.run.run_id not in answer.lost | answer.cancelled
                continue
            try:
                times[end.run.class_id].append(time)
            except KeyError:
                self._time_of(end.run).append(time)
        self._numbers.add(SETTLED, "again", n=again)
        self._numbers.add(SETTLED, "final", n=len(ends) - again - len(answer.lost))
        self._numbers.add(RESULTS_REFUSED, n=len(answer.lost))
        if answer.dropped:
            self._numbers.add(NOTICES_SENT, "any", "dropped", n=answer.dropped)

    def handed_back(self, runs: int) -> None:
        self._numbers.add(SETTLED, "handed_back", n=runs)

    def preempted(self) -> None:
        self._numbers.add(PREEMPTED)

    def _lag_of(self, run: Claimed) -> Sink:
        key = _key(run)
        return _kept(self._lags, run, self._numbers.sink(START_LAG, key.queue, key.priority.name.lower()))

    def _time_of(self, run: Claimed) -> Sink:
        return _kept(self._times, run, self._numbers.sink(RUN_SECONDS, _key(run).task, "succeeded"))


def outcome_of(end: Settlement) -> str:
    """How an attempt ended, as a label. A task may raise an error that is called like our own timeout."""
    if end.state is State.SUCCEEDED or end.state is State.CANCELLED:
        return end.state.name.lower()
    if end.failures <= end.run.failures:
        return OTHER  # lost
    if end.error_type == "Timeout" and read_attempts(end.attempts)[-1].outcome == "timed_out":
        return "timed_out"
    return "failed"


def _key(run: Claimed) -> ClassKey:
    try:
        return decode_spec(run.spec).class_key
    except ValueError:  # it could not be read, and so was not started
        return ClassKey(task=OTHER)


def _kept(sinks: dict[ClassId, Sink], run: Claimed, sink: Sink) -> Sink:
    if len(sinks) >= MOST_CLASSES:
        sinks.clear()
    sinks[run.class_id] = sink
    return sink
