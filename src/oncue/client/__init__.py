"""The Python client. Needs httpx2 and msgspec only, no server package.

from oncue.client import Client

with Client() as client:
    job = client.jobs.create(task="send_email", schedule="0 10 * * *", payload={"to": "a@example.org"})
"""

from oncue.client.async_client import AsyncClient
from oncue.client.client import Client
from oncue.client.errors import (
    BadRequest,
    ClientError,
    Conflict,
    FieldProblem,
    Forbidden,
    Invalid,
    NotFound,
    NotOncue,
    OncueApiError,
    ServerUnreachable,
    Stale,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WaitTimeout,
)
from oncue.client.fields import JobFields
from oncue.client.models import (
    Attempt,
    DeadLetter,
    Event,
    Explanation,
    Job,
    JobState,
    Key,
    LastRun,
    Me,
    NewKey,
    Occurrence,
    Page,
    Preview,
    PreviewedOccurrence,
    Progress,
    Queue,
    Requeued,
    Run,
    Task,
    Worker,
)

__all__ = [
    "AsyncClient",
    "Attempt",
    "BadRequest",
    "Client",
    "ClientError",
    "Conflict",
    "DeadLetter",
    "Event",
    "Explanation",
    "FieldProblem",
    "Forbidden",
    "Invalid",
    "Job",
    "JobFields",
    "JobState",
    "Key",
    "LastRun",
    "Me",
    "NewKey",
    "NotFound",
    "NotOncue",
    "Occurrence",
    "OncueApiError",
    "Page",
    "Preview",
    "PreviewedOccurrence",
    "Progress",
    "Queue",
    "Requeued",
    "Run",
    "ServerUnreachable",
    "Stale",
    "Task",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "WaitTimeout",
    "Worker",
]
