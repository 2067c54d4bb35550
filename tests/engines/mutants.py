"""Engines with one planted bug each, and the test that must catch it: they test the tests.

A bug is either a verb that is done wrongly on top of a real engine, and then it fits every engine; or a statement of
one engine with a condition changed.
"""

import asyncio
import importlib
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import DAY
from oncue.domain.planning import DueJob, Plan
from oncue.domain.run import Settled, Settlement, State
from oncue.engines.port import Cancelled, Created, Engine, Worker
from oncue.testing import conformance
from oncue_conformance.store import LEASE

Verb = Callable[..., Awaitable[Any]]
BOTH = ("sqlite", "postgres")


@dataclass(frozen=True)
class Statement:
    """`old` becomes `new` in a text of an engine's module: `_SQL["claim"]`, or a field of `_LANE`."""

    module: str
    where: str
    old: str
    new: str

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        module = importlib.import_module(f"oncue.engines.{self.module}")
        if "." in self.where:
            name, attribute = self.where.split(".")
            holder = getattr(module, name)
            patch.setattr(module, name, holder._replace(**{attribute: self._changed(getattr(holder, attribute))}))
        else:
            patch.setitem(module._SQL, self.where, self._changed(module._SQL[self.where]))

    def _changed(self, text: str) -> str:
        assert self.old in text, f"the statement {self.where} of {self.module} has changed: plant the bug anew"
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Mutant:
    bug: str
    caught_by: str  # a test of the conformance suite
    verbs: dict[str, Verb] = field(default_factory=dict)  # "part.verb": done instead, given the engine and the real one
    statements: tuple[Statement, ...] = ()
    having: dict[str, Any] = field(default_factory=dict)  # arguments of a parametrised test
    engines: tuple[str, ...] = BOTH
    tries: int = 1  # a race may have to be run more than once

    def plant(self, engine: Engine) -> Engine:
        for name, instead in self.verbs.items():
            part, verb = name.split(".")
            holder = getattr(engine, part)
            setattr(holder, verb, partial(instead, engine, getattr(holder, verb)))
        return engine

    @property
    def test(self) -> Callable[..., Awaitable[None]]:
        test: Callable[..., Awaitable[None]] = getattr(conformance, self.caught_by)
        return test


# ----------------------------------------------------------------------------------------------- verbs done wrongly


def settle_matching(*, worker: bool, token: bool) -> Verb:
    """Settle that does not compare all of (run, token, worker)."""

    async def settle(engine: Engine, real: Verb, worker_id: Any, settlements: Any, now: Any) -> Settled:
        lost: set[Any] = set()
        for one in settlements:
            view = await engine.history.run(None, one.run.run_id)
            held = view is not None and view.state is State.RUNNING
            holder = worker_id if worker or not held else view.worker_id
            fence = one.run.token if token or not held else view.token
            lost |= (await real(holder, [replace(one, run=replace(one.run, token=fence))], now)).lost
        return Settled(lost=frozenset(lost))

    return settle


async def gather_in_two_commits(
    engine: Engine, real: Verb, worker_id: Any, run: Any, limit: Any, now: Any, decide: Any
) -> Any:
    """The others end, and what they were is written into the run later, or never."""
    await real(worker_id, run, limit, now, lambda found: replace(decide(found), payload=run.payload))
    return run.payload


async def save_unfenced(engine: Engine, real: Verb, worker_id: Any, run: Any, **kept: Any) -> bool:
    view = await engine.history.run(None, run.run_id)
    if view is None or view.state is not State.RUNNING:
        return False
    return bool(await real(view.worker_id, replace(run, token=view.token), **kept))


_plans = itertools.count()


async def plan_in_two_commits(
    engine: Engine, real: Verb, until: Any, limit: Any, now: Any, decide: Any, *, dies: bool = False, **how: Any
) -> Any:
    """The runs first, the cursor afterwards; now and then the process dies in between."""
    decided: dict[Any, Plan] = {}

    def only_runs(job: DueJob) -> Plan | None:
        made = decide(job)
        if made is None:
            return None
        decided[job.job_id] = made
        return replace(decided[job.job_id], cursor=job.cursor, finished=False)

    def only_cursor(job: DueJob) -> Plan:
        plan = decided.get(job.job_id) or Plan(job, (), job.cursor)
        return replace(plan, runs=(), ledger=())

    planned = await real(until, limit, now, only_runs, **how)
    if dies and planned.runs and next(_plans) % 3 == 0:
        raise StoreUnavailable("died between two commits")
    await real(until, limit, now, only_cursor, **how)
    return planned


async def claim_for_anybody(engine: Engine, real: Verb, worker_id: Any, run_ids: Any, now: Any) -> Any:
    if worker_id in {worker.worker_id for worker in await engine.fleet.workers()}:
        return await real(worker_id, run_ids, now)
    await engine.fleet.register(Worker(worker_id, "ghost", "host", LEASE, now, now), now)
    try:
        return await real(worker_id, run_ids, now)
    finally:
        await engine.fleet.leave(worker_id)


async def held_by_the_buried(engine: Engine, real: Verb, worker_id: Any, run_ids: Any) -> Any:
    """Answers from what is held alone, whether or not the worker was buried."""
    views = [await engine.history.run(None, run_id) for run_id in run_ids]
    return [view for view in views if view is not None and view.worker_id == worker_id]


async def held_without_definition(engine: Engine, real: Verb, worker_id: Any, run_ids: Any) -> Any:
    return [run if run.inline else replace(run, payload=None) for run in await real(worker_id, run_ids)]


