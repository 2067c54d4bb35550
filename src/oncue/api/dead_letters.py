"""Calls on dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from oncue.api import views
from oncue.api.errors import fingerprint
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import as_uuid, read_job_id, read_object
from oncue.api.listing import filled_page, instant, page, wanted_page, whose, window
from oncue.api.shared.checking import Checking
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import idempotent
from oncue.api.shared.outcome import Changed, Interrupted, Line, Outcome, unchanged
from oncue.api.shared.payloads import REPLACING, Replacement, read_replacement, replaced
from oncue.domain.errors import Forbidden, Invalid, Problem, inside
from oncue.domain.fields import Reader, choice, object_of, object_schema, read_fields, schema_of, takes, text
from oncue.domain.ids import NOTICES, RunId, UserNumber, derived_id
from oncue.domain.instants import MILLISECOND, Duration, Instant
from oncue.domain.placement import SYSTEM_QUEUE, ClassKey
from oncue.domain.rerun import again, definition
from oncue.domain.run import NewRun, RunView, State
from oncue.engines.port import Page

MOST_AT_ONCE = 1_000  # ids in one request
READ_TOGETHER = 16  # concurrent reads
ONE_PASS = 100  # dead letters, each with its payload
LARGEST = 64 * 1024 * 1024  # bytes of all payloads of a requeue by ids, which is one transaction
TURN = Duration(5 * MILLISECOND)  # other requests wait at most this long while payloads are checked
LONGEST = 200  # characters of a filter: every name is shorter

Letter = tuple[RunView, ClassKey]
Fits = Callable[[Letter], bool]


class Chosen(msgspec.Struct, frozen=True):
    """The dead letters with these ids, or, without ids, all that match the filter; `uid`: of this user."""

    run_ids: list[RunId] | None
    filter: dict[str, Any]
    uid: UserNumber | None
    fits: Fits
    new: Replacement | None = None
    fingerprint: int | None = None


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller, LISTED)
    fits, kind = _fitting(wanted.filters), wanted.filters.get("fingerprint")
    uid = await whose(api, caller, wanted.filters)
    found = await filled_page(
        lambda limit, after: _letters(api, uid, limit, after, kind), wanted, fits, lambda letter: letter[0].ended_at
    )
    runs = [run for run, _ in found.items]
    known, now = await api.known_of(*runs), api.clock.now()
    kinds = await api.engine.errors.fingerprints([run.run_id for run in runs])

    def shown(letter: Letter) -> views.ShownLetter:
        return views.dead_letter(letter[0], known, now, kinds.get(letter[0].run_id))

    return answer(page("dead_letters", found, shown, wanted))


async def requeue(api: Api, request: Request, caller: Caller) -> Outcome:
    """Create a new run for each of these that is still a dead letter of the caller; skip the others.

    With a payload, or a patch of each one's own: letters that it does not fit are listed, and stay.
    """
    raw = await read_object(request, api.largest_job)
    chosen = await _chosen(raw, api, caller)

    async def make(made: UUID) -> Outcome:
        progress = Progress(chosen)
        with progress.told_if_cut():
            new = await _requeue(api, caller, chosen, made, progress)
        told = {"count": len(new), "run_ids": sorted(new), "refused": progress.refused[:MOST_AT_ONCE]}
        return progress.outcome(answer(told, HTTPStatus.ACCEPTED))

    return await idempotent(api, request, caller, raw, make)


async def discard(api: Api, request: Request, caller: Caller) -> Outcome:
    """Discard these dead letters; their runs stay in the history. Skip those that are not the caller's dead letters."""
    raw = await read_object(request)
    if unknown := raw.keys() & REPLACING.keys():
        raise Invalid.of(min(unknown), "unknown_field", "is not a field of this call; requeue takes it")
    chosen = await _chosen(raw, api, caller)
    progress = Progress(chosen, Changed(caller.uid))
    with progress.told_if_cut():
        if chosen.run_ids is not None:
            progress.count = len(await api.engine.history.discard(caller.sees, chosen.run_ids))
        else:
            async for letters in _passes(api, chosen, caller):
                progress.count += len(await api.engine.history.discard(caller.sees, [run.run_id for run in letters]))
    return progress.outcome(answer({"count": progress.count}))


