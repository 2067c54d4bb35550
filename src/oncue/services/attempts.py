"""A worker's active attempts: start them, stop them on request or on timeout, and report each outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from random import Random
from typing import Protocol, assert_never

import msgspec

from oncue.clock import Clock
from oncue.domain import attempt
from oncue.domain.attempt import Failure
from oncue.domain.errors import ObjectLost, StorageRefused, StorageUnavailable
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, show_duration
from oncue.domain.job import Spec, understand_spec
from oncue.domain.placement import Priority, Resources
from oncue.domain.plain_text import message_of
from oncue.domain.policy import must_run_alone
from oncue.domain.preemption import choose_preempted, may_preempt
from oncue.domain.reference import MARK, read_reference
from oncue.domain.run import Claimed, Settlement
from oncue.executors.calling import as_failure, failure_of
from oncue.executors.port import Executor, ProcessLost, TaskFailed, Work
from oncue.log import log
from oncue.services.capacity import Capacity
from oncue.services.execution import Execution
from oncue.services.hook_calls import HookCalls
from oncue.services.reporting import Reporting, RunReports
from oncue.services.run_start import info_of, traced, unstartable
from oncue.storage.port import Storage
from oncue.tasks import Isolation
from oncue.tracing.port import AttemptSpan, Tracing

LOOK_AFTER = Duration(50 * MILLISECOND)
IDLE = Duration(5 * SECOND)
PREEMPTION_TIME = Duration(5 * SECOND)  # for a preempted run to stop, before other runs are preempted instead
TAKEN_AGAIN_DELAY = Duration(SECOND)  # of a run whose earlier attempt is still being stopped here
STORAGE_RETRY_DELAY = Duration(30 * SECOND)  # of a run whose payload could not be fetched
LAST_CHANCE = Duration(SECOND // 2)  # after the executors' grace, before an attempt is left behind

DOES_NOT_STOP = "\n… the function does not stop after its stop signal; its group and its concurrency key wait for it\n"
UNKNOWN_OUTCOME = "the outcome of this attempt is unknown; the worker's log has the reason"

End = Settlement | Claimed  # an attempt's outcome; or the run itself, to return to the queue as if never claimed

PLAIN = Resources()


class Stop(Enum):
    """Why an attempt was told to stop."""

    TIMED_OUT = auto()
    CANCELLED = auto()
    DRAINING = auto()
    PREEMPTED = auto()
    LOST = auto()  # this worker does not own the run any more, whatever its outcome


class ActiveAttempt:
    """One active attempt."""

    __slots__ = (
        "begun",
        "deadline",
        "error",
        "kind",
        "left",
        "reports",
        "run",
        "size",
        "span",
        "spec",
        "started_at",
        "stop",
        "stop_requested_at",
        "stoppable",
        "task",
    )

    def __init__(
        self, run: Claimed, spec: Spec, kind: Isolation, reports: RunReports, span: AttemptSpan | None
    ) -> None:
        self.run = run
        self.span = span  # None: not sampled
        self.spec = spec
        self.size = PLAIN if spec.resources == PLAIN else spec.resources.size_class()  # as its class says
        self.kind = kind
        self.reports = reports
        self.started_at = run.claimed_at  # as the store shows it while it runs: it must not change at the end
        self.deadline = Instant(0)  # by the monotonic clock
        self.error: BaseException | None = None  # that the task raised
        self.begun = False  # until then a cancel would end its asyncio task before the task could report an outcome
        self.stop: Stop | None = None
        self.stop_requested_at = Instant(0)
        self.stoppable = True  # False: a thread, which can only be asked to stop
        self.left = False  # it did not stop: it holds no slot, and counts against its user until it ends
        self.task: asyncio.Task[None] | None = None


class Observer(Protocol):
    """Learns what happens to attempts."""

    def begun(self) -> None:
        """The first attempt is active."""
        ...

    def started(self, runs: Sequence[Claimed], now: Instant) -> None: ...

    def preempted(self) -> None: ...

    def ended(self, end: End) -> None: ...

    def disowned(self) -> None:
        """An attempt has ended whose run this worker does not own any more: its outcome is nothing to write."""
        ...

    def not_understood(self, run: Claimed) -> None:
        """A newer oncue defined this run, and this version cannot read it."""
        ...


class Attempts:
    name = "attempts"

    def __init__(
        self,
        clock: Clock,
        worker_id: WorkerId,
        execution: Execution,
        capacity: Capacity,
        reporting: Reporting,
        storage: Storage,
        observer: Observer,
        chance: Random,
        tracing: Tracing | None = None,
    ) -> None:
        self._clock = clock
        self._worker_id = worker_id
        self._execution = execution
        self._reporting = reporting
        self._storage = storage
        self._observer = observer
        self._chance = chance
        self._tracing = tracing
        self._active: dict[RunId, ActiveAttempt] = {}
        self._held: dict[RunId, ActiveAttempt] = {}  # left behind, but no other run may start beside them
        self._forgotten: list[Claimed] = []
        self._loop = asyncio.get_running_loop()  # cached: asking for it takes a system call
        self.capacity = capacity
        self.hooks = HookCalls(clock, execution.tasks)
        self._hooked = bool(self.hooks.tasks)  # a set without hooks pays for nothing else

    def __len__(self) -> int:
        """The number of active attempts, without those that were left behind."""
        return len(self._active)

    @property
    def left_behind(self) -> int:
        """The number of attempts that did not stop and may still run."""
        return sum(self.capacity.left.values())

    def __iter__(self) -> Iterator[ActiveAttempt]:
        return iter(list(self._active.values()))

    def known(self) -> Iterator[Claimed]:
        """Return the runs of all attempts that this process is responsible for, also of those it cannot wait for."""
        yield from (active.run for active in (*self._active.values(), *self._held.values()))
        yield from self._forgotten

    def start(self, runs: Iterable[Claimed]) -> None:
        """Start claimed runs; callers pass only what a claim returned. Never raises: a run that cannot start has
        failed.

        Exception: a run of a newer oncue that this version cannot read is left to other workers.
        """
        now, monotonic = self._clock.now(), self._clock.monotonic()
        none_before = not self._active
        self._observer.started([run for run in runs if self._start(run, monotonic)], now)
        if none_before and self._active:
            self._observer.begun()

    def _start(self, run: Claimed, monotonic: Instant) -> bool:
        """Return whether its attempt is active now."""
        if (before := self._active.get(run.run_id) or self._held.get(run.run_id)) is not None:
            self._claimed_again(before, run)
            return False
        reports = self._reporting.of(run)
        try:
            spec = understand_spec(run.spec)
            task = self._execution.task(spec.task)
            span, trace = (None, spec.trace) if self._tracing is None else traced(self._tracing, run, spec)
            work = Work(info_of(run, spec, trace), task, run.payload, reports, spec.timeout, spec.resources)
        except msgspec.ValidationError:
            self._observer.not_understood(run)
            return False
        except Exception as error:
            self._observer.ended(unstartable(run, self._worker_id, self._clock.now(), error))
            return False
        active = ActiveAttempt(run, spec, task.takes, reports, span)
        if not self.capacity.fits(active.kind, active.size, Priority.HIGH):
            self._observer.ended(run)  # its claim was in doubt for a while, and another run has its slot now
            return False
        active.deadline = Instant(monotonic + spec.timeout)
        executor = self._execution.executor(task, run.losses)
        active.stoppable = self._execution.can_stop(executor)
        if spec.secrets is not None or task.shared.middleware:
            executor = self._execution.complete(executor, task, spec.secrets)
        self._active[run.run_id] = active
        self.capacity.take(active.kind, active.size, run.uid)
        active.task = self._loop.create_task(self._attempt(active, executor, work))
        return True

    def _claimed_again(self, before: ActiveAttempt, run: Claimed) -> None:
        """Start nothing beside an active attempt. After a failover that lost its claim, it may have got the same token
        again: then it owns the run. Otherwise it is stopped first.
        """
        if before.run.token != run.token or before.stop is Stop.LOST:
            self.stop(run.run_id, Stop.LOST)
            self._observer.ended(msgspec.structs.replace(run, due=Instant(self._clock.now() + TAKEN_AGAIN_DELAY)))

    def stop(self, run_id: RunId, why: Stop) -> None:
        """Tell an attempt to stop. A second reason does not replace the first, unless the first is a preemption.

        A run returns to the queue only when it has certainly stopped: a thread is asked, and its run does not return to
        the queue while the thread runs.
        """
        active = self._active.get(run_id)
        if active is None or active.stop not in (None, Stop.PREEMPTED) or active.stop is why or active.task is None:
            return
        only_asked = not active.stoppable and why in (Stop.DRAINING, Stop.PREEMPTED)
        stopping = active.stoppable and active.stop is not None  # it cleans up and must not be disturbed
        active.stop = why
        active.stop_requested_at = self._clock.monotonic()
        active.reports.request_stop()
        if why is not Stop.PREEMPTED:
            active.deadline = Instant(active.stop_requested_at + self._execution.kill_grace + LAST_CHANCE)
        if active.begun and not (only_asked or stopping):
            active.task.cancel()

    def renew(self, run: Claimed) -> None:
        """Replace what is known of an active run by what its own attempt has stored of it."""
        active = self._active.get(run.run_id)
        if active is not None and active.run.token == run.token:
            active.run = run

    def make_room(self, kind: Isolation, size: Resources) -> bool:
        """Preempt runs for a waiting high-priority run that does not fit, if that helps.

        Preempts no more runs than needed, and first those that lose least: lowest priority, then started last. Recently
        preempted runs count as stopping; a thread may take its time.
        """
        now, lately = self._clock.now(), self._clock.monotonic() - PREEMPTION_TIME
        asked = [one for one in self if one.stop is Stop.PREEMPTED and one.stop_requested_at > lately]
        willing = [one for one in self if one.stop is None and may_preempt(one.spec, one.run, one.started_at, now)]
        willing.sort(key=lambda one: (one.spec.priority, one.started_at), reverse=True)
        candidates = asked + willing
        chosen = choose_preempted(
            self.capacity.short_of(kind, size), [(one.size, one.kind is kind) for one in candidates]
        )
        for n in chosen or ():
            self.stop(candidates[n].run.run_id, Stop.PREEMPTED)
        return chosen is not None

    def forget(self) -> list[End]:
        """Drop the attempts that cannot be waited for, and return their outcomes, which others write when this process
        has ended.

        Attempts that have ended and only write their last log lines stay: their outcomes are about to be settled.
        """
        left = [active for active in self if active.task is not None]
        for active in left:
            del self._active[active.run.run_id]
            active.left = True
            self.capacity.leave(active.kind, active.run.uid)  # until it ends, if it does before this process ends
        held = [active for active in self._held.values() if active.task is not None]
        for active in held:
            del self._held[active.run.run_id]
        self._forgotten += [active.run for active in (*left, *held)]
        return [*(active.run for active in left), *map(self._stopped, held)]

    async def run_once(self) -> Duration:
        """Enforce the deadlines of attempts, and of attempts that were told to stop and did not."""
        now = self._clock.monotonic()
        for active in self:
            if active.deadline <= now and active.task is not None:
                if active.stop in (None, Stop.PREEMPTED):
                    self.stop(active.run.run_id, Stop.TIMED_OUT)
                elif active.stop is not Stop.DRAINING:
                    self._leave_behind(active)
        return LOOK_AFTER if self._active else IDLE

    async def _attempt(self, active: ActiveAttempt, executor: Executor, work: Work) -> None:
        """Run one attempt from start to end: execute it, determine its outcome, keep its log, pass on what is to be
        written.

        The attempt has an outcome whatever is raised: nothing that can raise is outside the guard.
        """
        end: End | None = None
        try:
            active.begun = True
            if active.span is not None:
                active.span.enter()
            try:
                if active.stop is not None:
                    raise asyncio.CancelledError  # told to stop before it began
                if work.payload is not None and work.payload.startswith(MARK):
                    work = await self._with_payload(work)
                result = await executor.run(work)
                end = self._succeeded(active, result)
            except (StorageUnavailable, StorageRefused) as away:  # not from user code, whose errors are TaskFailed
                end = self._without_payload(active, away)
            except asyncio.CancelledError:
                end = self._stopped(active)
            except BaseException as error:
                end = self._failed(active, error)
            active.task = None  # its outcome is known: from here on nothing stops it
            active.reports.wrote_all()
            if active.reports in self._reporting and self._is_ours(active):
                await self._reporting.write_last(active.reports)
        except BaseException as error:
            active.task = None
            log.error(
                "An attempt ended without an outcome",
                kind="attempt_broken",
                run_id=str(active.run.run_id),
                exc_info=error,
            )
        if active.left:
            self.capacity.left_ended(active.kind, active.run.uid)
        if self._is_ours(active):
            self._end(
                active, end or attempt.given_up(active.run, active.started_at, self._clock.now(), UNKNOWN_OUTCOME)
            )

    def _is_ours(self, active: ActiveAttempt) -> bool:
        """Whether it was not settled without us. The same run may have a later attempt."""
        return self._among(active).get(active.run.run_id) is active

    def _among(self, active: ActiveAttempt) -> dict[RunId, ActiveAttempt]:
        return self._held if active.left and active.spec.holds else self._active

    def _end(self, active: ActiveAttempt, end: End) -> None:
        del self._among(active)[active.run.run_id]
        if not active.left:
            self.capacity.release(active.kind, active.size, active.run.uid)
        self._tell(active, end)

    def _tell(self, active: ActiveAttempt, end: End) -> None:
        if active.span is not None:
            ended = (end.ended_at, end.error_type) if isinstance(end, Settlement) else (self._clock.now(), None)
            active.span.end(*ended)
        if active.stop is Stop.LOST:
            self._observer.disowned()
            return
        self._observer.ended(end)
        if self._hooked and isinstance(end, Settlement):
            self.hooks.tell(
                self._execution.task(active.spec.task), info_of(active.run, active.spec, None), end, active.error
            )

    def _leave_behind(self, active: ActiveAttempt) -> None:
        """Give its slot to others. Its run ends now; or, if no other run may start beside it, when its function ends or
        this process.
        """
        run, run_id = active.run, str(active.run.run_id)
        del self._active[run.run_id]
        active.left = True
        self.capacity.release(active.kind, active.size, run.uid)
        self.capacity.leave(active.kind, run.uid)
        if active.spec.holds:
            log.warning("A function does not stop, and other runs wait for it", kind="attempt_held", run_id=run_id)
            active.reports.write(DOES_NOT_STOP)
            self._held[run.run_id] = active
        else:
            log.warning("A function does not stop; its run ends without it", kind="attempt_left", run_id=run_id)
            self._tell(active, self._stopped(active))

    async def _with_payload(self, work: Work) -> Work:
        """Fetch a payload from object storage."""
        reference = read_reference(work.payload)
        if reference is None:
            return work
        try:
            return msgspec.structs.replace(work, payload=await self._storage.get(reference))
        except ObjectLost as lost:
            raise TaskFailed("PayloadLost", str(lost), retry=False) from None

    # --------------------------------------------------------------------------------------------------------- outcomes

    def _without_payload(self, active: ActiveAttempt, why: Exception) -> End:
        """Return the run to the queue until storage may be available again; no attempt is used."""
        log.warning(
            "Object storage is unavailable: a run waits for its payload",
            kind="payload_away",
            run_id=str(active.run.run_id),
            why=str(why),
        )
        if active.stop is not None:
            return self._stopped(active)
        return msgspec.structs.replace(active.run, due=Instant(self._clock.now() + STORAGE_RETRY_DELAY))

    def _succeeded(self, active: ActiveAttempt, result: bytes | None) -> End:
        noticed = active.reports.noticed or (active.task is not None and active.task.cancelling() > 0)
        if active.stop is Stop.TIMED_OUT or (active.stop is not None and noticed):
            return self._stopped(active)  # it returned, but did not finish its work
        return attempt.succeeded(active.run, active.started_at, self._clock.now(), result)

    def _stopped(self, active: ActiveAttempt) -> End:
        now = self._clock.now()
        match active.stop:
            case Stop.TIMED_OUT:
                message = f"the attempt exceeded its timeout of {show_duration(active.spec.timeout)}"
                if active.left:
                    message += f"; {attempt.LEFT_BEHIND}"
                return self._failure(active, Failure(error_type="Timeout", error=message, outcome="timed_out"))
            case Stop.CANCELLED:
                error = attempt.LEFT_BEHIND if active.left else None
                return attempt.cancelled(active.run, self._worker_id, active.started_at, now, error)
            case Stop.DRAINING | Stop.LOST:
                return active.run
            case Stop.PREEMPTED:
                self._observer.preempted()
                return attempt.preempted(active.run, self._worker_id, active.started_at, now)
            case None:
                itself = Failure(error_type="CancelledError", error="the task cancelled itself")
                return self._failure(active, itself)
            case _:
                assert_never(active.stop)

    def _failed(self, active: ActiveAttempt, error: BaseException) -> End:
        if active.stop is not None:
            return self._stopped(active)
        failed = as_failure(error)
        active.error = failed if failed.error is None else failed.error
        said = message_of(failed, attempt.LONGEST_ERROR)
        if isinstance(failed, ProcessLost) and must_run_alone(active.run.losses):
            return attempt.lost(active.run, self._worker_id, active.started_at, self._clock.now(), said)
        active.reports.write(failed.trace)
        return self._failure(active, failure_of(failed, said))

    def _failure(self, active: ActiveAttempt, failure: Failure) -> Settlement:
        now, luck = self._clock.now(), self._chance.random()
        return attempt.failed(active.run, active.spec, self._worker_id, active.started_at, now, failure, luck)