async def claim_early(engine: Engine, real: Verb, worker_id: Any, run_ids: Any, now: Any) -> Any:
    return await real(worker_id, run_ids, now + 1)


async def claim_from_paused_queues(engine: Engine, real: Verb, worker_id: Any, run_ids: Any, now: Any) -> Any:
    for queue in await engine.fleet.paused_queues():
        await engine.fleet.resume_queue(queue, now)
    return await real(worker_id, run_ids, now)


async def apply_whatever_the_floor(engine: Engine, real: Verb, change: Any, now: Any) -> bool:
    return bool(await real(replace(change, expect_floor=None), now))


async def apply_whatever_the_version(engine: Engine, real: Verb, change: Any, now: Any) -> bool:
    snap = await engine.jobs.read(None, change.job_id)
    version = change.expect_version if snap is None else snap.job.version
    return bool(await real(replace(change, expect_version=version), now))


async def answer_before_cancelling(engine: Engine, real: Verb, uid: Any, run_id: Any, now: Any) -> Any:
    """Looks first, answers what it saw, and does not wait for a claim in flight."""
    view = await engine.history.run(uid, run_id)
    answer = await real(uid, run_id, now)
    return Cancelled(stopped=(run_id,)) if view and view.state is State.WAITING else answer


async def count_twice(engine: Engine, real: Verb, uid: Any = None) -> Any:
    return [replace(one, n=one.n * 2) if one.what == "succeeded" else one for one in await real(uid)]


async def hand_back_as_a_failure(engine: Engine, real: Verb, worker_id: Any, runs: Any, now: Any) -> Any:
    back = [Settlement(run, State.WAITING, now, due=run.due, failures=run.failures + 1) for run in runs]
    settled = await engine.running.settle(worker_id, back, now)
    return frozenset(run.run_id for run in runs) - settled.lost


async def for_any_user(engine: Engine, real: Verb, uid: Any, *rest: Any) -> Any:
    return await real(None, *rest)


async def bury_whoever_is_named(engine: Engine, real: Verb, silent: Any) -> Any:
    return await real({w.worker_id: w.beat_at for w in await engine.fleet.workers() if w.worker_id in silent})


async def reap_without_counting(engine: Engine, real: Verb, limit: Any, now: Any, decide: Any) -> Any:
    def immortal(run: Any, worker: Any, since: Any) -> Any:
        return replace(decide(run, worker, since), state=State.WAITING, due=now, losses=run.losses)

    return await real(limit, now, immortal)


async def create_one_by_one(engine: Engine, real: Verb, new: Any, now: Any, *, whole: bool = False) -> Any:
    return await real(new, now)


async def create_whatever_the_body(engine: Engine, real: Verb, new: Any, now: Any, *, whole: bool = False) -> Any:
    same = [
        one
        if one.idempotency_key is None
        else replace(one, idempotency_key=replace(one.idempotency_key, body_hash=b"x" * 32))
        for one in new
    ]
    return await real(same, now, whole=whole)


async def reserve_whatever_the_body(engine: Engine, real: Verb, uid: Any, idempotency_key: Any, made: Any) -> Any:
    return await real(uid, replace(idempotency_key, body_hash=b"x" * 16), made)


async def reserve_anew_after_a_refusal(engine: Engine, real: Verb, uid: Any, idempotency_key: Any, made: Any) -> Any:
    found = await real(uid, idempotency_key, made)
    return replace(found, made=made) if found.outcome is Created.NEW else found


async def tend_with_two_turns(engine: Engine, real: Verb, now: Any, keep: Any) -> Any:
    await real(now, keep)
    return await real(now + DAY, keep)


async def peek_from_a_little_before(engine: Engine, real: Verb, classes: Any, after: Any, until: Any, n: Any) -> Any:
    return await real(classes, after - 1, until, n)


async def peek_fair_without_wrapping(
    engine: Engine, real: Verb, classes: Any, after: Any, users: Any, each: Any, now: Any
) -> Any:
    turns = await real(classes, after, users, each, now)
    return replace(turns, runs=[run for run in turns.runs if run.uid > after])


async def peek_fair_around_and_around(
    engine: Engine, real: Verb, classes: Any, after: Any, users: Any, each: Any, now: Any
) -> Any:
    turns = await real(classes, after, users, each, now)
    return turns if len(turns.runs) >= users else replace(turns, runs=turns.runs + turns.runs)


async def peek_fair_early(engine: Engine, real: Verb, classes: Any, after: Any, users: Any, each: Any, now: Any) -> Any:
    return await real(classes, after, users, each, now + 1)


async def standing_of_any_worker(engine: Engine, real: Verb, uid: Any, run_id: Any) -> Any:
    beat_at = max((worker.beat_at for worker in await engine.fleet.workers()), default=None)
    return replace(await real(uid, run_id), beat_at=beat_at)


async def ask_once(engine: Engine, real: Verb, worker_id: Any) -> Any:
    """To stop a run, however often its worker looks: the first answer may have been lost."""
    asked: set[Any] = vars(engine).setdefault("asked", set())
    fresh = tuple(one for one in await real(worker_id) if one not in asked)
    asked.update(fresh)
    return fresh


async def read_in_two_looks(engine: Engine, real: Verb, uid: Any, job_id: Any) -> Any:
    first = await real(uid, job_id)
    await asyncio.sleep(0)
    second = await real(uid, job_id)
    return second and replace(second, cursor=first.cursor)


async def tend_dead_letters_too(engine: Engine, real: Verb, now: Any, keep: Any) -> Any:
    old = [run.run_id for run in (await engine.lists.dead_letters(None)).items if (run.ended_at or now) < now - keep]
    await engine.history.discard(None, old)
    return await real(now, keep)


