"""What the docs promise, held against what a story has left behind. Each rule returns what breaks it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

from tests.harness.clients import Call, Seen, wanted
from tests.harness.evidence import Evidence, Span
from tests.harness.plan import BACKOFF, SPLAY, Json, Wish
from tests.processes.fleet import FINAL, moment

EXACT = 0.002  # seconds: instants are shown in milliseconds
ABOUT = 0.02  # a length of time by a clock that follows another one
EXCLUSIVE = ("queue", "skip", "replace")  # kinds of recurring jobs whose runs exclude each other


class Violation(NamedTuple):
    rule: str
    words: str
    runs: tuple[str, ...] = ()
    job: str | None = None

    def __str__(self) -> str:
        return f"{self.rule}: {self.words}"


class Facts:
    """The evidence, arranged for looking things up."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.known = evidence.known
        self.runs = evidence.runs
        self.wish_of: dict[str, int] = {job: number for number, job in evidence.known.job_ids.items()}
        self.spans_of: dict[str, list[Span]] = defaultdict(list)
        for span in evidence.spans:
            self.spans_of[span.run].append(span)
        self.runs_of: dict[str, list[Json]] = defaultdict(list)
        for run in evidence.runs.values():
            self.runs_of[run["job_id"]].append(run)

    def wish(self, job: str) -> Wish | None:
        number = self.wish_of.get(job)
        return None if number is None else self.known.wishes[number]

    def calls(self, job: str, verb: str) -> list[Call]:
        """Those that were answered well."""
        calls = self.known.calls.get(self.wish_of.get(job, -1), ())
        return [call for call in calls if call.act.verb == verb and 200 <= call.status < 300]

    def was_suspended(self, span: Span, since: float, until: float) -> bool:
        """Whether its process was stopped in between, or had just been woken: then it cannot know what time it is."""
        return any(span.pid in one.pids and one.since < until and since < one.until for one in self.evidence.suspended)

    def outcome_of(self, span: Span) -> str:
        """How its run's record says that the attempt ended."""
        run = self.runs.get(span.run) or {}
        found = [one["outcome"] for one in run.get("attempts", ()) if one["number"] == span.attempt]
        return found[-1] if found else ""


Rule = Callable[[Facts], Iterator[Violation]]


# ----------------------------------------------------------------------------------------------------- when they start


def never_early(facts: Facts) -> Iterator[Violation]:
    """No task starts before the instant that its client asked for, or that its schedule names."""
    for span in facts.evidence.spans:
        if span.start < span.due - EXACT:
            yield Violation("never early", f"{span.due - span.start:.3f} s too early: {span}", (span.run,))
        wish = facts.wish(span.job)
        if wish is not None and wish.schedule is None:
            at = asked_for(facts, span.job, wish)
            if at is not None and span.start < at - EXACT:
                yield Violation("never early", f"asked for {at:.3f}, {span}", (span.run,))


def asked_for(facts: Facts, job: str, wish: Wish) -> float | None:
    """The earliest instant that its client can have meant."""
    created = facts.calls(job, "create")
    if not created:
        return None
    return wanted(facts.known, created[0].act, wish) if wish.after is None else created[0].sent + wish.after


def at_least_once(facts: Facts) -> Iterator[Violation]:
    """Every acknowledged job came to its end, and to the end that it asked for."""
    for run in facts.evidence.left:
        yield Violation("at least once", f"still {run['status']} long after the end", (run["run_id"],))
    for number, job in facts.known.job_ids.items():
        wish = facts.known.wishes[number]
        if wish.schedule is None and job not in facts.runs:
            yield Violation("at least once", f"job {number} was acknowledged, and its run is gone", (job,), job)
    for run in facts.runs.values():
        wish = facts.wish(run["job_id"])
        if wish is not None and (wrong := wrong_end(facts, run, wish)):
            yield Violation("at least once", wrong, (run["run_id"],), run["job_id"])


def wrong_end(facts: Facts, run: Json, wish: Wish) -> str:
    spans = facts.spans_of[run["run_id"]]
    losses = sum(one["outcome"] == "lost" for one in run["attempts"])
    match run["status"]:
        case "succeeded":
            returned = any(span.how == "returned" for span in spans)
            return "" if returned else "succeeded, and its task never came to its end"
        case "dead":
            slow = wish.kind == "times out"  # its time may be over before its process has started
            well = (wish.dies and spans) or slow or losses >= 3
            return "" if well else f"dead: {run['error_type']}, {losses} losses, {len(spans)} starts"
        case "expired":
            return "" if wish.kind == "expires" and not spans else f"expired, after {len(spans)} starts"
        case "cancelled":
            stopped = facts.calls(run["job_id"], "cancel") or facts.calls(run["job_id"], "cancel run")
            replaced = wish.fields.get("overlap") == "replace"
            return "" if stopped or replaced or unanswered(facts, run["job_id"]) else "cancelled, and nobody asked"
    return ""