async def _requeue(api: Api, caller: Caller, chosen: Chosen, first: UUID, progress: Progress) -> set[RunId]:
    """Return the new runs, also those the same request created before, or creates now, if their letters are found."""
    made: set[RunId] = set()
    async for letters in _passes(api, chosen, caller):
        now = api.clock.now()
        new = await _followers(api, caller, chosen, letters, first, progress)
        made |= await api.engine.history.requeue(new, now, api.quota_of_runs(caller))
        progress.count = len(made)
        progress.changed |= dict.fromkeys(Changed(run.uid) for run in letters)
        made |= {run.run_id for run in await _read(api, [one.run_id for one in new if one.run_id not in made], caller)}
        progress.count = len(made)
        await api.hint_runs(now)
    return made


async def _followers(
    api: Api, caller: Caller, chosen: Chosen, letters: list[RunView], first: UUID, progress: Progress
) -> list[NewRun]:
    """Build the new runs. A letter that its new payload does not fit is noted as refused."""
    found: list[NewRun] = []
    size, rested = 0, api.clock.monotonic()
    for run in letters:
        if api.clock.monotonic() - rested > TURN:
            await asyncio.sleep(0)
            rested = api.clock.monotonic()
        try:
            new = await followed(api, caller, run, _follower(run, first), chosen.new)
        except (Invalid, Forbidden) as wrong:
            problems = wrong.problems if isinstance(wrong, Invalid) else (Problem("payload", "forbidden", str(wrong)),)
            progress.refused.append({"run_id": run.run_id, "errors": problems})
        else:
            found.append(new)
            size += len(new.payload or b"")
            if chosen.run_ids is not None:
                _refuse_too_much(size)
    return found


def _refuse_too_much(size: int) -> None:
    if size > LARGEST:
        message = f"have payloads of more than {LARGEST:,} bytes together; name fewer, or use a filter"
        raise Invalid.of("run_ids", "too_large", message)