async def look_then_add_a_key(engine: Engine, real: Verb, key: Any) -> bool:
    if await engine.accounts.keys():
        return False
    await engine.accounts.add_key(key)
    return True


async def withdraw_whatever_waits(engine: Engine, real: Verb, withdrawals: Any, now: Any) -> Any:
    taken = await real(withdrawals, now)
    for one in withdrawals:
        answer = await engine.running.cancel(None, one.run_id, now) if one.run_id not in taken else None
        taken |= set(answer.stopped) if answer else set()
    return taken


# ------------------------------------------------------------------------------------------------------------ the table


# Time for others to act between looking at a lane and changing it: what is a race elsewhere is nearly certain here.
SLOW_TENDING = Statement("postgres.lanes", "tend", "run_id from change))", "run_id from change, pg_sleep(0.01)))")

MUTANTS = [
    Mutant(
        "who takes others along does not write down whom",
        "test_a_later_attempt_finds_what_went_along",
        {"running.gather": gather_in_two_commits},
        having={"how": "lost"},
    ),
    Mutant(
        "a message that was begun goes with another",
        "test_a_message_that_was_begun_goes_with_no_other",
        statements=(
            Statement("sqlite.running", "gather", "r.checkpoint is null and", ""),
            Statement("postgres.running", "gather", "checkpoint is null and", ""),
        ),
    ),
    Mutant(
        "a requeued message goes with another",
        "test_a_message_that_was_begun_goes_with_no_other",
        statements=(
            Statement("sqlite.running", "gather", " and r.parent is null", ""),
            Statement("postgres.running", "gather", " and parent is null", ""),
        ),
    ),
    Mutant(
        "an idempotency key stands for any body",
        "test_who_comes_first_with_a_key_gets_it_with_its_own_id",
        {"idempotency.reserve": reserve_whatever_the_body},
    ),
    Mutant(
        "after a refusal things are made with another id",
        "test_what_was_refused_may_come_with_another_body_and_gets_the_same_id",
        {"idempotency.reserve": reserve_anew_after_a_refusal},
    ),
    Mutant(
        "a key is not looked for in the generation before",
        "test_a_key_lasts_a_day_and_is_new_after_the_second_turn",
        statements=(
            Statement("sqlite.idempotency", "find_repeat", "from repeats_1", "from repeats_0"),
            Statement("postgres.idempotency", "take_repeats", "is null", "is distinct from g.made"),
        ),
        having={"reserving": True},
    ),
    Mutant(
        "a job's key is not looked for in the generation before",
        "test_a_key_lasts_a_day_and_is_new_after_the_second_turn",
        statements=(
            Statement("sqlite.idempotency", "find_repeat", "from repeats_1", "from repeats_0"),
            Statement("postgres.inserting", "create_keyed", "is null order", "is distinct from g.run_id order"),
        ),
        having={"reserving": False},
    ),
    Mutant(
        "the last answer is kept instead of the first",
        "test_the_first_answer_is_kept_for_those_who_repeat",
        statements=(
            Statement("sqlite.idempotency", "answer_repeat", "and answer is null", ""),
            Statement("postgres.idempotency", "answer_repeat", "and answer is null", ""),
        ),
    ),
    Mutant(
        "anybody's answer is kept",
        "test_an_answer_of_whoever_does_not_have_the_key_is_not_kept",
        statements=(
            Statement("sqlite.idempotency", "answer_repeat", "made = ?", "? is not null"),
            Statement("postgres.idempotency", "answer_repeat", "made = $4", "$4::uuid is not null"),
        ),
    ),
    Mutant(
        "a refusal opens a key that has its answer",
        "test_a_refusal_after_the_answer_changes_nothing",
        statements=(
            Statement("sqlite.idempotency", "open_repeat", "and answer is null", ""),
            Statement("postgres.idempotency", "open_repeat", "and answer is null", ""),
        ),
    ),
    Mutant(
        "an answer leaves the key open that another's refusal opened",
        "test_an_answer_after_the_refusal_of_another_belongs_to_its_body",
        statements=(
            Statement("sqlite.idempotency", "answer_repeat", "body_hash = ?", "body_hash = substr(?, 1, 0)"),
            Statement("postgres.idempotency", "answer_repeat", "body_hash = $3", "body_hash = substr($3::bytea, 1, 0)"),
        ),
    ),
    Mutant(
        "of those who come after a refusal all get the key",
        "test_of_many_who_come_after_a_refusal_one_body_gets_the_key",
        statements=(
            Statement("sqlite.idempotency", "reuse_repeat", "set body_hash = ?", "set body_hash = substr(?, 1, 0)"),
            Statement(
                "postgres.idempotency", "reuse_repeat", "set body_hash = $3", "set body_hash = substr($3::bytea, 1, 0)"
            ),
        ),
    ),
    Mutant(
        "both generations are emptied at once",
        "test_a_young_key_outlasts_the_turn_after_it_and_those_that_are_early",
        {"maintenance.maintain": tend_with_two_turns},
    ),
    Mutant(
        "settle matches on the run's id only",
        "test_an_older_token_has_lost_the_run",
        {"running.settle": settle_matching(worker=False, token=False)},
    ),
    Mutant(
        "settle does not compare tokens",
        "test_runs_with_different_tokens_settle_in_one_batch",
        {"running.settle": settle_matching(worker=True, token=False)},
    ),
    Mutant(
        "settle does not compare workers",
        "test_another_worker_cannot_settle_it",
        {"running.settle": settle_matching(worker=False, token=True)},
    ),
    Mutant(
        "a buried worker's late result is taken",
        "test_the_winners_result_stands",
        {"running.settle": settle_matching(worker=False, token=False)},
    ),
    Mutant("save is not fenced", "test_a_stale_attempt_saves_nothing", {"running.save": save_unfenced}),
    Mutant(
        "claim forgets to raise the token",
        "test_the_token_rises_with_every_claim",
        statements=(
            Statement("sqlite.running", "claim", "r.token + 1", "r.token"),
            Statement("postgres.running", "claim", "token + 1", "token"),
        ),
    ),
    Mutant(
        "the planner commits runs and cursor apart",
        "test_planners_an_editor_and_a_worker_at_once_miss_and_double_nothing",
        {"planning.plan": plan_in_two_commits},
        engines=("postgres",),  # SQLite has one writer, and it is never long enough between the two
        tries=5,
    ),
    Mutant(
        "the planner dies between two commits",
        "test_what_has_run_is_not_planned_again",
        {"planning.plan": partial(plan_in_two_commits, dies=True)},
    ),
    Mutant(
        "a worker declared dead can claim", "test_a_buried_worker_gets_nothing", {"running.claim": claim_for_anybody}
    ),
    Mutant(
        "a worker declared dead is told that it holds its runs",
        "test_a_buried_worker_holds_nothing",
        {"running.held_by": held_by_the_buried},
    ),
    Mutant(
        "what is held is shown without its job's definition",
        "test_what_is_held_is_shown_as_the_claim_gave_it",
        {"running.held_by": held_without_definition},
    ),
    Mutant(
        "what a worker is told it holds may be another's",
        "test_a_worker_is_told_what_it_holds",
        statements=(
            Statement("sqlite.running", "held_by", "where x.worker_id = ?2", "where true"),
            Statement("postgres.running", "held_by", "and worker_id = $2", ""),
        ),
    ),
    Mutant(
        "a claim takes runs after its deadline",
        "test_a_claim_that_arrives_after_its_deadline_takes_nothing",
        statements=(
            Statement("sqlite.running", "may_claim", "beat_at <= ?", "? is not null"),
            Statement("postgres.running", "claim", "beat_at <= $4", "$4::bigint is not null"),
        ),
    ),
    Mutant(
        "what a worker holds is told to every worker",
        "test_a_worker_is_told_all_that_it_holds_and_by_which_token",
        statements=(
            Statement("sqlite.running", "holdings", "where worker_id = ?1 and", "where"),
            Statement("postgres.running", "holdings", "where worker_id = $1 and", "where"),
        ),
    ),
    Mutant(
        "a worker declared dead is told all that it held",
        "test_who_is_not_registered_holds_nothing",
        statements=(
            Statement("sqlite.running", "holdings", "and exists", "and 1 or exists"),
            Statement("postgres.running", "holdings", "and exists", "and true or exists"),
        ),
    ),
    Mutant(
        "what is held is shown under its job's newest definition",
        "test_what_is_held_is_shown_as_the_claim_gave_it",
        statements=(
            Statement("sqlite.running", "held_by", "and j.version = r.job_version", ""),
            Statement("postgres.running", "definitions", "and j.version = t.version", ""),
        ),
    ),
    Mutant(
        "lanes are not locked while they are tended",
        "test_of_two_arrivals_at_once_the_earlier_is_admitted",
        statements=(
            Statement(
                "postgres.lanes",
                "tend_lock",
                "do update set width = coalesce(nullif(excluded.width, 0), lanes.width)",
                "do nothing",
            ),
            SLOW_TENDING,
        ),
        engines=("postgres",),
        tries=5,
    ),
    Mutant(
        "the head of a lane is not locked while it is tended",
        "test_an_earlier_arrival_or_the_claim_of_the_head_comes_first",
        statements=(Statement("postgres.lanes", "tend_members", "for update", ""), SLOW_TENDING),
        engines=("postgres",),
        tries=5,
    ),
    Mutant(
        "those running do not hold their place in a lane",
        "test_an_earlier_arrival_waits_for_a_running_head",
        statements=(
            Statement(
                "sqlite.lanes", "_LANE.inside", "or exists (select 1 from running x where x.run_id = r.run_id)", ""
            ),
            Statement("postgres.lanes", "tend", "- (select count(*) from running r where r.{lane} = l.lane)", ""),
        ),
    ),
    Mutant(
        "a retry loses its place in its lane",
        "test_a_retry_keeps_its_place",
        statements=(
            Statement("sqlite.lanes", "_LANE.inside", "r.failures + r.losses > 0 or ", ""),
            Statement("postgres.lanes", "tend", "and w.failures + w.losses > 0)) as free", "and false)) as free"),
        ),
        having={"lane": {"group": "g"}},
    ),
    Mutant(
        "an unclaimed head keeps its place though somebody earlier came",
        "test_an_earlier_arrival_goes_ahead_of_an_unclaimed_head",
        statements=(Statement("postgres.lanes", "tend", "w.run_id <> all(array(select run_id from first))", "false"),),
        engines=("postgres",),
    ),
    Mutant(
        "a pause holds nothing",
        "test_nothing_starts_while_a_job_is_paused",
        statements=(
            Statement("sqlite.following", "hold", "held | 4", "held | 0"),
            Statement("postgres.following", "hold", "held | $2::smallint", "held | ($2::smallint & 0)"),
        ),
    ),
    Mutant(
        "an edit does not notice that planning went on",
        "test_planning_meanwhile_refuses_an_edit",
        {"jobs.apply": apply_whatever_the_floor},
    ),
    Mutant(
        "an edit does not notice another edit",
        "test_of_two_edits_on_one_snapshot_the_first_counts",
        {"jobs.apply": apply_whatever_the_version},
    ),
    Mutant(
        "cancel answers before the claim in flight",
        "test_cancel_racing_claim_is_one_or_the_other",
        {"running.cancel": answer_before_cancelling},
        tries=5,
    ),
    Mutant("successes are counted twice", "test_counts_add_up", {"history.counters": count_twice}),
    Mutant(
        "expiry ends what has been tried",
        "test_what_runs_or_was_tried_does_not_expire",
        statements=(
            Statement("sqlite.running", "retry", "expires_at = null,", ""),
            Statement("sqlite.planning", "expired", "and token = 0", ""),
        ),
        engines=("sqlite",),  # in PostgreSQL what is tried again has no deadline left that could be looked at
    ),
    Mutant(
        "older time-zone rules go on planning beside newer ones",
        "test_two_kinds_of_rules_at_once_double_and_miss_nothing",
        statements=(
            Statement("sqlite.planning", "newer_rules", "version > ?1", "false"),
            Statement("postgres.planning", "rules_at_work", "where version > $1", "where false"),
        ),
        tries=5,
    ),
    Mutant(
        "newer time-zone rules are waited for for ever",
        "test_when_newer_rules_are_silent_for_long_the_older_take_over",
        statements=(
            Statement("sqlite.planning", "newer_rules", "abs(seen_at - ?2) <= ?3", "?2 + ?3 > 0"),
            Statement("postgres.planning", "rules_at_work", "and abs(seen_at - $2) <= $4", "and $4::bigint > 0"),
        ),
    ),
    Mutant(
        "what other time-zone rules computed stays until it is due",
        "test_an_occurrence_that_newer_rules_move_earlier_is_neither_late_nor_missed",
        statements=(
            Statement("sqlite.planning", "plan_take_others", "where j.status = 0", "where false"),
            Statement("postgres.planning", "plan_take", "$4 and rules < $3", "false and rules < $3"),
        ),
    ),
    Mutant(
        "handing back spends an attempt",
        "test_it_is_as_if_it_had_never_been_claimed",
        {"running.hand_back": hand_back_as_a_failure},
    ),
    Mutant(
        "another user's run can be read",
        "test_another_users_run_looks_like_none",
        {"history.run": for_any_user},
        having={"state": "succeeded"},
    ),
    Mutant(
        "another user's job can be cancelled",
        "test_another_users_recurring_job_looks_like_none",
        {"jobs.cancel": for_any_user},
    ),
    Mutant(
        "claims come a microsecond early", "test_nothing_is_claimed_before_its_instant", {"running.claim": claim_early}
    ),
    Mutant(
        "a paused queue is claimed from",
        "test_nothing_of_a_paused_queue_is_claimed",
        {"running.claim": claim_from_paused_queues},
    ),
    Mutant(
        "a worker that has beaten meanwhile is buried",
        "test_whoever_has_beaten_since_is_not_buried",
        {"fleet.expire_workers": bury_whoever_is_named},
        having={"step": 1},
    ),
    Mutant(
        "losses are not counted: a poison is immortal",
        "test_a_run_that_takes_three_workers_down_is_dead",
        {"running.recover_runs": reap_without_counting},
    ),
    Mutant(
        "a whole batch is stored one by one",
        "test_whole_stores_nothing_when_one_is_refused",
        {"jobs.create": create_one_by_one},
        having={"refused": Created.KEY_REUSED},
    ),
    Mutant(
        "a key with another body is taken for a repeat",
        "test_the_same_key_with_another_body_stores_nothing",
        {"jobs.create": create_whatever_the_body},
    ),
    Mutant(
        "the peek's window is closed at its beginning",
        "test_the_window_is_open_before_and_closed_at_its_end",
        {"running.peek": peek_from_a_little_before},
    ),
    Mutant("a worker is asked only once", "test_a_running_run_is_asked_to_stop", {"fleet.cancel_requests": ask_once}),
    Mutant(
        "a snapshot is read in two looks",
        "test_a_snapshot_is_from_one_moment",
        {"jobs.read": read_in_two_looks},
        tries=5,
    ),
    Mutant(
        "retention takes open dead letters",
        "test_open_letters_outlive_their_stretch_of_history",
        {"maintenance.maintain": tend_dead_letters_too},
    ),
    Mutant(
        "the first key is looked for, then added",
        "test_of_many_first_keys_at_once_one_is_taken",
        {"accounts.add_first_key": look_then_add_a_key},
        tries=5,
    ),
    Mutant(
        "what is no longer held is withdrawn",
        "test_what_is_no_longer_held_is_not_withdrawn",
        {"planning.withdraw": withdraw_whatever_waits},
    ),
    Mutant(
        "a fair peek ends with the last user",
        "test_after_the_last_user_comes_the_first",
        {"running.peek_fair": peek_fair_without_wrapping},
        having={"flood": 2},
    ),
    Mutant(
        "a fair peek gives one user two turns",
        "test_nobody_has_two_turns_in_one_round",
        statements=(Statement("postgres.running", "peek_fair", "where n.uid <> t.first and", "where"),),
        engines=("postgres",),
        having={"flood": 2},
    ),
    Mutant(
        "a fair peek shows runs twice",
        "test_nobody_has_two_turns_in_one_round",
        {"running.peek_fair": peek_fair_around_and_around},
        having={"flood": 2},
    ),
    Mutant(
        "a fair peek shows what is held",
        "test_only_what_could_be_claimed_is_seen_in_turn",
        statements=(
            Statement("sqlite.running", "peek_fair", "r.held = 0 and", ""),
            Statement("postgres.running", "peek_fair", "w.held = 0 and", ""),
        ),
        having={"flood": 2_500},
    ),
    Mutant(
        "a fair peek shows what runs",
        "test_only_what_could_be_claimed_is_seen_in_turn",
        statements=(Statement("sqlite.running", "peek_fair", "and not exists", "and true or exists"),),
        engines=("sqlite",),  # in PostgreSQL it is in another table
        having={"flood": 2_500},
    ),
    Mutant(
        "a fair peek shows the future",
        "test_the_future_is_not_peeked_at_in_turn",
        {"running.peek_fair": peek_fair_early},
    ),
    Mutant(
        "a fair peek shows retries before their time",
        "test_only_what_could_be_claimed_is_seen_in_turn",
        statements=(
            Statement("sqlite.running", "peek_fair", "and r.due <= ?2", "and ?2"),
            Statement("postgres.running", "peek_fair", "and w.due <= $5", ""),
        ),
        having={"flood": 2_500},
    ),
    Mutant(
        "who has nothing due takes a turn",
        "test_who_has_nothing_due_takes_nobodys_turn",
        statements=(Statement("postgres.running", "peek_fair", "t.late < $3", "t.seen < $3"),),
        engines=("postgres",),
        having={"flood": 2},
    ),
    Mutant(
        "another user's run can be explained",
        "test_another_users_run_stands_nowhere",
        {"history.standing": for_any_user},
    ),
    Mutant(
        "those in line before a run are not counted",
        "test_whoever_is_let_in_holds_the_others",
        statements=(
            Statement("sqlite.history", "standing_in_line", "(wanted, run_id) < (?2, ?3)", "?2 + ?3 is null"),
            Statement("postgres.history", "standing_in_lane", "order by wanted, run_id limit 10000", "limit 0"),
        ),
        having={"lane": {"group": "g"}},
    ),
    Mutant(
        "paused ones count as in line",
        "test_who_is_paused_stands_in_nobodys_way",
        statements=(
            Statement("sqlite.history", "standing_in_line", "{in_line}", "held > 0"),
            Statement("postgres.history", "standing_in_lane", "and held & {blocked} = 0", ""),
        ),
        having={"lane": {"group": "g"}},
    ),
    Mutant(
        "who is let in counts as in line",
        "test_a_wide_gate_has_several_holders",
        statements=(
            Statement("sqlite.history", "standing_in_line", "{in_line}", "held & 7 in (0, 2)"),
            Statement("postgres.history", "standing_in_lane", "held & {bit} = {bit} and held & {blocked} = 0 and", ""),
        ),
    ),
    Mutant(
        "those running are in nobody's way",
        "test_the_one_that_runs_is_in_the_way_whoever_is_first_in_line",
        statements=(
            Statement("sqlite.history", "standing_in_lane", "and r.run_id <> ?2", "and r.run_id < ?2 and r.token > 0"),
            Statement(
                "postgres.history",
                "standing_in_lane",
                "from running where {lane} = $1 order",
                "from running where false order",
            ),
        ),
        having={"lane": {"group": "g"}},
    ),
    Mutant(
        "places are among the runs of every class",
        "test_a_run_that_nothing_holds_has_a_place_among_those_of_its_class",
        statements=(
            Statement("sqlite.history", "standing_among_due", "class_id = ?1", "?1 > 0"),
            Statement("postgres.history", "standing_among_due", "class_id = $1", "$1::int > 0"),
        ),
    ),
    Mutant(
        "any worker's beat counts for a run",
        "test_a_running_run_stands_as_its_worker_does",
        {"history.standing": standing_of_any_worker},
    ),
    Mutant(
        "two schedulers grant one meter at once",
        "test_several_schedulers_together_grant_no_more_than_the_rate_allows",
        statements=(
            Statement("postgres.meters", "take_meters", "for update skip locked", ""),
            # Time for the other to look as well, before either has written.
            Statement("postgres.meters", "granted", "select m as meter,", "select m as meter, pg_sleep(0.01),"),
        ),
        engines=("postgres",),  # SQLite has one writer
        tries=5,
    ),
    Mutant(
        "starts that were granted are not counted",
        "test_starts_of_earlier_passes_count",
        statements=(
            Statement("sqlite.meters", "advance_meter", "given = ?5", "given = 0 * ?5"),
            Statement("postgres.meters", "advance_meters", "given = t.given", "given = 0"),
        ),
    ),
    Mutant(
        "starts that nobody makes use of are not taken back",
        "test_what_was_granted_while_no_worker_was_there_does_not_start_all_at_once",
        statements=(
            Statement("sqlite.meters", "unused", "g.at <= ?3", "g.at <= ?3 and false"),
            Statement("postgres.meters", "lapsed", "g.at <= $3", "g.at <= $3 and false"),
        ),
    ),
    Mutant(
        "starts that were made use of are taken back when the run waits again",
        "test_a_retry_is_no_start_that_was_not_made_use_of",
        statements=(
            Statement("sqlite.meters", "unused", "r.token = g.token", "true"),
            Statement("postgres.meters", "lapsed", "w.token = g.token", "true"),
            Statement("postgres.meters", "unused", "w.token = g.token", "true"),
        ),
    ),
    Mutant(
        "starts are forgotten while they count",
        "test_tending_forgets_no_start_that_still_counts",
        statements=(
            Statement("sqlite.meters", "forget_meters", "g.at > ?1 - meters.per", "g.at > ?1"),
            Statement("postgres.meters", "empty_meters", "g.at > $1 - m.per", "g.at > $1"),
        ),
    ),
    Mutant(
        "a paused run is granted a start",
        "test_what_is_paused_is_granted_no_start_until_it_is_resumed",
        statements=(
            Statement("sqlite.meters", "rated", "held = 8", "held & 8 = 8"),
            Statement("postgres.meters", "rated", "held = 8", "held & 8 = 8"),
        ),
    ),
    Mutant(
        "a retry does not wait for its rate",
        "test_a_retry_waits_for_its_rate_again",
        statements=(
            Statement("sqlite.running", "retry", "iif(meter is null, 0, ?8)", "0"),
            Statement(
                "postgres.running", "settle_again", "then 0 else $9::smallint end", "then 0 else 0 * $9::smallint end"
            ),
        ),
    ),
    Mutant(
        "what is handed back waits for its rate again",
        "test_what_is_handed_back_keeps_its_start",
        statements=(
            Statement("sqlite.running", "retry", "iif(meter is null, 0, ?8)", "iif(meter is null, 0, 8)"),
            Statement("postgres.running", "settle_again", "else $9::smallint end", "else 8 + 0 * $9::smallint end"),
        ),
    ),
    Mutant(
        "nobody looks at a meter again when a run is tried again",
        "test_a_retry_is_not_granted_before_its_instant",
        statements=(
            Statement("sqlite.running", "retry", "returning meter,", "returning null,"),
            Statement(
                "postgres.running", "settle_again", "returning run_id, meter,", "returning run_id, null as meter,"
            ),
        ),
    ),
    Mutant(
        "nobody looks at a meter again when a run is resumed",
        "test_what_is_paused_is_granted_no_start_until_it_is_resumed",
        statements=(
            Statement("sqlite.jobs", "release", "returning meter,", "returning null,"),
            Statement("postgres.jobs", "release", "returning run_id, meter,", "returning run_id, null as meter,"),
        ),
    ),
    Mutant(
        "nobody looks at a meter again when a resume releases what came to wait meanwhile",
        "test_a_retry_that_came_to_wait_while_a_resume_was_decided_is_granted_a_start",
        statements=(
            Statement("sqlite.jobs", "release", "returning meter,", "returning null,"),
            Statement("postgres.jobs", "release", "returning run_id, meter,", "returning run_id, null as meter,"),
        ),
    ),
    Mutant(
        "what came to wait while a pause was decided keeps its place",
        "test_what_was_handed_back_while_a_pause_was_decided_holds_up_nobody",
        statements=(
            Statement("sqlite.following", "members", "r.lane, r.gate", "null, null"),
            Statement("postgres.following", "walk", "where job_id = $1", "where false and job_id = $1"),
        ),
    ),
    Mutant(
        "nobody looks at a meter again when a run is let into its lane",
        "test_what_waits_for_others_is_granted_a_start_when_it_is_let_in",
        statements=(
            Statement("sqlite.lanes", "let_in", "returning meter,", "returning null,"),
            Statement("postgres.lanes", "tend", "w.gate, w.meter,", "w.gate, null as meter,"),
        ),
        having={"how": "lane"},
    ),
    Mutant(
        "a run that waits for its rate loses its place at its gate",
        "test_what_waits_for_its_rate_holds_its_place",
        statements=(
            Statement("sqlite.lanes", "_GATE.inside", "r.held & 7 in (0, 4)", "r.held in (0, 4)"),
            Statement(
                "postgres.lanes", "tend", "= 0 and w.held & {blocked} = 0", "= 0 and w.held & ({blocked} | 8) = 0"
            ),
        ),
        having={"how": "gate"},
    ),
    Mutant(
        "a meter is forgotten under a run that runs",
        "test_tending_forgets_no_meter_of_a_run_that_runs",
        statements=(
            Statement(
                "postgres.meters",
                "forget_empty_meters",
                "and (select run_id from running r where r.meter = m.meter limit 1) is null",
                "",
            ),
            Statement(
                "postgres.meters",
                "empty_meters",
                "and (select run_id from running r where r.meter = m.meter limit 1) is null",
                "",
            ),
        ),
        engines=("postgres",),  # in SQLite what runs is where what waits is
    ),
    Mutant(
        "what has expired is granted a start",
        "test_what_has_expired_takes_no_start_from_others",
        statements=(
            Statement("sqlite.meters", "rated", "expires_at >= ?3", "?3 > 0"),
            Statement("postgres.meters", "rated", "expires_at >= $4", "$4::bigint > 0"),
        ),
    ),
    Mutant(
        "the oldest definition decides how fast a meter is",
        "test_the_newest_definition_decides_how_fast",
        statements=(
            Statement("sqlite.meters", "put_meter", "set starts = ?2, per = ?3,", "set"),
            Statement("postgres.meters", "put_meters", "nullif(excluded.starts, 0)", "meters.starts"),
        ),
    ),
    Mutant(
        "a turn is taken by everybody who asks",
        "test_of_many_who_come_at_once_one_gets_the_turn",
        statements=(
            Statement("sqlite.maintenance", "take_turn", "turns.next_at <= ?2 or", "true or"),
            Statement("postgres.maintenance", "take_turn", "t.next_at <= $2 or", "true or"),
        ),
    ),
    Mutant(
        "a turn waits for a clock that was set back",
        "test_turns_go_on_when_the_clock_was_set_back",
        statements=(
            Statement("sqlite.maintenance", "take_turn", "or turns.next_at > ?2 + ?3", ""),
            Statement("postgres.maintenance", "take_turn", "or t.next_at > $2 + $3", ""),
        ),
    ),
    Mutant(
        "who comes late with a turn moves it back",
        "test_who_comes_too_late_with_a_turn_moves_nothing",
        statements=(
            Statement("sqlite.maintenance", "finish_turn", "and position = ?2", "and ?2 is not null"),
            Statement("postgres.maintenance", "finish_turn", "and position = $2", "and $2::bytea is not null"),
        ),
    ),
    Mutant(
        "a finding that is seen again counts as new",
        "test_a_finding_is_reported_once_and_keeps_when_it_was_first_seen",
        statements=(
            Statement("sqlite.auditing", "record_finding", "iif(cleared_at is null,", "iif(false,"),
            Statement("postgres.auditing", "record_findings", "when f.cleared_at is null", "when false"),
        ),
    ),
    Mutant(
        "a finding that was cleared stays so",
        "test_what_holds_again_is_cleared_once_and_open_again_when_it_is_found_again",
        statements=(
            Statement("sqlite.auditing", "record_finding", ", cleared_at = null", ""),
            Statement("postgres.auditing", "record_findings", ", cleared_at = null", ""),
        ),
    ),
    Mutant(
        "open findings are forgotten before others",
        "test_the_newest_thousand_findings_stay_open_ones_before_others",
        statements=(
            Statement("sqlite.auditing", "forget_findings", "cleared_at is not null, ", ""),
            Statement("postgres.auditing", "forget_findings", "cleared_at is not null, ", ""),
        ),
    ),
    Mutant(
        "the audit finds what runs among what should have expired",
        "test_the_first_run_that_should_have_expired_is_told",
        statements=(
            Statement("sqlite.auditing", "unexpired", "and not exists", "and true or exists"),
            Statement("postgres.auditing", "unexpired", "and token = 0", "or token > 0"),
        ),
    ),
    Mutant(
        "a stretch is found only if all of it is in the window",
        "test_stretches_of_the_ledger_are_found_by_what_they_overlap",
        statements=(
            Statement(
                "sqlite.auditing", "stretches", "last_at >= ?2 and first_at <= ?3", "first_at >= ?2 and last_at <= ?3"
            ),
            Statement(
                "postgres.auditing", "stretches", "last_at >= $2 and first_at <= $3", "first_at >= $2 and last_at <= $3"
            ),
        ),
    ),
    Mutant(
        "a paused run counts as held",
        "test_runs_that_are_held_past_their_instant_are_told_longest_first",
        statements=(
            Statement("sqlite.auditing", "longest_held", "and w.held & 4 = 0", ""),
            Statement("postgres.auditing", "longest_held", "and w.held & 4 = 0", ""),
        ),
    ),
    Mutant(
        "what a lane holds counts as due",
        "test_queues_tell_what_is_open_what_is_due_and_since_when",
        statements=(
            Statement("sqlite.gauges", "count_due", "and held = 0", ""),
            Statement("postgres.gauges", "count_due", "and held = 0", ""),
        ),
    ),
    Mutant(
        "what runs counts as due",
        "test_queues_tell_what_is_open_what_is_due_and_since_when",
        statements=(Statement("sqlite.gauges", "count_due", "and not exists", "or exists"),),
        engines=("sqlite",),  # in PostgreSQL what runs is elsewhere
    ),
    Mutant(
        "what was folded is not counted",
        "test_counts_are_summed_by_task_over_users_and_classes",
        statements=(Statement("postgres.gauges", "counts_by_task", "from totals", "from totals where false"),),
        engines=("postgres",),
    ),
    Mutant(
        "who is let in as it is stored counts as held up until then",
        "test_occurrences_that_were_planned_late_are_late",
        statements=(
            Statement("sqlite.lanes", "let_in", "iif(free_at = -?3, free_at, ?3)", "?3"),
            Statement("postgres.lanes", "tend", "case when w.free_at = -$2::bigint then w.free_at else $2 end", "$2"),
        ),
    ),
    Mutant(
        "who is let in later counts as late from when it was wanted",
        "test_who_waits_for_another_could_start_when_that_ended",
        statements=(
            Statement("sqlite.lanes", "let_in", "iif(free_at = -?3, free_at, ?3)", "null + ?3"),
            Statement("postgres.lanes", "tend", "then w.free_at else $2 end", "then w.free_at else w.free_at end"),
        ),
        having={"lanes": {"group": "g"}},
    ),
    Mutant(
        "a dead letter that is discarded is not counted",
        "test_open_dead_letters_are_those_that_neither_went_nor_came_back",
        statements=(Statement("postgres.history", "discard", "'discarded', count(*)", "'discarded', 0"),),
        engines=("postgres",),
    ),
    Mutant(
        "the series of all classes is kept as that of one",
        "test_counts_are_told_by_the_minute",
        statements=(
            Statement(
                "sqlite.counting", "fold", "iif(a.everything, 0, t.class_id)", "iif(a.everything, -1, t.class_id)"
            ),
            Statement("postgres.maintenance", "roll_up", "coalesce(class_id, 0)", "coalesce(class_id, -1)"),
        ),
    ),
    Mutant(
        "hours that were minutes replace those that are there",
        "test_minutes_become_hours_and_hours_go",
        statements=(
            Statement("sqlite.maintenance", "thin_series", "n = n + excluded.n", "n = excluded.n"),
            Statement("postgres.maintenance", "thin_series", "n = series_hours.n + excluded.n", "n = excluded.n"),
        ),
    ),
]
