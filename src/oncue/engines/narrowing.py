"""Filters of runs that no index has: engines apply them to the rows that one page may read."""

from __future__ import annotations

from oncue.domain.run import RunView
from oncue.domain.tried import error_type_of
from oncue.engines.listed import RunQuery


def is_narrowed(query: RunQuery) -> bool:
    """Whether a page has to look at more runs than it may show."""
    filters = (query.states, query.task, query.queue, query.wanted_from, query.wanted_until)
    return any(one is not None for one in filters) or _looks_inside(query)


def fits(query: RunQuery, run: RunView) -> bool:
    """Whether the error fits; engines compare the columns themselves, before they make a value of a row."""
    return query.error_type is None or error_type_of(run) == query.error_type


def only_ended(query: RunQuery) -> bool:
    """Whether the query has a window of ends: a run that has not ended is in none."""
    return query.ended_from is not None or query.ended_until is not None


def _looks_inside(query: RunQuery) -> bool:
    return query.triggers is not None or query.worker_id is not None or query.error_type is not None
