"""What this server is, and the processes that run on its database."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import oncue
from oncue.api.create import BATCH_BYTES, LARGEST_BATCH
from oncue.api.events import MOST_STREAMS
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import LARGEST_BODY
from oncue.api.listing import LARGEST_PAGE
from oncue.api.shared.context import Api
from oncue.domain.instants import Instant, rfc3339, show_duration
from oncue.domain.notify import CHANNELS
from oncue.engines.gauges import MEMBER_LEASE
from oncue.engines.port import Member, Role
from oncue.settings import Settings


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Describe the server from what this process knows, without asking the database."""
    return answer(
        {
            "version": oncue.__version__,
            "engine": api.engine.name,
            "schema": api.engine.schema,
            "time": rfc3339(api.clock.now()),
            "roles": list(Role),
            "read_only": caller.role is Role.VIEWER,
            "retention": _retention(api.settings),
            "limits": _limits(api),
            "features": {
                "storage": "bucket" if _is_bucket(api.settings.storage) else "folder",
                "archive": bool(api.settings.archive),
                "notifications": [name for name in CHANNELS if name != "email" or api.intake.notify_policy.mail],
            },
        }
    )


async def processes(api: Api, request: Request, caller: Caller) -> Response:
    now = api.clock.now()
    return answer({"processes": [_process(one, now) for one in await api.engine.members.known()]})


def _retention(settings: Settings) -> dict[str, str]:
    return {
        "runs": show_duration(settings.retention),
        "idempotency_keys": show_duration(settings.idempotency_retention),
        "job_keys": show_duration(settings.keep_job_keys),
    }


def _limits(api: Api) -> dict[str, int | None]:
    settings, parts = api.settings, api.intake.limits
    return {
        "name_characters": parts.name,
        "tags": parts.tags,
        "payload_bytes": settings.max_payload_bytes,
        "body_bytes": LARGEST_BODY,
        "batch_jobs": LARGEST_BATCH,
        "batch_bytes": BATCH_BYTES,
        "page_items": LARGEST_PAGE,
        "event_streams_per_user": MOST_STREAMS,
        "requests_per_second": settings.rate_limit or None,
        "jobs_per_user": settings.max_jobs_per_user or None,
        "payload_bytes_per_user": settings.max_payload_bytes_per_user or None,
        "runs_by_hand_per_user": settings.quota_runs or None,
    }


def _is_bucket(storage: str) -> bool:
    return bool(storage) and not storage.startswith("file:")


def _process(member: Member, now: Instant) -> dict[str, Any]:
    return {
        "process_id": member.member_id,
        "role": member.role,
        "version": member.version,
        "schema": member.schema,
        "host": member.host,
        "started_at": rfc3339(member.started_at),
        "seen_at": rfc3339(member.beat_at),
        "alive": abs(now - member.beat_at) <= MEMBER_LEASE,
    }
