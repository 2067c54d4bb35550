"""--watch: draw a table again and again in the same place, until q or Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event as Never
from types import FrameType
from typing import NoReturn

import click

from oncue.cli.output import Output
from oncue.domain.instants import SECOND

# On a screen of its own: the cursor's home, the rest of a line cleared, what is below cleared.
ENTER, LEAVE, HOME, TO_LINE_END, BELOW = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[K", "\x1b[J"


AWAY = "No server at"


def watch(look: Callable[[], Sequence[str]], output: Output, hint: str = "") -> None:
    """Show what `look` returns every `output.every` seconds, below the `hint`. After q or Ctrl-C the last lines stay on
    the terminal.
    """
    lines: Sequence[str] = ()
    click.echo(ENTER, nl=False, color=True)
    try:
        with _ended_by_signals(), _keyboard() as is_left:
            while True:
                lines = _looked(look, lines)
                click.echo(_drawn([hint, *lines] if hint else lines, output.height), nl=False, color=True)
                if is_left(output):
                    break
    except KeyboardInterrupt:
        pass  # the usual way to quit
    finally:
        click.echo(LEAVE, nl=False, color=True)
    for line in lines:
        click.echo(line, color=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave the terminal as it was, whoever ends this."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _keyboard() -> Iterator[Callable[[Output], bool]]:
    """Yield what waits until the next look, and returns whether q was typed meanwhile."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield lambda output: Never().wait(output.every)
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield lambda output: _is_q_typed(keyboard, output)
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)


def _is_q_typed(keyboard: int, output: Output) -> bool:
    until = output.clock.monotonic() + (output.every or 0) * SECOND
    while (left := until - output.clock.monotonic()) > 0 and select.select([keyboard], [], [], left / SECOND)[0]:
        typed = os.read(keyboard, 1_000)
        if not typed or b"q" in typed.lower():  # nothing: the terminal is gone
            return True
    return False


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