def unanswered(facts: Facts, job: str) -> bool:
    calls = facts.known.calls.get(facts.wish_of[job], ())
    return any(call.act.verb.startswith("cancel") and (not call.status or call.tries > 1) for call in calls)


# ------------------------------------------------------------------------------------------------------ who is alone


def exclusion(facts: Facts) -> Iterator[Violation]:
    """A group, a concurrency key and a job that does not allow overlap have no more at work than they may."""
    lanes: dict[tuple[str, int], list[Span]] = defaultdict(list)
    for span in facts.evidence.spans:
        wish = facts.wish(span.job)
        if wish is not None and wish.lane is not None:
            lanes[wish.lane].append(span)
        elif wish is not None and wish.kind in EXCLUSIVE:
            lanes[f"overlap {wish.kind} of job {facts.wish_of[span.job]}", 1].append(span)
    for (name, limit), spans in lanes.items():
        for number, span in enumerate(spans):
            at_work = [one for one in spans[:number] if one.last > span.start and one.run != span.run]
            at_work = [one for one in at_work if not excused(facts, one, span)]
            if len(at_work) >= limit:
                others = "; ".join(map(str, at_work))
                runs = (span.run, *(one.run for one in at_work))
                yield Violation("exclusion", f"{name}, limit {limit}: {span} started during {others}", runs, span.job)


def excused(facts: Facts, before: Span, after: Span) -> bool:
    """A worker that is cut off ends before its lease does; only one that was suspended cannot."""
    return facts.was_suspended(before, before.start, after.start)


def attempts_apart(facts: Facts) -> Iterator[Violation]:
    """Two attempts of one run are never at work at the same time, and a second one has a reason."""
    for run, spans in facts.spans_of.items():
        for before, after in combinations(spans, 2):
            if before.last > after.start and not excused(facts, before, after):
                yield Violation("attempts apart", f"{after} started during {before}", (run,))
        for before, after in pairwise(spans):
            wrong = no_reason(facts, before, after)
            if wrong and not facts.was_suspended(before, before.start, after.start):
                yield Violation("attempts apart", wrong, (run,))


def no_reason(facts: Facts, before: Span, after: Span) -> str:
    outcome = facts.outcome_of(before)
    if before.how == "returned" and outcome not in ("lost", "timed_out"):
        return f"it had returned, and started again: {before}, then {after}; the record says {outcome or 'nothing'}"
    if before.how == "failed" and outcome == "failed" and after.start - before.last < BACKOFF - ABOUT:
        return f"it started again {after.start - before.last:.3f} s after its failure: {before}, then {after}"
    if after.attempt < before.attempt:
        return f"numbers of attempts went back: {before}, then {after}"
    return ""


# ------------------------------------------------------------------------------------------------------ what is final


def final_is_final(facts: Facts) -> Iterator[Violation]:
    """What a client has seen as the end of a run stays, and nothing of it starts afterwards."""
    for run, seen in facts.known.seen.items():
        ended: Seen | None = None
        for one in seen:
            if ended is not None and one.status != ended.status and one.asked > ended.answered:
                words = f"seen as {ended.status} at {ended.answered:.3f}, as {one.status} at {one.asked:.3f}"
                yield Violation("final is final", words, (run,))
            if one.status in FINAL and ended is None:
                ended = one
        if ended is None:
            continue
        now = facts.runs.get(run)
        if now is not None and now["status"] != ended.status:
            yield Violation("final is final", f"seen as {ended.status}, {now['status']} in the end", (run,))
        for span in facts.spans_of[run]:
            if span.start > ended.answered and not facts.was_suspended(span, ended.answered - 60, span.start):
                words = f"seen as {ended.status} at {ended.answered:.3f}, and then {span}"
                yield Violation("final is final", words, (run,))


def no_start_after_cancelled(facts: Facts) -> Iterator[Violation]:
    """After the answer to a cancel nothing of the job starts; while it is paused nothing of its schedule."""
    for span in facts.evidence.spans:
        for call in (*facts.calls(span.job, "cancel"), *facts.calls(span.job, "cancel run")):
            final = call.act.verb == "cancel run" and call.answer["status"] == "cancelled"
            if starts_late(facts, span, call.answered, active_may=not final):
                words = f"cancelled at {call.answered:.3f} ({call.answer.get('status')}), and then {span}"
                yield Violation("no start after cancelled", words, (span.run,), span.job)
        for paused in facts.calls(span.job, "pause"):
            resumed = [one.sent for one in facts.calls(span.job, "resume")]
            over = min(resumed, default=float("inf"))
            by_hand = {call.answer["run_id"] for call in facts.calls(span.job, "run now")}
            if span.start < over and span.run not in by_hand and starts_late(facts, span, paused.answered):
                words = f"paused at {paused.answered:.3f}, and then {span}"
                yield Violation("no start after paused", words, (span.run,), span.job)


