"""What commands print: tables with colours on terminals, plain columns in pipes, JSON when asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> None:
    """A title, its rows, and lines that go with them. The last column may be long: on terminals it is wrapped."""
    if sys.stdout.isatty():
        _print_rich(title, columns, rows, below)
    else:
        _print_plain(title, columns, rows, below)


def _print_plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> None:
    table = [columns, *rows] if rows else []
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    click.echo("\n".join([title, *lines, *below]))


def _print_rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    console.print(title, style="bold")
    if rows:
        table = Table(box=SIMPLE_HEAD, header_style="dim")
        for name in columns[:-1]:
            table.add_column(name, no_wrap=True)
        table.add_column(columns[-1], overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for line in below:
        console.print(line)
