"""What the audit log says of dead letters that were discarded because no user dealt with them in time."""

from __future__ import annotations

import msgspec

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Instant
from oncue.engines.port import AuditEntry


def letters_dropped(uid: UserNumber, count: int, why: str, now: Instant) -> AuditEntry:
    return AuditEntry(now, uid, None, "dead_letters.drop", detail=msgspec.json.encode({"count": count, "why": why}))