def starts_late(facts: Facts, span: Span, since: float, *, active_may: bool = True) -> bool:
    """Whether it started after this. `active_may`: not if its worker had taken it before, and so the run was active."""
    if span.start <= since or facts.was_suspended(span, since - 60, span.start):
        return False
    if not active_may:
        return True
    run = facts.runs.get(span.run) or {}
    taken = [one["start_time"] for one in run.get("attempts", ()) if one["number"] == span.attempt]
    taken += [run["start_time"]] if run.get("start_time") and run.get("attempt_number") == span.attempt else []
    return not any(at and moment(at) <= since for at in taken)


# -------------------------------------------------------------------------------------------------------- occurrences


def each_occurrence_once(facts: Facts) -> Iterator[Violation]:
    """Each instant of each schedule is a run or in the occurrence history, exactly one of them.

    On a slow machine a job may be made after its first instants, which it then does not have.
    """
    for number, wish in enumerate(facts.known.wishes):
        job = facts.known.job_ids.get(number)
        if wish.schedule is None or job is None:
            continue
        by_hand = {call.answer["run_id"] for call in facts.calls(job, "run now")}
        planned = [round(moment(run["scheduled_for"]), 3) for run in facts.runs_of[job] if run["run_id"] not in by_hand]
        instants = instants_of(facts, wish)
        entries = facts.evidence.untold[job]
        told = [at for one in entries for at in instants if one.first - EXACT < at < one.last + EXACT]
        counts = sum(one.count for one in entries)
        if counts != len(told):
            yield Violation("occurrences", f"job {number}: entries count {counts}, and cover {len(told)}", job=job)
        found = Counter([*planned, *told])
        asked = min((call.sent for call in facts.known.calls[number] if call.act.verb == "cancel"), default=math.inf)
        made = max(call.answered for call in facts.known.calls[number] if call.act.verb == "create")
        for at in sorted(at for at in instants - found.keys() if made < at < asked):
            yield Violation("occurrences", f"job {number} ({wish.kind}): nothing says what became of {at}", job=job)
        for at, times in sorted(found.items()):
            if times > 1 or at not in instants:
                yield Violation("occurrences", f"job {number} ({wish.kind}): {times} times {at}", job=job)


def instants_of(facts: Facts, wish: Wish) -> set[float]:
    """By an oracle of its own: the schedules are of whole seconds."""
    assert wish.schedule is not None
    began, ends = facts.known.began, facts.known.ends
    if "cron" in wish.schedule:
        return {began + n for n in range(1, int(ends - began) + 1)}
    step = int(wish.schedule["every"].rstrip("s"))
    first = began + SPLAY
    return {round(first + n, 3) for n in range(step, int(ends - first) + 1, step)}


# ------------------------------------------------------------------------------------------------------------- notices


def notices_arrive(facts: Facts) -> Iterator[Violation]:
    """Whoever asked to be told is told of every such run; a message stays what it is, and a notice is in one only."""
    wanted = {run["run_id"] for run in facts.runs.values() if is_told(facts, run)}
    bodies: dict[str, set[str]] = defaultdict(set)
    messages: dict[str, set[str]] = defaultdict(set)
    notices: dict[str, set[str]] = defaultdict(set)
    for post in facts.evidence.posts:
        bodies[post.message].add(repr(post.body))
        for notice in notices_in(post.body):
            messages[notice["notice_id"]].add(post.message)
            notices[notice["run_id"]].add(notice["notice_id"])
    for run in sorted(wanted - notices.keys()):
        yield Violation("notices", "nobody was told of a run that died", (run,))
    for run in sorted(notices.keys() - wanted):
        yield Violation("notices", "somebody was told of a run that did not die", (run,))
    for what, times, found in (
        ("message", "contents", bodies),
        ("notice", "messages", messages),
        ("run", "ids", notices),
    ):
        for one, several in found.items():
            if len(several) > 1:
                yield Violation("notices", f"{what} {one} has {len(several)} {times}: {sorted(several)}"[:2_000])


def notices_in(body: Json) -> list[Json]:
    digest: list[Json] | None = body["data"].get("notices")
    return [body["data"]] if digest is None else digest


def is_told(facts: Facts, run: Json) -> bool:
    wish = facts.wish(run["job_id"])
    return wish is not None and wish.notify is not None and run["status"] in ("dead", "expired")


def nothing_alarming(facts: Facts) -> Iterator[Violation]:
    """No process ended by itself, the self-audit is silent, and no log has what it never should."""
    for one in facts.evidence.wrong:
        yield Violation("all is quiet", one)


RULES: tuple[Rule, ...] = (
    never_early,
    at_least_once,
    exclusion,
    attempts_apart,
    final_is_final,
    no_start_after_cancelled,
    each_occurrence_once,
    notices_arrive,
    nothing_alarming,
)


def judge(evidence: Evidence) -> list[Violation]:
    facts = Facts(evidence)
    return [violation for rule in RULES for violation in rule(facts)]
