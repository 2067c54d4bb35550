"""Bulks as rows, in the same order of columns on every engine: those that the reading statements select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oncue.engines.account_values import Role
from oncue.engines.bulk_values import Bulk, BulkState, encode, read_order, read_progress


def bulk(row: Iterable[Any]) -> Bulk:
    """ValidationError: a newer oncue wrote it."""
    bulk_id, uid, key_id, role, created_at, ordered, total, state, progress, turn, ended_at, why = row
    return Bulk(
        bulk_id=bulk_id,
        uid=uid,
        key_id=key_id,
        role=Role(role),
        created_at=created_at,
        order=read_order(ordered),
        total=total,
        state=BulkState(state),
        progress=read_progress(progress),
        turn=turn,
        ended_at=ended_at,
        why=why,
    )


def added(one: Bulk) -> tuple[Any, ...]:
    """The values of a new one that are alike on every engine, after its ids."""
    return (one.role.value, one.created_at, encode(one.order), one.total, one.state.value, encode(one.progress))