class Progress:
    """The progress of a call that changes many dead letters in several transactions, the next of which may fail."""

    def __init__(self, chosen: Chosen, *changed: Changed) -> None:
        self._which = {"filter": chosen.filter} if chosen.run_ids is None else {"run_ids": chosen.run_ids}
        self.changed = dict.fromkeys(changed)
        self.count = 0
        self.refused: list[dict[str, Any]] = []

    @contextmanager
    def told_if_cut(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise Interrupted(error, tuple(self.changed) if self.count else (), self._line()) from error

    def outcome(self, answer: Response) -> Outcome:
        return Outcome(answer, tuple(self.changed), self._line()) if self.count else unchanged(answer)

    def _line(self) -> Line:
        return Line({"count": self.count, **self._which})


def _follower(run: RunView, first: UUID) -> RunId:
    """The id of the run that follows a dead letter. Ids sort by the ends of the letters: one request's stay close."""
    assert run.ended_at is not None, "a dead run has ended"
    return RunId(derived_id(first, run.run_id, run.ended_at))


async def followed(api: Checking, caller: Caller, run: RunView, run_id: RunId, new: Replacement | None) -> NewRun:
    """Build the run that follows an ended one. A payload of its own is checked and, if large, put into storage."""
    own = None
    if new is not None:
        own = await replaced(api, caller, definition(run), run.payload, new, run.uid)
        await api.large.save((run.job_id, run.uid, own[1]))
    return again(run, run_id, api.clock.now(), own)


async def _passes(api: Api, chosen: Chosen, caller: Caller) -> AsyncIterator[list[RunView]]:
    """Yield the chosen letters in batches, never an empty one. Letters that arrive meanwhile are newer and excluded."""
    if chosen.run_ids is not None:
        letters = list[RunView]()
        for start in range(0, len(chosen.run_ids), ONE_PASS):
            some = await _read(api, chosen.run_ids[start : start + ONE_PASS], caller)
            letters += [run for run in some if run.state is State.DEAD]
            _refuse_too_much(sum(len(run.payload or b"") for run in letters))
        if letters:
            yield letters
        return
    after, more = None, True
    while more:
        found = await _letters(api, chosen.uid, ONE_PASS, after, chosen.fingerprint)
        fitting = [letter[0] for letter in found.items if chosen.fits(letter)]
        if fitting:
            yield fitting
        after, more = found.next, found.next is not None


async def _letters(
    api: Api, uid: UserNumber | None, limit: int, after: str | None, kind: int | None = None
) -> Page[Letter]:
    found = await api.engine.lists.dead_letters(uid, limit, after, fingerprint=kind)
    classes = await api.classes_of(*found.items)
    return Page(tuple((run, classes[run.class_id]) for run in found.items), found.next)


async def _read(api: Api, run_ids: list[RunId], caller: Caller) -> list[RunView]:
    found: list[RunView | None] = []
    for start in range(0, len(run_ids), READ_TOGETHER):
        together = run_ids[start : start + READ_TOGETHER]
        found += await asyncio.gather(*(api.engine.history.run(caller.sees, run_id) for run_id in together))
    return [run for run in found if run is not None]


async def _chosen(raw: dict[str, Any], api: Api, caller: Caller) -> Chosen:
    problems: list[Problem] = []
    found = read_fields(raw, REQUEUED, problems)
    new = read_replacement(api, found, problems)
    if new is not None and new.payload is not None and len(found.get("run_ids", ())) != 1:
        message = "is for one run: name it in run_ids. To change a part of many, send payload_patch"
        problems.append(Problem("payload", "too_many", message))
    if ("run_ids" in raw) == ("filter" in raw):
        message = 'say which ones: either run_ids, a list, or a filter, like {"task": "hello"}; {} stands for all'
        problems.append(Problem("run_ids", "required", message))
    if problems:
        raise Invalid(*problems)
    fitting: dict[str, Any] = found.get("filter", {})
    uid = await whose(api, caller, fitting)
    return Chosen(found.get("run_ids"), raw.get("filter", {}), uid, _fitting(fitting), new, fitting.get("fingerprint"))


@takes(type="array", items={"type": "string", "format": "uuid"}, minItems=1, maxItems=MOST_AT_ONCE)
def _ids(raw: Any, path: str) -> list[RunId]:
    if not isinstance(raw, list) or not 1 <= len(raw) <= MOST_AT_ONCE:
        raise Invalid.of(path, "wrong_type", f"is a list of 1 to {MOST_AT_ONCE} ids of runs")
    found = [as_uuid(one) if isinstance(one, str) else None for one in raw]
    if None in found:
        raise Invalid.of(f"{path}.{found.index(None)}", "bad_id", "is not the id of a run")
    return list(dict.fromkeys(RunId(one) for one in found if one is not None))


def _fitting(filters: Mapping[str, Any]) -> Fits:
    """Whether a dead letter matches the filter. Times are `wanted` times, as in other lists of runs."""
    start, end = window(filters)
    job_id, task, queue = (filters.get(name) for name in ("job_id", "task", "queue"))
    system = filters.get("system", False) or queue == SYSTEM_QUEUE

    def fits(letter: Letter) -> bool:
        run, key = letter
        return (
            (run.job_id != NOTICES or system)
            and job_id in (None, run.job_id)
            and task in (None, key.task)
            and queue in (None, key.queue)
            and (start is None or start <= run.wanted)
            and (end is None or run.wanted < end)
        )

    return fits


@takes(**schema_of(instant))
def instant_in_body(raw: Any, path: str) -> Instant:
    return instant(text(LONGEST)(raw, path), path)


FILTERS: Mapping[str, Reader] = {
    "job_id": read_job_id,
    "task": text(LONGEST),
    "queue": text(LONGEST),
    "start_time": instant_in_body,
    "end_time": instant_in_body,
    "fingerprint": fingerprint,
    "user_id": text(LONGEST),
}


LISTED: Mapping[str, Reader] = {**FILTERS, "system": choice({"true": True, "false": False})}  # of the list


@takes(**object_schema(FILTERS))
def _filter(raw: Any, path: str) -> dict[str, Any]:
    found = object_of(raw, path, FILTERS)
    with inside(path):
        window(found)
    return found


CHOICE: Mapping[str, Reader] = {"run_ids": _ids, "filter": _filter}  # exactly one
REQUEUED: Mapping[str, Reader] = {**CHOICE, **REPLACING}
