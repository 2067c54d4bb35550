"""Show snapshots and pages as tables in notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Any
from uuid import UUID

import msgspec

from oncue.shapes.jobs import Job
from oncue.shapes.runs import Run

LONGEST = 200  # characters of a value
MOST_COLUMNS = 8  # of a list of something else
JOB = ("job_id", "name", "key", "status", "task", "schedule", "next_run_at")
RUN = ("run_id", "job_name", "status", "task", "start_time", "end_time", "error_message")


def table_of(one: msgspec.Struct) -> str:
    """Show one object: a row for each field that has a value."""
    values = ((name, getattr(one, name)) for name in one.__struct_fields__)
    rows = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{_cell(value)}</td></tr>'
        for name, value in values
        if value not in (None, (), [], {})
    )
    return f"<table>{rows}</table>"


def table_of_all(items: Sequence[Any]) -> str:
    """Show a list: a row for each item, with the columns that tell most."""
    names = _columns(items[0]) if items else ()
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(_row(_cell(getattr(item, name, None)) for name in names) for item in items)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _columns(item: Any) -> Sequence[str]:
    match item:
        case Job():
            return JOB
        case Run():
            return RUN
        case msgspec.Struct():
            return item.__struct_fields__[:MOST_COLUMNS]
        case _:
            return ()


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str() | UUID():
            text = str(value)
        case datetime():
            text = value.isoformat(" ", "seconds")
        case _:
            text = msgspec.json.encode(value, enc_hook=str).decode()
    return escape(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")
