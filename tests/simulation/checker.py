"""What must be true of a world that has come to rest, whatever happened in it. Each rule yields what it finds wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import msgspec
from tests.simulation import sharing
from tests.simulation.faults import LEASE, ask
from tests.simulation.journal import Start, short
from tests.simulation.user import NEVER_ANSWERED, Edit, Memory, Owned
from tests.simulation.world import World

from oncue.domain.ids import JobId, RunId, occurrence_id
from oncue.domain.instants import HOUR, SECOND, Instant
from oncue.domain.lane import FREE
from oncue.domain.ledger import Entry
from oncue.domain.planning import MOST_RUNS, PLANNED_AT_ONCE
from oncue.domain.policy import LOSSES, OnLost, Overlap, backoff
from oncue.domain.run import RunView, State, Trigger
from oncue.domain.schedule import occurrences
from oncue.engines.port import Count, Page, RunQuery

PROMPT = 2 * SECOND
ENDED = (Count.SUCCEEDED, Count.DEAD, Count.CANCELLED, Count.EXPIRED, Count.WITHDRAWN)


class Checker:
    def __init__(self, world: World, memory: Memory) -> None:
        self.world = world
        self.memory = memory
        self.journal = world.journal
        self.engine = world.engine
        listed: list[RunView] = world.all_runs(RunQuery())
        self.listed = Counter(run.run_id for run in listed)
        self.views: dict[RunId, RunView] = {run_id: self._view(run_id) for run_id in self.listed}
        self.starts: dict[RunId, list[Start]] = {}
        for start in self.journal.starts:
            self.starts.setdefault(start.run_id, []).append(start)
        self.owners = {run_id: memory.jobs[view.job_id] for run_id, view in self.views.items()}
        self.owners |= {start.run_id: memory.jobs[start.job_id] for start in self.journal.starts}

    def _view(self, run_id: RunId) -> RunView:
        view: RunView = ask(self.engine.history.run(None, run_id))
        return view

    def problems(self) -> list[str]:
        rules = [getattr(self, name) for name in dir(type(self)) if name.startswith("rule_")]
        found = [*self.journal.crashes, *self.journal.early_burials]
        for rule in rules:
            found += [f"{rule.__name__.removeprefix('rule_')}: {problem}" for problem in rule()]
        for shared in sharing.RULES:
            found += [f"{shared.__name__}: {problem}" for problem in shared(self)]
        return found

    @cached_property
    def nominal(self) -> dict[RunId, tuple[Owned, Instant]]:
        """The run of each occurrence that any schedule ever had."""
        return {
            occurrence_id(owned.job.job_id, at): (owned, at)
            for owned in self.memory.jobs.values()
            if owned.spec.schedule.recurring
            for at in self.oracle(owned)
        }

    def oracle(self, owned: Owned) -> list[Instant]:
        return list(occurrences(owned.spec.schedule, owned.job.created_at, self.world.storm_ends))

    def due(self, run_id: RunId) -> Instant | None:
        """When it was to start, by what its user asked for."""
        if run_id in self.nominal:
            return self.nominal[run_id][1]
        owned = self.memory.jobs.get(JobId(run_id))
        if owned is not None:
            return owned.spec.schedule.at or owned.job.created_at
        return next((owned.extra[run_id] for owned in self.memory.jobs.values() if run_id in owned.extra), None)

    # ----------------------------------------------------------------------------------------------- nothing gets lost

    def rule_every_acknowledged_job_is_final_or_in_the_future(self) -> Iterator[str]:
        for job_id, owned in self.memory.jobs.items():
            run_id = RunId(job_id)
            if owned.spec.schedule.recurring or owned.created == NEVER_ANSWERED:
                continue
            view = self.views.get(run_id)
            if view is None:
                yield f"{short(run_id)} is lost"
            elif not view.state.final and view.due < self.world.clock.now():
                yield f"{short(run_id)} is {view.state.name}"

    def rule_each_occurrence_has_one_fate(self) -> Iterator[str]:
        for owned in self.memory.jobs.values():
            if owned.spec.schedule.recurring and owned.created != NEVER_ANSWERED:
                yield from self._fates(owned)

    def _fates(self, owned: Owned) -> Iterator[str]:
        job_id, expected = owned.job.job_id, self.oracle(owned)
        fates: Counter[Instant] = Counter()
        for view in self.views.values():
            if view.job_id == job_id and view.trigger in (Trigger.SCHEDULE, Trigger.CATCH_UP):
                assert view.nominal is not None
                fates[view.nominal] += self.listed[view.run_id]
        for entry in self._ledger(job_id):
            inside = [at for at in expected if entry.first <= at <= entry.last]
            fates.update(inside)
            if len(inside) != entry.count:
                yield f"job {short(job_id)}: the ledger counts {entry.count} where there are {len(inside)}"
        for at, n in sorted(fates.items()):
            if n != 1 or at not in expected:
                yield f"job {short(job_id)}: its occurrence {at} has {n} fates"
        # Who cancels a job is owed nothing from some moment on, but no gaps before.
        owed = [at for at in expected if at <= max(fates, default=0)] if owned.cancel_asked else expected
        if missing := [at for at in owed if at not in fates]:
            yield f"job {short(job_id)}: its occurrences {missing} have no fate"

    def _ledger(self, job_id: JobId) -> list[Entry]:
        found: list[Entry] = []
        after: str | None = None
        while True:
            page: Page[Entry] = ask(self.engine.lists.ledger(None, job_id, after=after))
            found += page.items
            if (after := page.next) is None:
                return found

    def rule_no_pass_of_a_planner_is_long(self) -> Iterator[str]:
        if (most := max(self.journal.planned, default=0)) >= PLANNED_AT_ONCE + MOST_RUNS:
            yield f"{most} runs were planned in one transaction"

    def rule_counts_add_up(self) -> Iterator[str]:
        ask(self.engine.maintenance.roll_up())
        counts: Counter[Count] = Counter()
        for counter in ask(self.engine.history.counters()):
            counts[counter.what] += counter.n
        there = sum(not view.state.final for view in self.views.values())
        if counts[Count.CREATED] - sum(counts[what] for what in ENDED) != there:
            yield f"{there} are open, and the counters say {dict(counts)}"
        letters = len(ask(self.engine.lists.dead_letters(None, limit=100_000)).items)
        if counts[Count.DEAD] - counts[Count.REQUEUED] - counts[Count.DISCARDED] != letters:
            yield f"{letters} dead letters are open, and the counters say {dict(counts)}"

    # ------------------------------------------------------------------------------------------------------ when it ran

    def rule_nothing_starts_early(self) -> Iterator[str]:
        for start in self.journal.starts:
            due = self.due(start.run_id)
            if due is None:
                yield f"nobody asked for run {short(start.run_id)}"
            elif start.now < due and not self.world.jumpy:
                yield f"start {start.serial} of run {short(start.run_id)} is {due - start.now} µs early"

    def rule_a_failure_is_followed_by_its_wait(self) -> Iterator[str]:
        if self.world.jumpy or self.world.misled:  # who was to wait, and who starts it, may have different times
            return
        for run_id, starts in self.starts.items():
            spec = self.owners[run_id].spec
            if run_id in self.journal.handed_back:
                continue  # it may have failed while it was told to stop, and that does not count
            for one, following in pairwise(starts):
                gone = self.journal.gone.get(one.worker, following.at)  # before it could say that it failed, perhaps
                if one.how != "failed" or one.ended_now is None or one.told_at is not None or gone < following.at:
                    continue
                if following.now < one.ended_now + (one.asked_wait or backoff(spec.retry, 1, 0.0)):
                    yield f"start {following.serial} of run {short(run_id)} follows a failure too soon"

    def rule_without_faults_all_is_prompt_and_nothing_doubled(self) -> Iterator[str]:
        if not self.world.calm:
            return
        for run_id, starts in self.starts.items():
            owned, view = self.owners[run_id], self.views.get(run_id)
            if view is None or view.losses or len(starts) > view.failures + 1 + self.journal.handed_back[run_id]:
                yield f"run {short(run_id)} was started {len(starts)} times: {view}"
            due = self.due(run_id)
            lanes = owned.job.lanes
            if owned.touched or owned.spec.queue != "default" or lanes != FREE or self.world.tight:
                continue
            if due is not None and starts[0].now > due + PROMPT:
                yield f"run {short(run_id)} started {(starts[0].now - due) / SECOND} s late"

    # ------------------------------------------------------------------------------------------------------ who ran it

    def rule_attempts_of_a_run_do_not_overlap(self) -> Iterator[str]:
        for run_id, starts in self.starts.items():
            for one, following in pairwise(starts):
                if self.journal.over_at(one) > following.at:
                    yield f"run {short(run_id)}: start {following.serial} while {one.serial} is going"

    def rule_every_start_follows_a_claim_of_its_own(self) -> Iterator[str]:
        used: set[int] = set()
        for start in self.journal.starts:
            claim = self.journal.claim_of(start)
            if claim is None or claim.at in used:
                yield f"start {start.serial} of run {short(start.run_id)} follows no claim"
            else:
                used.add(claim.at)

    def rule_tokens_rise(self) -> Iterator[str]:
        for run_id, claims in self.journal.claims.items():
            if self.owners[run_id].edits:
                continue  # an edit makes anew what was handed back, with a token from the beginning
            if any(later.token <= earlier.token for earlier, later in pairwise(claims)):
                yield f"run {short(run_id)} was claimed with the tokens {[claim.token for claim in claims]}"

    def rule_nobody_buried_is_given_anything(self) -> Iterator[str]:
        for claims in self.journal.claims.values():
            for claim in claims:
                if claim.at > self.journal.gone.get(claim.worker, claim.at):
                    yield f"{short(claim.worker)} was buried and could claim {short(claim.run_id)}"

    def rule_the_dead_are_found_when_their_lease_is_over(self) -> Iterator[str]:
        """Whatever other workers' leases are, and however clocks were set; if anybody was there to look."""
        for worker, killed_at in self.journal.killed_at.items():
            lease = self.world.shapes[worker].lease
            # A scheduler that was frozen in the storm looks when it wakes, and then gives everybody a lease anew.
            by = max(killed_at, self.world.storm_over + 2 * LEASE) + 2 * lease + PROMPT
            if min(self.journal.gone_at.get(worker, by + 1), self.world.clock.monotonic()) > by:
                yield f"{short(worker)} was killed, and nobody noticed within its lease"

    def rule_the_winners_result_is_kept(self) -> Iterator[str]:
        for run_id, view in self.views.items():
            starts = self.starts.get(run_id, [])
            if view.state is not State.SUCCEEDED:
                continue
            serial = None if view.result is None else msgspec.json.decode(view.result)["serial"]
            if not starts or serial != starts[-1].serial or starts[-1].how not in ("returned", "killed"):
                yield f"run {short(run_id)} has the result of start {serial}; the last was {starts[-1:]}"

    def rule_checkpoints_are_those_of_the_holder(self) -> Iterator[str]:
        for run_id, starts in self.starts.items():
            for i, start in enumerate(starts):
                claim = self.journal.claim_of(start)
                kept = [s.serial for s in starts[:i] for _, done in s.saves if claim and done < claim.at]
                if kept and (start.checkpoint is None or start.checkpoint < max(kept)):
                    yield f"run {short(run_id)}: start {start.serial} got {start.checkpoint}, not {max(kept)}"
                for asked, _ in start.saves:
                    if any(other.at < asked for other in starts[i + 1 :]):
                        yield f"run {short(run_id)}: start {start.serial} could save though it was another's by then"

    # ---------------------------------------------------------------------------------------------------- how it ended

    def rule_final_is_final(self) -> Iterator[str]:
        for run_id, first in self.memory.ends.items():
            if (last := self.views.get(run_id)) != first:
                yield f"run {short(run_id)} was {first}, and is {last}"

    def rule_tries_are_capped_and_counted(self) -> Iterator[str]:
        for run_id, view in self.views.items():
            spec, starts = self.owners[run_id].spec, self.starts.get(run_id, [])
            name = f"run {short(run_id)} ({view.state.name})"
            seen = sum(start.how in ("failed", "final") for start in starts)
            if spec.timeout < HOUR:  # else who was told to stop gave way, was handed back or cancelled: no failure
                seen += sum(start.how not in ("failed", "final") and start.told_at is not None for start in starts)
            claims = len(self.journal.claims[run_id])
            if view.failures > spec.max_retries + 1 or view.losses > LOSSES:
                yield f"{name} has {view.failures} failures and {view.losses} losses"
            if view.failures > seen or (view.failures < seen and self._all_in_sight(view, starts)):
                yield f"{name} has {view.failures} failures, and its bodies know of {seen}"
            if view.failures + view.losses > claims:
                yield f"{name} has {view.failures} failures and {view.losses} losses in {claims} claims"
            if view.losses > 1 and spec.on_lost is OnLost.DEAD:
                yield f"{name} was risked again"
            if view.state is State.DEAD and not self._deserved(view, starts):
                yield f"{name} is dead before its time: {view.failures} failures, {view.losses} losses"

    def _all_in_sight(self, view: RunView, starts: list[Start]) -> bool:
        """Nothing but its bodies decided how it ended: each of their failures counts."""
        quiet = all(start.told_at is None for start in starts) and view.run_id not in self.journal.handed_back
        return quiet and view.losses == 0 and view.state in (State.SUCCEEDED, State.DEAD)

    def _deserved(self, view: RunView, starts: list[Start]) -> bool:
        spec = self.owners[view.run_id].spec
        lost = view.losses >= LOSSES or (view.losses > 0 and spec.on_lost is OnLost.DEAD)
        return lost or view.failures > spec.max_retries or any(start.how == "final" for start in starts)

    def rule_what_was_tried_does_not_expire(self) -> Iterator[str]:
        for run_id, view in self.views.items():
            if view.state is State.EXPIRED and self.starts.get(run_id, []):
                yield f"run {short(run_id)} has expired after it was tried"

    # ------------------------------------------------------------------------------------------------ what users asked

    def rule_nothing_starts_after_it_was_cancelled(self) -> Iterator[str]:
        for run_id, answered in self.memory.runs_cancelled.items():
            if any(start.at > answered for start in self.starts.get(run_id, [])):
                yield f"run {short(run_id)} started after it was cancelled"
        for start in self.journal.starts:
            claim, owned = self.journal.claim_of(start), self.owners[start.run_id]
            if claim is not None and claim.at > owned.cancelled:
                yield f"run {short(start.run_id)} was claimed after its job was cancelled"

    def rule_what_was_told_to_stop_is_cancelled(self) -> Iterator[str]:
        told = set(self.memory.runs_told).union(*(owned.told for owned in self.memory.jobs.values()))
        for run_id in sorted(told):
            if run_id not in self.views or self.views[run_id].state is not State.CANCELLED:
                yield f"run {short(run_id)} was told to stop, and is {self.views.get(run_id)}"

    def rule_without_faults_what_was_told_to_stop_stops_soon(self) -> Iterator[str]:
        for run_id, (answered, elapsed) in self.memory.runs_told.items():
            for start in self.starts.get(run_id, []) if self.world.calm else ():
                stopped = start.stopped_elapsed
                if start.at < answered and (stopped is None or stopped > elapsed + PROMPT):
                    yield f"start {start.serial} of run {short(run_id)} stopped too late"

    def rule_nobody_is_cancelled_unasked(self) -> Iterator[str]:
        for run_id, view in self.views.items():
            owned = self.owners[run_id]
            asked = run_id in self.memory.cancels_asked or owned.cancel_asked or owned.spec.overlap is Overlap.REPLACE
            if view.state is State.CANCELLED and not asked:
                yield f"run {short(run_id)} was cancelled, and nobody asked for it"

    def rule_nobody_is_told_of_what_is_anothers(self) -> Iterator[str]:
        yield from self.memory.pried

    def rule_nothing_of_what_is_paused_is_claimed(self) -> Iterator[str]:
        for run_id, claims in self.journal.claims.items():
            owned = self.owners.get(run_id)
            if owned is None:
                continue
            windows = [
                *self.memory.queue_pauses[owned.spec.queue],
                *(owned.pauses if run_id not in owned.extra else ()),
            ]
            for claim in claims:
                if any(window.since < claim.at < window.until for window in windows):
                    yield f"run {short(run_id)} was claimed while it was paused"

    def rule_edits_count_for_all_that_is_claimed_after_them_and_nothing_else(self) -> Iterator[str]:
        for start in self.journal.starts:
            owned, claim = self.owners[start.run_id], next(iter(self.journal.claims[start.run_id]), None)
            if claim is None:
                continue
            name = f"start {start.serial} of run {short(start.run_id)}"
            used = next((edit for edit in owned.edits if edit.number == start.edit), Edit(0, -1, owned.created))
            own = self.journal.claim_of(start)
            if own is not None and used.asked > own.at:
                yield f"{name} has edit {used.number}, made after its claim"
            in_time = [edit.number for edit in owned.edits if used.answered < edit.asked and edit.answered < claim.at]
            if in_time and start.run_id in self.nominal:
                yield f"{name} has edit {used.number} though {in_time} came before its claim"

    def rule_no_edit_is_lost(self) -> Iterator[str]:
        for job_id, owned in self.memory.jobs.items():
            done = sum(edit.answered != NEVER_ANSWERED for edit in owned.edits)
            snap = ask(self.engine.jobs.read(None, job_id)) if done else None
            if snap is not None and snap.job.version < 1 + done:
                yield f"job {short(job_id)} is at version {snap.job.version} after {done} edits"
