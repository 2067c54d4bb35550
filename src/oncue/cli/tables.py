"""Lists as tables that fit their terminal. Declare one `Table` for each list, and print it with `asking.tell_list`.

    QUEUES: Table[Queue] = Table(
        "queues",
        lambda queue: queue.name,                                      # what -q prints
        (
            Column("name", 24, lambda queue: queue.name),
            Column("status", 8, lambda queue: "paused" if queue.paused_since else "active", kind=Kind.STATUS),
            Column("waiting", 9, lambda queue: queue.depth),           # numbers are aligned to the right
            Column("since", 9, lambda queue: queue.paused_since),      # times are relative, RFC 3339 in pipes
            Column("classes", 30, lambda queue: queue.classes, at=200),  # only on terminals of 200 columns or more
        ),
    )

A value is text, a number, a time, a duration (timedelta), or anything else, which is shown as JSON; None is empty.
Give values whole: they are freed of control characters, cut and coloured here. On a terminal a column is as wide as
its longest cell; if a line gets too long, text wider than its `width` is cut first. Ids, statuses, numbers and times
are never cut; columns that do not fit even so are left out. In pipes there are all columns, with tabs between them and
a first line of names, and values are whole: full ids, RFC 3339, `pipes` instead of `value` where they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Generic, TypeVar
from uuid import UUID

import click
import msgspec

from oncue.cli import times
from oncue.cli.columns import cut, pad, share, width_of
from oncue.cli.output import Output, coloured
from oncue.cli.printing import STYLES, text
from oncue.domain.instants import MICROSECOND, Duration, show_duration

T = TypeVar("T")

GAP = "  "
SHORT_ID = 8  # the last digits: ids of one minute begin alike
WIDE = 200  # from here on the column `id` is whole and times are exact
LEAST = 6  # columns that cut text keeps


class Kind(Enum):
    TEXT = auto()
    ID = auto()
    STATUS = auto()


class Column(msgspec.Struct, Generic[T], frozen=True):
    name: str
    width: int
    value: Callable[[T], Any]
    at: int = 80
    """It is shown on terminals of at least this width."""
    kind: Kind = Kind.TEXT
    pipes: Callable[[T], Any] | None = None
    """The value in pipes, if it is another one."""


class Table(msgspec.Struct, Generic[T], frozen=True):
    name: str
    """The member of the API's answer that has the items."""
    id_of: Callable[[T], str | UUID | None]
    columns: tuple[Column[T], ...]
    noun: str = ""
    """What the items are called, if not like the member."""

    @property
    def title(self) -> str:
        return self.noun or self.name.replace("_", " ")


def short_id(full: str | UUID) -> str:
    """Return the last 8 digits of an id; other texts as they are."""
    full = str(full)
    return full[-SHORT_ID:] if len(full) == 36 and full.count("-") == 4 else full


def print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line, color=coloured())


def lines_of(table: Table[T], items: Sequence[T], output: Output) -> list[str]:
    """Return the header and a line for each item, for a terminal or a pipe."""
    columns = _chosen(table, output.columns)
    return _for_people(columns, items, output) if output.for_people else _for_pipes(columns, items)


def _chosen(table: Table[T], names: Sequence[str]) -> Sequence[Column[T]]:
    if not names:
        return table.columns
    there = {column.name: column for column in table.columns}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise click.UsageError(f"--columns: {unknown[0]!r} is not a column of this list; use {', '.join(there)}")
    return [there[name] for name in names]


# ------------------------------------------------------------------------------------------------------------- pipes


def _for_pipes(columns: Sequence[Column[T]], items: Sequence[T]) -> list[str]:
    rows = [[_coloured(column, _whole((column.pipes or column.value)(item))) for column in columns] for item in items]
    return ["\t".join(cells) for cells in [[column.name for column in columns], *rows]]


def _whole(value: Any) -> str:
    match value:
        case datetime():
            return times.plain(value)
        case timedelta():
            return show_duration(Duration(value // timedelta(microseconds=MICROSECOND)))
    return text(value, longest=None)


# --------------------------------------------------------------------------------------------------------- terminals


class _Cells(msgspec.Struct, Generic[T]):
    """A column with the texts of its cells; `width` is what it gets."""

    column: Column[T]
    texts: list[str]
    right: bool
    fixed: bool
    width: int


def _for_people(columns: Sequence[Column[T]], items: Sequence[T], output: Output) -> list[str]:
    named = bool(output.columns)
    shown = [_cells(column, items, output) for column in columns if named or column.at <= max(output.width, 80)]
    shown = _fitted(shown, output.width)
    head = GAP.join(pad(cut(one.column.name.upper(), one.width), one.width, right=one.right) for one in shown)
    rows = [GAP.join(_padded(one, row) for one in shown).rstrip() for row in range(len(items))]
    return [click.style(head.rstrip(), dim=True) if coloured() else head.rstrip(), *rows]


def _cells(column: Column[T], items: Sequence[T], output: Output) -> _Cells[T]:
    values = [column.value(item) for item in items]
    texts = [_text(column, value, output) for value in values]
    numbers = [isinstance(value, int | float | timedelta) and not isinstance(value, bool) for value in values]
    times_ = any(isinstance(value, datetime) for value in values)
    right = any(numbers)
    widest = max(map(width_of, [column.name, *texts]))
    return _Cells(column, texts, right, right or times_ or column.kind is not Kind.TEXT, widest)


def _text(column: Column[T], value: Any, output: Output) -> str:
    match value:
        case datetime() if output.width >= WIDE:
            return times.to_the_second(value, utc=output.utc)
        case datetime():
            return times.near(value, output.now(), utc=output.utc)
        case timedelta():
            return times.took(value)
    shown = text(value)
    whole = column.name == "id" and output.width >= WIDE
    return short_id(shown) if column.kind is Kind.ID and not whole else shown


def _fitted(shown: list[_Cells[T]], width: int) -> list[_Cells[T]]:
    """Give each column its width; leave out the last ones that do not fit even when all text is cut."""
    while shown:
        room = width - len(GAP) * (len(shown) - 1)
        wanted = [one.width for one in shown]
        modest = [one.width if one.fixed else min(one.width, one.column.width) for one in shown]
        least = [one.width if one.fixed else min(one.width, max(LEAST, len(one.column.name))) for one in shown]
        widths = share(wanted, modest, room)
        if sum(widths) > room:
            widths = share(widths, least, room)
        if sum(widths) <= room or len(shown) == 1:
            return [msgspec.structs.replace(one, width=given) for one, given in zip(shown, widths, strict=True)]
        shown = shown[:-1]
    return shown


def _padded(one: _Cells[T], row: int) -> str:
    whole = one.texts[row]
    kept = whole if one.fixed else cut(whole, one.width)
    return (
        pad(kept, one.width, right=one.right).replace(kept, _coloured(one.column, kept), 1) if kept else " " * one.width
    )


def _coloured(column: Column[T], word: str) -> str:
    style = STYLES.get(word)
    if column.kind is not Kind.STATUS or style is None or not coloured():
        return word
    return click.style(word, dim=True) if style == "dim" else click.style(word, fg=style)
