"""Print tables with colours on terminals, plain columns in pipes, and JSON with --json."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import click
import msgspec

from oncue.cli.columns import width_of
from oncue.domain.plain_text import showable

LONGEST_CELL = 200
_WORDS = re.compile(r"\s*\S+\s*")

# Keyed by cell text, so that no table names its own colours.
STYLES = {
    **dict.fromkeys(("succeeded", "started", "create", "goal", "ok"), "green"),
    **dict.fromkeys(("dead", "missed", "lost", "prune", "problem", "no heartbeat"), "red"),
    **dict.fromkeys(("running", "change"), "cyan"),
    **dict.fromkeys(
        ("retrying", "late", "paused", "cancelling", "expired", "skipped", "coalesced", "floor", "draining"), "yellow"
    ),
    "warning": "yellow",
    **dict.fromkeys(("cancelled", "finished", "unchanged"), "dim"),
}


def say(words: str, *, nl: bool = True, err: bool = False) -> None:
    """Print text without control sequences: other users' text must not control the terminal. All output goes here.

    Messages on standard error break between words, if that is a terminal.
    """
    shown = showable(words)
    click.echo(broken(shown) if err and sys.stderr.isatty() else shown, nl=nl, err=err)


def broken(words: str, indent: str = "", less: int = 0) -> str:
    """Break lines that are wider than the terminal, or than `less` columns of it, between words."""
    width = max(shutil.get_terminal_size().columns - less, 20)
    return "\n".join(_broken_line(line, width, indent) for line in words.split("\n"))


def _broken_line(line: str, width: int, indent: str) -> str:
    lines, current = [], ""
    for word in _WORDS.findall(line):
        if current.strip() and width_of(current + word.rstrip()) > width:
            lines.append(current.rstrip())
            current = indent
        current += word
    return "\n".join([*lines, current.rstrip()])


def print_yaml(value: object, *, indent: int = 2) -> None:
    """Print JSON's values as YAML. Text with control characters is in double quotes, where `say` may escape them."""
    import yaml  # type: ignore[import-untyped]  # it comes without types

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # of a class without types
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def quoted(dumper: Any, words: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", words, style='"' if showable(words) != words else None)

    Dumper.add_representer(str, quoted)
    say(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, indent=indent, width=120), nl=False)


def print_json(value: object, *, err: bool = False, indent: int = 2) -> None:
    say(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode(), err=err)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> None:
    """Print a title, the rows, and the lines `below`. On terminals the last column is wrapped."""
    if sys.stdout.isatty():
        _print_rich(title, columns, rows, below)
    else:
        _print_plain(title, columns, rows, below)


def print_fields(title: str, fields: Sequence[tuple[str, str]]) -> None:
    """Print a title and each field that is not empty. Nothing is cut; further lines of a value are indented."""
    filled = [(f"{name}:", showable(value)) for name, value in fields if value]
    widest = max((len(name) for name, _ in filled), default=0)
    below = "\n" + " " * (widest + 2)
    shown = [(name, _in_lines(value, widest + 2).replace("\n", below)) for name, value in filled]
    say("\n".join([*([title] if title else []), *(f"{name:<{widest}}  {value}" for name, value in shown)]))


def _in_lines(value: str, indent: int) -> str:
    """Break sentences between words on terminals; JSON stays whole, to be copied."""
    if value[0] in '{["' or not sys.stdout.isatty():
        return value
    return broken(value, less=indent)


def time(at: datetime | None) -> str:
    """Format in UTC, to the second: `2027-01-04 08:00:00Z`."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def text(value: Any, longest: int | None = LONGEST_CELL) -> str:
    """Format any value on one printable line: text as it is, other values as JSON, empty values as ''."""
    if value is None or value == () or value == {} or value == []:
        return ""
    shown = str(value) if isinstance(value, str | UUID) else msgspec.json.encode(value).decode()
    line = "".join(letter if letter.isprintable() else " " for letter in shown)
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def _print_plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> None:
    table = [*([columns] if columns else []), *rows] if rows else []
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    say("\n".join([title, *lines, *below]))


def _print_rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    console.print(showable(title), style="bold")
    if rows:
        console.print(rich_table(columns, rows))
    for line in below:
        console.print(showable(line))


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Build a table for a terminal. Cells are plain text, never markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="dim", show_header=bool(columns))
    heads = columns or [""] * len(rows[0])
    for name in heads[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(heads[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(showable(cell), style=STYLES.get(cell, "")) for cell in row))
    return table
