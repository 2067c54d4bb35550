"""Show what tasks print and log as lines of the worker's log, for whoever writes tasks.

It is a view of the logs of runs, which have all of it: of bursts and of long lines it shows the beginning.
"""

from __future__ import annotations

from threading import RLock

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.run import Claimed
from oncue.log import log
from oncue.services.outcome_lines import about

WINDOW = Duration(10 * SECOND)
MOST_OF_RUN = 100  # lines in a window
MOST = 400  # lines of all runs in a window
LONGEST_LINE = 1_000  # characters


class Allowance:
    """So many lines in each window."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._until: Instant | None = None
        self._left = 0

    def take(self) -> bool:
        """Return whether there was one left."""
        now = self._clock.monotonic()
        if self._until is None or now >= self._until:
            self._until, self._left = Instant(now + WINDOW), self._most
        self._left -= 1
        return self._left >= 0


class TaskOutput:
    """The output of all runs of a worker."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lock = RLock()  # threads write, too; and finalizers that print, at any moment
        self.allowance = Allowance(clock, MOST)
        self.cut: dict[RunOutput, None] = {}  # runs of which lines were left out that nobody was told of

    def of(self, run: Claimed) -> RunOutput:
        return RunOutput(run, self)

    def tell_cut(self) -> None:
        """Say how much was left out, once the window of a run is over: it may write nothing else."""
        with self.lock:
            for one in list(self.cut):
                one.tell_cut()


class RunOutput:
    """The output of one attempt, from any thread."""

    __slots__ = ("_about", "_all", "_allowance", "_line", "_more", "_run")

    def __init__(self, run: Claimed, of_all: TaskOutput) -> None:
        self._run = run
        self._all = of_all
        self._allowance = Allowance(of_all.clock, MOST_OF_RUN)
        self._about: dict[str, str] | None = None
        self._line = ""  # the beginning of one that has not ended
        self._more = 0  # lines that were left out

    def write(self, text: str) -> None:
        with self._all.lock:
            at = 0
            while (end := text.find("\n", at)) >= 0:
                if not self._may():
                    self._more += text.count("\n", at)
                    self._line, at = "", text.rfind("\n") + 1
                    break
                self._show(self._line + text[at : min(end, at + LONGEST_LINE + 1)])
                self._line, at = "", end + 1
            if at < len(text):
                self._line = (self._line + text[at : at + LONGEST_LINE + 1])[: LONGEST_LINE + 1]

    def end(self) -> None:
        """Show what is left: the attempt is over."""
        with self._all.lock:
            if self._line and self._may():
                self._show(self._line)
            elif self._line:
                self._more += 1
            self._line = ""
            self._tell_more()

    def tell_cut(self) -> None:
        if self._may():
            self._tell_more()

    def _may(self) -> bool:
        """Whether to show a line now. The first one of a new window comes after the number of those left out."""
        if not (self._allowance.take() and self._all.allowance.take()):
            self._all.cut[self] = None
            return False
        self._tell_more()
        return True

    def _show(self, line: str) -> None:
        shown = line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + "…"
        last = shown.removesuffix("\r").rpartition("\r")[2]  # as terminals show it, for example of a progress bar
        log.info("A task wrote a line", kind="run_output", **self._whose, output=last)

    def _tell_more(self) -> None:
        self._all.cut.pop(self, None)
        if self._more:
            more, self._more = self._more, 0
            look = f"oncue runs logs {self._run.run_id}"
            log.info("A task wrote more lines", kind="run_output_cut", **self._whose, lines=more, look=look)

    @property
    def _whose(self) -> dict[str, str]:
        if self._about is None:
            self._about = about(self._run)
        return self._about
