"""Groups of errors as rows, in the same order of columns on every engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from oncue.domain.error_groups import ErrorGroup, Failures, Hours

APPENDED = "uid fingerprint task error_type sample n first_at last_at".split()

_encode = msgspec.msgpack.encode
_hours = msgspec.msgpack.Decoder(Hours).decode


def appended(failures: Failures) -> tuple[Any, ...]:
    return msgspec.structs.astuple(failures)


def group(row: Iterable[Any]) -> ErrorGroup:
    uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, hours = row
    return ErrorGroup(uid, fingerprint, task, error_type, sample, n, first_seen, last_seen, _hours(hours))


def stored(one: ErrorGroup) -> tuple[Any, ...]:
    *fields, hours = msgspec.structs.astuple(one)
    return (*fields, _encode(hours))
