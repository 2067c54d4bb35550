"""The search of bench/linearizable finds an order where there is one, and none where an answer is wrong."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from random import Random

import pytest
from bench.linearizable.choosing import Told, choose
from bench.linearizable.model import ACTIVE, CANCELLED, Answer, Call, Job, Key, Kind, perform
from bench.linearizable.search import check

CLIENTS = 8
MOST_SECONDS = 2.0  # of the processor, on a slow machine: a twentieth of it is usual

Fault = Callable[["Served", Call, Answer], Answer | None]


class Served:
    """A server that clients call at once, in simulated time: each call takes effect between its begin and its end.

    `unknown` is the share of calls whose answers are lost; half of those take effect, some of them much later.
    `fault` gives another answer than the right one: to the first call after a few dozen for which it has one.
    """

    def __init__(self, seed: int, calls: int, unknown: float = 0.0, fault: Fault | None = None) -> None:
        self.chance = Random(seed)
        self.key = Key()
        self.past: list[tuple[int, Job]] = []  # what was acknowledged: until when it was so, at least
        self.calls: list[Call] = []
        self.wrong: Call | None = None  # the call with the planted answer
        self._left = calls
        self._unknown = unknown
        self._fault = fault
        self._told = Told()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        for client in range(CLIENTS):
            self._begin(client)
        while self._events:
            heapq.heappop(self._events)[2]()

    def _at(self, when: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, self.chance.randrange(1 << 60), do))

    def _begin(self, now: int) -> None:
        if not self._left:
            return
        self._left -= 1
        call = choose(self.chance, self._told, self._left)._replace(invoked=now)
        takes, ends = now + self.chance.randrange(1, 900), now + self.chance.randrange(900, 2_000)
        if self.chance.random() < self._unknown:
            late = self.chance.choice((0, 0, 20_000))
            if self.chance.random() < 0.5:
                self._at(takes + late, lambda: self._answered(call, 0) and None)
            self._at(ends, lambda: self._end(call, ends))
        else:
            answered: list[Call] = []
            self._at(takes, lambda: answered.append(self._answered(call, ends)))
            self._at(ends, lambda: self._end(answered[0], ends))

    def _end(self, call: Call, now: int) -> None:
        self.calls.append(call)
        self._told.learn(call)
        self._at(now + 100, lambda: self._begin(now + self.chance.randrange(100, 200)))

    def _answered(self, call: Call, ends: int) -> Call:
        """Let the call take effect; return it with its answer."""
        answer = _named(perform(self.key, call), call)
        if self._fault is not None and self.wrong is None and len(self.calls) > 40 and ends:
            planted = self._fault(self, call, answer)
            if planted is not None:
                answer, self.wrong = planted, call
        if self.key.job is not None and answer.key.job != self.key.job:
            self.past.append((ends, self.key.job))
        self.key = answer.key
        return call._replace(returned=ends, status=answer.status, shown=answer.shown, run_id=answer.run_id)


def _named(answer: Answer | None, call: Call) -> Answer:
    """Give ids to what the model leaves without."""
    assert answer is not None
    key, shown, run_id = answer.key, answer.shown, answer.run_id
    if shown is not None and shown.job_id is None:
        shown = shown._replace(job_id=f"j{call.number}")
        key = key._replace(job=shown)
    if answer.status == 202:
        run_id = run_id or f"run{call.number}"
        key = key._replace(runs=tuple((one, run or run_id) for one, run in key.runs))
    return Answer(answer.status, key, shown, run_id)


@pytest.mark.parametrize("unknown", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_what_happened_in_some_order_is_linearizable(seed: int, unknown: float) -> None:
    found = check(Served(seed, 150, unknown).calls)

    assert found.linearizable, found.why


def test_a_thousand_calls_with_two_hundred_unknown_ones_are_searched_at_once() -> None:
    calls = Served(1, 1_000, 0.2).calls
    began = time.process_time()
    found = check(calls)

    assert found.linearizable
    assert 150 < sum(not call.known for call in calls) < 250
    assert found.states < 2 * len(calls), "it goes back seldom"
    assert time.process_time() - began < MOST_SECONDS


# ----------------------------------------------------------------------------------------------------- planted answers


def stale_read(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A version that was replaced before the read began."""
    found = [
        job for until, job in served.past if until < call.invoked and answer.shown and _is_older(job, answer.shown)
    ]
    return answer._replace(shown=found[-1]) if call.kind is Kind.READ_KEY and found else None


