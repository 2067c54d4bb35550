"""JSON Schemas of bodies and answers, by the names that the table of calls uses.

Bodies follow their readers, answers follow oncue.shapes; enums and limits come from the modules that define them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, get_args, get_type_hints

import msgspec

from oncue.api import (
    apply,
    bulk,
    create,
    dead_letters,
    editing,
    jobs,
    keys,
    notifications,
    occurrences,
    outbox,
    register_tasks,
    schedules,
    series,
    sessions,
)
from oncue.api.shared.payloads import OWN_PAYLOAD, REPLACING
from oncue.domain import ledger, run
from oncue.domain.declared import Action
from oncue.domain.definition import definition_schema
from oncue.domain.diagnosis import State
from oncue.domain.explain import Reason
from oncue.domain.fields import Reader, Schema, object_schema
from oncue.domain.job import JobStatus
from oncue.domain.naming import Match
from oncue.domain.schedule import SCHEDULE
from oncue.domain.self_audit import Check
from oncue.engines.port import Count, Role, WorkerStatus
from oncue.shapes.accounts import AuditLine, ForgottenUser, Key, Me, NewKey, Session, User
from oncue.shapes.applied import Applied, AppliedStep, ChangedField
from oncue.shapes.bulk import Bulk, BulkPreview, BulkRefusal, BulkSample
from oncue.shapes.errors import ErrorGroup
from oncue.shapes.fleet import EnqueuedJob, Finding, Queue, QueueScaling, TaskInfo, Worker
from oncue.shapes.jobs import (
    Explanation,
    Job,
    JobState,
    JobStats,
    Occurrence,
    Preview,
    PreviewedOccurrence,
    Spread,
    Warned,
)
from oncue.shapes.lookup import FoundJob, FoundName, FoundRun, FoundWorker, Lookup
from oncue.shapes.notifications import Notifications, Target, WebhookSecret
from oncue.shapes.overview import (
    KnownProblem,
    OccurrenceCounts,
    OccurrenceHeat,
    Series,
    SeriesAnswer,
    SeriesPoint,
    UpcomingBucket,
    UpcomingDensity,
    UpcomingGroup,
    UpcomingRun,
    UpcomingSkip,
)
from oncue.shapes.runs import (
    Attempt,
    DeadLetter,
    EndedRun,
    FieldProblem,
    LastRun,
    Progress,
    RefusedLetter,
    Requeued,
    Run,
    ValueLink,
    WholeRun,
)
from oncue.shapes.server import Process, Server
from oncue.shapes.versions import EditPreview, JobVersion, WithdrawnRun

REFERENCE = "#/components/schemas/{name}"
SHAPES = (
    *(Applied, AppliedStep, ChangedField, EditPreview, WithdrawnRun, JobVersion),
    *(Job, Warned, JobState, Occurrence, Explanation, Preview, PreviewedOccurrence),
    *(JobStats, Spread, EndedRun),
    *(Run, WholeRun, LastRun, Attempt, Progress, DeadLetter, Requeued, RefusedLetter, FieldProblem, ValueLink),
    *(ErrorGroup, Bulk, BulkPreview, BulkSample, BulkRefusal),
    *(TaskInfo, Worker, Queue, QueueScaling, Finding, EnqueuedJob),
    *(Lookup, FoundJob, FoundRun, FoundWorker, FoundName),
    *(Key, NewKey, Me, Session, AuditLine, ForgottenUser, User),
    *(Server, Process),
    *(Target, Notifications, WebhookSecret),
    *(OccurrenceCounts, OccurrenceHeat),
    *(UpcomingRun, UpcomingBucket, UpcomingGroup, UpcomingDensity, UpcomingSkip),
    *(KnownProblem, Series, SeriesAnswer, SeriesPoint),
)
MADE_OUTCOMES = ("started", "late", "waiting")  # occurrences with a run; the others are in the occurrence history
VALUES: dict[tuple[str, str], Iterable[str]] = {
    **{(name, "status"): JobStatus for name in ("Job", "FoundJob")},
    **{(name, "match"): Match for name in ("FoundJob", "FoundRun", "FoundWorker", "FoundName")},
    **{(name, "status"): run.Status for name in ("Run", "LastRun", "WholeRun", "EndedRun", "DeadLetter", "FoundRun")},
    **{(name, "role"): Role for name in ("Key", "NewKey", "Me", "Session")},
    ("Attempt", "outcome"): run.OUTCOMES,
    ("Occurrence", "outcome"): (*MADE_OUTCOMES, *ledger.Outcome),
    ("Explanation", "reason"): Reason,
    ("Finding", "check"): Check,
    ("EnqueuedJob", "status"): (outbox.WAITING, outbox.REFUSED),
    ("KnownProblem", "severity"): (State.PROBLEM, State.WARNING),
    ("AppliedStep", "action"): Action,
    ("Series", "what"): series.KINDS,
    ("Worker", "status"): WorkerStatus,
}


def ref(name: str) -> Schema:
    return {"$ref": REFERENCE.format(name=name)}


def components() -> dict[str, Schema]:
    """All schemas. Parts with a title move into schemas of their own under that title."""
    parts: dict[str, Schema] = {}
    for name, schema in (_bodies() | _answers() | _lists()).items():
        parts[name] = {word: _without_parts(said, parts) for word, said in schema.items() if word != "title"}
    return dict(sorted(parts.items()))


def _bodies() -> dict[str, Schema]:
    definition = definition_schema()
    as_read: dict[str, Schema] = {name: {} for name in (*editing.KEPT, *editing.TOLD)}  # may come back, changes nothing
    changed = {**definition, "properties": definition["properties"] | as_read}
    return {
        "NewJob": definition,
        "NewJobs": _object(jobs=_several("NewJob") | {"minItems": 1, "maxItems": create.LARGEST_BATCH})
        | {"additionalProperties": False},
        "Declaration": _declaration(),
        "KeyedJob": changed,
        "JobChange": {name: value for name, value in changed.items() if name != "required"},
        "Resuming": object_schema(jobs.RESUMING),
        "Stretch": object_schema(occurrences.STRETCH, required=tuple(occurrences.STRETCH)),
        "Choice": _either(dead_letters.CHOICE),
        "Requeue": _either(dead_letters.REQUEUED),
        "BulkOf": bulk.body_schema(),
        "OwnPayload": object_schema(OWN_PAYLOAD),
        "Replacing": object_schema(REPLACING),
        "PreviewOf": object_schema(schedules.ASKED, required=("schedule",), nothing=schedules.NULLABLE),
        "TasksOf": object_schema(register_tasks.FIELDS, required=("tasks",)),
        "KeyOf": object_schema(keys.FIELDS, required=keys.REQUIRED, nothing=keys.NULLABLE),
        "SessionOf": object_schema(sessions.FIELDS, required=tuple(sessions.FIELDS)),
        "NotificationsOf": object_schema(notifications.FIELDS, nothing=notifications.NULLABLE),
        "NotificationTest": object_schema(notifications.TEST, required=tuple(notifications.TEST)),
        "WebhookUrl": object_schema(notifications.URL, required=tuple(notifications.URL)),
    }


def _either(fields: Mapping[str, Reader]) -> Schema:
    return object_schema(fields) | {"oneOf": [{"required": [name]} for name in dead_letters.CHOICE]}


def _declaration() -> Schema:
    found = object_schema(apply.FIELDS, required=("set", "jobs"), nothing=apply.NULLABLE)
    return found | {
        "properties": {**found["properties"], "jobs": _several("NewJob") | {"maxItems": create.LARGEST_BATCH}}
    }


def _answers() -> dict[str, Schema]:
    found = _models()
    defined = definition_schema()["properties"] | {"schedule": SCHEDULE}
    found["Job"]["properties"] |= defined  # as requested, so that a client can send it back
    counted: dict[str, Schema] = {"more": {"type": "integer", "minimum": 1}, "at_least": {"type": "boolean"}}
    found["FieldProblem"]["properties"] |= counted  # only of the last of very many
    counts: dict[str, Schema] = {str(name): {"type": "integer"} for name in ("open", *Count)}
    shapes = found | {
        "Problem": _object(
            type={"type": "string"},
            title={"type": "string"},
            status={"type": "integer"},
            detail={"type": "string"},
            errors=_several("FieldProblem"),
        ),
        "JobIds": _object(job_ids={"type": "array", "items": _ID}, warnings=_several("Warned")),
        "CappedCount": _object(n={"type": "integer", "minimum": 0}, at_least={"type": "boolean"}),
        "CappedCounts": _object(
            jobs=_object(**{status: ref("CappedCount") for status in JobStatus}),
            runs=_object(**{status: ref("CappedCount") for status in run.Status}),
            dead_letters=ref("CappedCount"),
        ),
        "LogParts": _object(parts=_several("LogPart"), next_after=_or_null({"type": "integer"})),
        "LogPart": _object(
            number={"type": "integer"},
            start={"type": "integer"},
            at={"type": "string", "format": "date-time"},
            text={"type": "string"},
        ),
        "RunId": _object(run_id=_ID),
        "RunIds": _object(run_ids={"type": "array", "items": _ID}),
        "Discarded": _object(count={"type": "integer", "minimum": 0}),
        "Counts": _object(**counts),
        "Stats": _object(
            runs=ref("Counts"),
            tasks={"type": "array", "items": _object(task={"type": "string"}, **counts)},
            queues={"type": "array", "items": _object(queue={"type": "string"}, **counts)},
        ),
        "Result": {"anyOf": [{"description": "The value itself, whatever it is."}, ref("ValueLink")]},
        "Health": _object(status={"const": "ok"}),
        "OpenApi": {"type": "object", "required": ["openapi", "info", "paths"]},
    }
    shapes["Problem"]["properties"]["run_status"] = {"enum": list(run.Status)}  # only in a conflict with a run's state
    return shapes


def _lists() -> dict[str, Schema]:
    return {
        "JobPage": _page("jobs", "Job"),
        "VersionPage": _page("versions", "JobVersion"),
        "RunPage": _page("runs", "Run"),
        "OccurrencePage": _page("occurrences", "Occurrence"),
        "DeadLetterPage": _page("dead_letters", "DeadLetter"),
        "BulkPage": _page("bulks", "Bulk"),
        "ErrorPage": _page("errors", "ErrorGroup"),
        "AuditPage": _page("audit", "AuditLine"),
        "FindingPage": _page("findings", "Finding"),
        "OutboxPage": _page("outbox", "EnqueuedJob"),
        "Tasks": _object(tasks=_several("TaskInfo")),
        "Workers": _object(workers=_several("Worker")),
        "Queues": _object(queues=_several("Queue")),
        "Scaling": {"anyOf": [ref("QueueScaling"), _object(queues=_several("QueueScaling"))]},
        "UpcomingPage": _object(
            upcoming=_several("UpcomingRun"),
            next_page_token=_or_null({"type": "string"}),
            exact_until=_or_null({"type": "string", "format": "date-time"}),
        ),
        "UpcomingSkipped": _object(skipped=_several("UpcomingSkip"), more={"type": "boolean"}),
        "Problems": _object(problems=_several("KnownProblem"), more={"type": "boolean"}),
        "Keys": _object(keys=_several("Key")),
        "UserPage": _page("users", "User"),
        "Processes": _object(processes=_several("Process")),
    }


_ID: Schema = {"type": "string", "format": "uuid"}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _several(of: str) -> Schema:
    return {"type": "array", "items": ref(of)}


def _page(name: str, of: str) -> Schema:
    token = _or_null({"type": "string", "description": "where to go on; null on the last page"})
    looked = "how far a filter looked that left this page short; null: the page is as long as it can be"
    looked_to = _or_null({"type": "string", "format": "date-time", "description": looked})
    return _object(**{name: _several(of)}, next_page_token=token, looked_back_to=looked_to)


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _models() -> dict[str, Schema]:
    """Schemas of answers. Readers accept unknown and missing fields; the server sends all fields, only known ones."""
    _, found = msgspec.json.schema_components(SHAPES, ref_template=REFERENCE)
    for shape in SHAPES:
        name, types = shape.__name__, get_type_hints(shape)
        properties = {
            field: _sharper(name, field, types[field], schema) for field, schema in found[name]["properties"].items()
        }
        found[name] |= {"properties": properties, "required": list(properties)}
    return found


def _sharper(model: str, field: str, kind: Any, shape: Schema) -> Schema:
    shape = {name: value for name, value in shape.items() if name != "default"}
    if (model, field) in VALUES:
        return _with(shape, enum=[str(value) for value in VALUES[model, field]])
    if datetime in (kind, *get_args(kind)):
        return _with(shape, format="date-time")
    return shape


def _with(shape: Schema, **more: Any) -> Schema:
    """Add constraints to a string that may be null."""
    if "anyOf" in shape:
        return {**shape, "anyOf": [_with(one, **more) for one in shape["anyOf"]]}
    return {**shape, **more} if shape["type"] == "string" else shape


def _without_parts(schema: Any, parts: dict[str, Schema]) -> Any:
    """Replace parts that have a title by references, and add these parts to `parts`."""
    if isinstance(schema, list):
        return [_without_parts(one, parts) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {word: _without_parts(said, parts) for word, said in schema.items()}
    if isinstance(found.get("title"), str):
        title = found.pop("title")
        parts[title] = found
        return ref(title)
    return found
