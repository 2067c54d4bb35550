"""--watch: draw a table again and again in the same place, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event as Never

import click

from oncue.cli.output import Output

# On a screen of its own: the cursor's home, the rest of a line cleared, what is below cleared.
ENTER, LEAVE, HOME, TO_LINE_END, BELOW = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[K", "\x1b[J"


AWAY = "No server at"


def watch(look: Callable[[], Sequence[str]], output: Output) -> None:
    """Show what `look` returns every `output.every` seconds. After Ctrl-C the last lines stay on the terminal."""
    lines: Sequence[str] = ()
    click.echo(ENTER, nl=False, color=True)
    try:
        while True:
            lines = _looked(look, lines)
            click.echo(_drawn(lines, output.height), nl=False, color=True)
            Never().wait(output.every)
    except KeyboardInterrupt:
        pass  # the usual way to quit
    finally:
        click.echo(LEAVE, nl=False, color=True)
    for line in lines:
        click.echo(line, color=True)


def _looked(look: Callable[[], Sequence[str]], before: Sequence[str]) -> Sequence[str]:
    """Return the new lines; while no server answers, those before with a note, unless there were none."""
    from oncue.client import ServerUnreachable

    try:
        return look()
    except ServerUnreachable as away:
        if not before:
            raise
        note = f"{AWAY} {away.url}; this is what was there before."
        return [*(line for line in before if not line.startswith(AWAY)), note]


def _drawn(lines: Sequence[str], height: int) -> str:
    fitting = lines if len(lines) < height else [*lines[: height - 2], f"… {len(lines) - height + 2} more lines"]
    return HOME + "".join(f"{line}{TO_LINE_END}\r\n" for line in fitting) + BELOW