def _is_older(job: Job, than: Job) -> bool:
    return job.job_id == than.job_id and job.version < than.version


def lost_change(served: Served, call: Call, answer: Answer) -> Answer | None:
    return answer._replace(key=served.key) if _is_edit(call, answer) else None


def lost_cancel(served: Served, call: Call, answer: Answer) -> Answer | None:
    changed = call.kind is Kind.DELETE and answer.key != served.key
    return answer._replace(key=served.key) if changed else None


def lost_pause(served: Served, call: Call, answer: Answer) -> Answer | None:
    changed = call.kind is Kind.PAUSE and answer.key != served.key
    return answer._replace(key=served.key) if changed else None


def false_refusal(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A 412 although the version is that of If-Match."""
    return Answer(412, served.key) if _is_edit(call, answer) and call.match else None


def unchecked_match(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A change although the version is not that of If-Match."""
    if answer.status != 412 or call.kind is not Kind.PATCH:
        return None
    forced = perform(served.key, call._replace(match=None))
    return forced if forced is not None and forced.status == 200 else None


def anothers_change(served: Served, call: Call, answer: Answer) -> Answer | None:
    """The answer shows the change that follows."""
    shown = answer.shown
    if not _is_edit(call, answer) or shown is None:
        return None
    after = shown._replace(version=shown.version + 1, payload="p-another")
    return answer._replace(shown=after, key=answer.key._replace(job=after))


def wrong_status(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A resume is answered `paused`, as if another had paused the job since."""
    shown = answer.shown
    return answer._replace(shown=shown._replace(status="paused")) if call.kind is Kind.RESUME and shown else None


def two_jobs(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A PUT makes another job although the key has one that lives."""
    if call.kind is not Kind.PUT or not _is_edit(call, answer) or answer.shown is None or served.key.job is None:
        return None
    made = answer.shown._replace(job_id="j-second", version=1, status=ACTIVE)
    return Answer(201, answer.key._replace(job=made, earlier=(*served.key.earlier, served.key.job)), made)


def revived(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A resume brings a cancelled job back."""
    job = served.key.job
    if call.kind is not Kind.RESUME or job is None or job.status != CANCELLED or call.job_id != job.job_id:
        return None
    return Answer(200, served.key._replace(job=job._replace(status=ACTIVE)), job._replace(status=ACTIVE))


def another_run(served: Served, call: Call, answer: Answer) -> Answer | None:
    """A repeated request runs the job again."""
    again = call.kind is Kind.RUN and call.idempotency_key in dict(served.key.runs)
    return answer._replace(run_id="run-again") if again else None


def _is_edit(call: Call, answer: Answer) -> bool:
    return call.kind in (Kind.PUT, Kind.PATCH) and answer.status == 200


# Of 25 histories with one such answer each, so many have no order at least: where clients hurry, a wrong answer to one
# may be right because of what another does at the same time.
FAULTS: list[tuple[Fault, int]] = [
    (stale_read, 20),
    (lost_change, 25),
    (lost_cancel, 16),
    (lost_pause, 5),
    (false_refusal, 4),
    (unchecked_match, 25),
    (anothers_change, 25),
    (wrong_status, 25),
    (two_jobs, 25),
    (revived, 10),
    (another_run, 20),
]


@pytest.mark.parametrize(("fault", "enough"), FAULTS)
def test_planted_answers_are_found(fault: Fault, enough: int) -> None:
    planted = [one.calls for seed in range(25) if (one := Served(seed, 200, fault=fault)).wrong is not None]

    assert sum(check(calls).linearizable is False for calls in planted) >= enough
