"""The Python client. Needs httpx2 and msgspec only, no server package.

from oncue.client import Client

with Client() as client:
    job = client.jobs.create(task="send_email", schedule="0 10 * * *", payload={"to": "a@example.org"})
"""

from oncue.client.async_client import AsyncClient
from oncue.client.call import Page
from oncue.client.client import Client
from oncue.client.errors import (
    Ambiguous,
    BadRequest,
    ClientError,
    Conflict,
    FieldProblem,
    Forbidden,
    Invalid,
    NotFound,
    NotOncue,
    OncueApiError,
    RunFailed,
    ServerUnreachable,
    Stale,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WaitTimeout,
)
from oncue.client.events import Event
from oncue.client.snapshots import AsyncJob, AsyncRun, Job, Run
from oncue.shapes.accounts import AuditLine, ForgottenUser, Key, Me, NewKey, User
from oncue.shapes.applied import Applied, AppliedStep, ChangedField
from oncue.shapes.bulk import Bulk, BulkPreview
from oncue.shapes.errors import ErrorGroup
from oncue.shapes.events import ChangedJob
from oncue.shapes.fleet import EnqueuedJob, Finding, Queue, QueueScaling, TaskInfo, Worker
from oncue.shapes.jobs import (
    Explanation,
    JobFields,
    JobState,
    JobStats,
    Occurrence,
    Preview,
    PreviewedOccurrence,
    Spread,
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
from oncue.shapes.runs import Attempt, EndedRun, LastRun, Progress, Requeued, ValueLink
from oncue.shapes.server import Process, Server
from oncue.shapes.versions import EditPreview, JobVersion, WithdrawnRun

__all__ = [
    "Ambiguous",
    "Applied",
    "AppliedStep",
    "AsyncClient",
    "AsyncJob",
    "AsyncRun",
    "Attempt",
    "AuditLine",
    "BadRequest",
    "Bulk",
    "BulkPreview",
    "ChangedField",
    "ChangedJob",
    "Client",
    "ClientError",
    "Conflict",
    "EditPreview",
    "EndedRun",
    "EnqueuedJob",
    "ErrorGroup",
    "Event",
    "Explanation",
    "FieldProblem",
    "Finding",
    "Forbidden",
    "ForgottenUser",
    "FoundJob",
    "FoundName",
    "FoundRun",
    "FoundWorker",
    "Invalid",
    "Job",
    "JobFields",
    "JobState",
    "JobStats",
    "JobVersion",
    "Key",
    "KnownProblem",
    "LastRun",
    "Lookup",
    "Me",
    "NewKey",
    "NotFound",
    "NotOncue",
    "Notifications",
    "Occurrence",
    "OccurrenceCounts",
    "OccurrenceHeat",
    "OncueApiError",
    "Page",
    "Preview",
    "PreviewedOccurrence",
    "Process",
    "Progress",
    "Queue",
    "QueueScaling",
    "Requeued",
    "Run",
    "RunFailed",
    "Series",
    "SeriesAnswer",
    "SeriesPoint",
    "Server",
    "ServerUnreachable",
    "Spread",
    "Stale",
    "Target",
    "TaskInfo",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UpcomingBucket",
    "UpcomingDensity",
    "UpcomingGroup",
    "UpcomingRun",
    "UpcomingSkip",
    "User",
    "ValueLink",
    "WaitTimeout",
    "WebhookSecret",
    "WithdrawnRun",
    "Worker",
]
