"""Actions on many objects: started here, worked through by schedulers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from oncue.api.dead_letters import FILTERS as LETTER_FILTERS
from oncue.api.dead_letters import instant_in_body
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import as_uuid, path_id, read_job_id, read_object
from oncue.api.listing import LONGEST, NOBODY, OPEN, STATES, job_query, page, several, wanted_page, whose, window
from oncue.api.runs import CANCEL_POLL_INTERVAL, CANCEL_TIMEOUT
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import idempotent
from oncue.api.shared.outcome import Changed, Line, Outcome, outcome, unchanged
from oncue.api.shared.payloads import REPLACING, read_replacement
from oncue.domain.errors import Conflict, Invalid, NotFound, Problem, StoreUnavailable, inside
from oncue.domain.fields import Reader, choice, object_of, object_schema, read_fields, takes, text, truth
from oncue.domain.ids import UserNumber
from oncue.domain.instants import rfc3339
from oncue.domain.job import JobStatus
from oncue.domain.keys import number_name
from oncue.domain.policy import CatchUp
from oncue.domain.run import RunView, State, Status
from oncue.engines.bulk_values import (
    MOST_OPEN,
    Action,
    Bulk,
    BulkState,
    Kind,
    LetterQuery,
    Order,
    PatchRules,
    PayloadPatch,
    Progress,
)
from oncue.engines.port import JobRow, RunQuery

MOST_IDS = 1_000
COUNTED = 1_000  # objects of a preview
LOOKED_AT_ONCE, LOOKS = 250, 4
SAMPLES = 5
LARGEST_PATCH = 64 * 1024  # bytes: a list of bulks shows it with each

KINDS: Mapping[Action, tuple[Kind, ...]] = {  # the first one unless `of` says otherwise
    Action.PAUSE: (Kind.JOBS,),
    Action.RESUME: (Kind.JOBS,),
    Action.RUN: (Kind.JOBS,),
    Action.CANCEL: (Kind.JOBS, Kind.RUNS),
    Action.RETRY: (Kind.RUNS,),
    Action.REQUEUE: (Kind.LETTERS,),
    Action.DISCARD: (Kind.LETTERS,),
}
STATUSES: Mapping[Action, frozenset[JobStatus]] = {
    Action.PAUSE: frozenset({JobStatus.ACTIVE}),
    Action.RESUME: frozenset({JobStatus.PAUSED}),
    Action.CANCEL: OPEN,
    Action.RUN: OPEN | {JobStatus.FINISHED},
}
ENDED = frozenset(Status[state.name] for state in State if state.final)
LIVE = frozenset(Status) - ENDED


async def start(api: Api, request: Request, caller: Caller) -> Outcome:
    """Store what is to be done. With `dry_run`, only say with how many objects, and show some."""
    raw = await read_object(request)
    order, dry_run = await _order(api, raw, caller)
    if dry_run:
        return unchanged(answer(await _preview(api, _bulk(api, caller, order, api.new_id(api.clock.now())))))

    async def make(made: UUID) -> Outcome:
        bulk = await api.engine.bulks.read(caller.uid, made)
        if bulk is None:  # not from a request whose answer was lost
            bulk = await _with_total(api, _bulk(api, caller, order, made))
            if not await api.engine.bulks.add(bulk):
                raise Conflict(f"{MOST_OPEN} of your bulks are not finished. Wait for one, or stop one.")
        many = {"filter": raw["filter"]} if order.ids is None else {"ids": len(order.ids)}
        line = Line({"bulk_id": str(made), "action": order.action, "of": order.of, **many})
        headers = {"Location": f"/v1/bulk/{made}"}
        return Outcome(
            answer(await _shown(api, bulk, caller), HTTPStatus.ACCEPTED, headers), (Changed(caller.uid),), line
        )

    return await idempotent(api, request, caller, raw, make)


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return answer(await _shown(api, await _found(api, request, caller), caller))


async def recent(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller)
    found = await api.engine.bulks.page(caller.sees, wanted.limit, wanted.after)
    shown = {bulk.bulk_id: await _shown(api, bulk, caller) for bulk in found.items}
    return answer(page("bulks", found, lambda bulk: shown[bulk.bulk_id], wanted))


async def stop(api: Api, request: Request, caller: Caller) -> Outcome:
    """End a bulk: what it has done stays done. One that had ended is shown as it is."""
    bulk = await _found(api, request, caller)
    stopped = await api.engine.bulks.stop(caller.sees, bulk.bulk_id, api.clock.now())
    shown = answer(await _shown(api, await _recorded(api, request, caller), caller))
    return outcome(shown, (Changed(bulk.uid),) if stopped else ())


async def _recorded(api: Api, request: Request, caller: Caller) -> Bulk:
    """Return the bulk when the pass that was running has said what it did, or after a second."""
    until = api.clock.monotonic() + CANCEL_TIMEOUT
    bulk = await _found(api, request, caller)
    with suppress(StoreUnavailable):  # it is stopped, whatever the pass did
        while bulk.progress.pending and api.clock.monotonic() < until:
            await api.clock.sleep(CANCEL_POLL_INTERVAL)
            bulk = await _found(api, request, caller)
    return bulk


async def _found(api: Api, request: Request, caller: Caller) -> Bulk:
    bulk = await api.engine.bulks.read(caller.sees, path_id(request))
    if bulk is None:
        raise NotFound
    return bulk


def _bulk(api: Api, caller: Caller, order: Order, bulk_id: UUID) -> Bulk:
    return Bulk(bulk_id, caller.uid, caller.key_id, caller.role, api.clock.now(), order)


async def _counted(api: Api, bulk: Bulk) -> tuple[list[UUID], list[JobRow | RunView], bool]:
    """Return the first objects, and whether there may be more."""
    ids, items, progress = list[UUID](), list[JobRow | RunView](), Progress()
    for _ in range(LOOKS):
        found = await api.bulk_walk.look(replace(bulk, progress=progress), LOOKED_AT_ONCE)
        ids, items, progress = [*ids, *found.ids], [*items, *found.items], found.progress
        if not progress.more:
            break
    return ids, items, progress.more


async def _with_total(api: Api, bulk: Bulk) -> Bulk:
    if bulk.order.ids is not None:
        return replace(bulk, total=len(bulk.order.ids))
    ids, _, more = await _counted(api, bulk)
    return bulk if more else replace(bulk, total=len(ids))


async def _preview(api: Api, bulk: Bulk) -> dict[str, Any]:
    ids, items, more = await _counted(api, bulk)
    if bulk.order.ids is not None:
        samples: list[dict[str, Any]] = [{"id": one, "task": None, "name": None} for one in ids[:SAMPLES]]
        return {"count": len(bulk.order.ids), "at_least": False, "samples": samples}
    runs = [item for item in items[:SAMPLES] if isinstance(item, RunView)]
    classes = await api.classes_of(*runs)
    samples = [
        {"id": item.run_id, "task": classes[item.class_id].task, "name": None}
        if isinstance(item, RunView)
        else {"id": item.job.job_id, "task": item.job.spec.task, "name": item.job.spec.name}
        for item in items[:SAMPLES]
    ]
    return {"count": len(ids), "at_least": more, "samples": samples}


async def _shown(api: Api, bulk: Bulk, caller: Caller) -> dict[str, Any]:
    order, progress, total = bulk.order, bulk.progress, bulk.total
    met = progress.done + progress.refused
    finished = bulk.state is BulkState.FINISHED
    return {
        "bulk_id": bulk.bulk_id,
        "action": order.action,
        "of": order.of,
        "filter": None if order.ids is not None else await _asked(api, order, caller),
        "payload_patch": order.letters.patch.patch if order.letters and order.letters.patch else None,
        "state": bulk.state,
        "done": progress.done,
        "refused": progress.refused,
        "reasons": progress.reasons,
        "total": total,
        "progress": 1.0 if finished else None if total is None else min(1.0, met / max(1, total)),
        "started_by": await api.owner_of(bulk.uid, caller),
        "created_at": rfc3339(bulk.created_at),
        "ended_at": None if bulk.ended_at is None else rfc3339(bulk.ended_at),
        "why": bulk.why,
    }


async def _asked(api: Api, order: Order, caller: Caller) -> dict[str, Any]:
    """Return the filter as it was sent, with the name that its user has now."""
    query = order.jobs or order.runs or order.letters
    if "user_id" not in order.asked or query is None or query.uid is None:
        return order.asked
    return order.asked | {"user_id": await api.owner_of(query.uid, caller) or order.asked["user_id"]}


# ------------------------------------------------------------------------------------------------- what is asked for


async def _order(api: Api, raw: dict[str, Any], caller: Caller) -> tuple[Order, bool]:
    problems: list[Problem] = []
    found = read_fields(raw, FIELDS, problems)
    if "action" not in raw:
        problems.append(Problem("action", "required", f"is required: one of {', '.join(Action)}"))
    if ("ids" in raw) == ("filter" in raw):
        message = 'say which ones: either ids, a list, or a filter, like {"task": "hello"}; {} stands for all'
        problems.append(Problem("ids", "required", message))
    if problems:
        raise Invalid(*problems)
    action: Action = found["action"]
    of: Kind = found.get("of", KINDS[action][0])
    if of not in KINDS[action]:
        raise Invalid.of("of", "unknown_value", f"{action} acts on {' or '.join(KINDS[action])}")
    if "missed" in found and action is not Action.RESUME:
        raise Invalid.of("missed", "unknown_field", "is for resume only")
    order = Order(action, of, found.get("ids"), quota=api.quota_of_runs(caller), asked=raw.get("filter", {}))
    order = replace(order, missed=found.get("missed", CatchUp.SKIP))
    if order.ids is None:
        order = await _filtered(api, order, caller)
    if "payload_patch" in found:
        order = replace(order, letters=replace(order.letters or LetterQuery(), patch=_patch(api, action, found)))
    return order, found.get("dry_run", False)


def _patch(api: Api, action: Action, found: dict[str, Any]) -> PayloadPatch:
    if action is not Action.REQUEUE:
        raise Invalid.of("payload_patch", "unknown_field", "is for requeue only")
    problems: list[Problem] = []
    read_replacement(api, found, problems)
    if problems:
        raise Invalid(*problems)
    if len(msgspec.json.encode(found["payload_patch"])) > LARGEST_PATCH:
        raise Invalid.of("payload_patch", "too_large", f"must be at most {LARGEST_PATCH:,} bytes")
    asked = api.settings
    rules = PatchRules(asked.max_payload_bytes, asked.plain_secrets, asked.secret_roles, asked.http_allow)
    return PayloadPatch(found["payload_patch"], rules)


async def _filtered(api: Api, order: Order, caller: Caller) -> Order:
    found = object_of(order.asked, "filter", FILTERS[order.of])
    with inside("filter"):
        match order.of:
            case Kind.JOBS:
                return await _of_jobs(api, order, found, caller)
            case Kind.RUNS:
                return await _of_runs(api, order, found, caller)
            case Kind.LETTERS:
                return await _of_letters(api, order, found, caller)


async def _of_jobs(api: Api, order: Order, found: dict[str, Any], caller: Caller) -> Order:
    possible = STATUSES[order.action]
    statuses = found.get("status", possible & OPEN) & possible
    if not statuses:
        raise Invalid.of("status", "unknown_value", f"{order.action} acts on jobs that are {_listed(possible)}")
    query = await job_query(api, caller, found)
    return replace(order, asked=_without_name(order.asked, query.uid), jobs=replace(query, statuses=statuses))


def _without_name(asked: dict[str, Any], uid: UserNumber | None) -> dict[str, Any]:
    """Return the filter with the number of its user: a name that is not stored need not be forgotten."""
    if "user_id" not in asked or uid is None or uid == NOBODY:
        return asked
    return asked | {"user_id": number_name(uid)}


async def _of_letters(api: Api, order: Order, found: dict[str, Any], caller: Caller) -> Order:
    uid = await whose(api, caller, found)
    start, end = window(found)
    named = {name: found[name] for name in ("job_id", "task", "queue", "fingerprint") if name in found}
    query = LetterQuery(wanted_from=start, wanted_until=end, uid=uid if "user_id" in found else None, **named)
    return replace(order, asked=_without_name(order.asked, uid), letters=query)


async def _of_runs(api: Api, order: Order, found: dict[str, Any], caller: Caller) -> Order:
    possible = ENDED if order.action is Action.RETRY else LIVE
    if order.action is Action.RETRY and "status" not in found:
        message = "is required to retry runs, like dead,expired: without it, all that succeeded would run again"
        raise Invalid.of("status", "required", message)
    statuses = found.get("status", possible) & possible
    if not statuses:
        raise Invalid.of("status", "unknown_value", f"{order.action} acts on runs that are {_listed(possible)}")
    start, end = window(found)
    named = {name: found[name] for name in ("job_id", "task", "queue") if name in found}
    states = frozenset(STATES[status] for status in statuses)
    uid = await whose(api, caller, found)
    query = RunQuery(uid, states=states, wanted_from=start, wanted_until=end, **named)
    return replace(order, asked=_without_name(order.asked, uid), runs=query, statuses=statuses)


def _listed(statuses: frozenset[JobStatus] | frozenset[Status]) -> str:
    return " or ".join(sorted(statuses))


@takes(type="array", items={"type": "string", "format": "uuid"}, minItems=1, maxItems=MOST_IDS)
def _ids(raw: Any, path: str) -> tuple[UUID, ...]:
    if not isinstance(raw, list) or not 1 <= len(raw) <= MOST_IDS:
        raise Invalid.of(path, "wrong_type", f"is a list of 1 to {MOST_IDS} ids")
    found = [as_uuid(one) if isinstance(one, str) else None for one in raw]
    if None in found:
        raise Invalid.of(f"{path}.{found.index(None)}", "bad_id", "is not an id")
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _words(values: Mapping[str, Any]) -> Reader:
    """One or more words separated by commas, as in a query."""
    read_words = several(values)

    @takes(**vars(read_words)["schema"])
    def read(raw: Any, path: str) -> Any:
        if not isinstance(raw, str):
            raise Invalid.of(path, "wrong_type", f"must be one or more of {', '.join(values)}, separated by commas")
        return read_words(raw, path)

    return read


_TEXT = text(LONGEST)
_WINDOW: dict[str, Reader] = {"start_time": instant_in_body, "end_time": instant_in_body}
FILTERS: Mapping[Kind, Mapping[str, Reader]] = {
    Kind.JOBS: {
        "status": _words({one.value: one for one in JobStatus}),
        **dict.fromkeys(("task", "name", "name_prefix", "tag", "queue", "user_id"), _TEXT),
        **_WINDOW,
    },
    Kind.RUNS: {
        "status": _words({one.value: one for one in Status}),
        "job_id": read_job_id,
        **dict.fromkeys(("task", "queue", "user_id"), _TEXT),
        **_WINDOW,
    },
    Kind.LETTERS: LETTER_FILTERS,
}


@takes(anyOf=[object_schema(readers) for readers in FILTERS.values()])
def _filter(raw: Any, path: str) -> dict[str, Any]:
    """Any object: which fields it may have depends on what it filters."""
    if not isinstance(raw, dict):
        raise Invalid.of(path, "wrong_type", 'must be an object, like {"task": "hello"}; {} stands for all')
    return raw


FIELDS: Mapping[str, Reader] = {
    "action": choice({one.value: one for one in Action}),
    "of": choice({one.value: one for one in Kind}),
    "filter": _filter,
    "ids": _ids,
    "dry_run": truth,
    "missed": choice({one.value: one for one in CatchUp}),
    "payload_patch": REPLACING["payload_patch"],
}


def body_schema() -> dict[str, Any]:
    schema = object_schema(FIELDS, required=("action",))
    return schema | {"oneOf": [{"required": [name]} for name in ("filter", "ids")]}
