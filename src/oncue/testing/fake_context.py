"""A context for unit tests of a task's function. It records what the function reports."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any
from uuid import UUID, uuid4

import msgspec

from oncue.clock import SystemClock
from oncue.context import LARGEST_CHECKPOINT, Context, Done, RunInfo, S_co, checked_progress
from oncue.domain.errors import OncueError
from oncue.domain.plain_json import encoded
from oncue.testing.times import Time, to_instant

_LOGGER = logging.getLogger("oncue.task")

Progress = tuple[float, float | None]


class Recorded:
    """`Reports` of a test. What is written stays here."""

    def __init__(self, *, cancelled: bool = False) -> None:
        self.cancelled = cancelled
        self.reported: list[Progress] = []
        self.saved: list[Any] = []
        self._written: list[str] = []

    @property
    def logs(self) -> list[str]:
        return "".join(self._written).splitlines()

    def write(self, text: str) -> None:
        self._written.append(text)

    def progress(self, stored: bytes) -> None:
        said = msgspec.json.decode(checked_progress(stored))
        self.reported.append((said["done"], said["total"]))

    def save(self, stored: bytes) -> Awaitable[None]:
        self.saved.append(msgspec.json.decode(stored))
        return Done()

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        raise OncueError("the task enqueues, and the test has no server; use the fixture oncue_fake or oncue_inline")


class RecordingLog(logging.LoggerAdapter[logging.Logger]):
    """`ctx.log` of a test: lines of every level go to the log of the run, and to standard logging as well."""

    def __init__(self, reports: Recorded) -> None:
        super().__init__(_LOGGER, {"oncue_run": reports})
        self._reports = reports

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        self._reports.write(f"{str(msg) % args if args else msg}\n")
        super().log(level, msg, *args, **kwargs)


class FakeContext(Context[S_co]):
    """A context to call a task's function with: `import_rows(FakeContext(attempt=2, checkpoint=100), file="a.csv")`.

    `checkpoint` is what an earlier attempt has saved, `state` what the lifespan yields. Afterwards `saved` has the
    checkpoints that were saved, `reported` the progress as pairs of done and total, and `logs` the lines that were
    written to `ctx.log`. Set `cancelled` to have the function stop.
    """

    def __init__(
        self,
        *,
        task: str = "task",
        attempt: int = 1,
        checkpoint: Any = None,
        state: S_co = None,  # type: ignore[assignment]  # as without a lifespan
        scheduled_for: Time | None = None,
        job_name: str | None = None,
        run_id: UUID | str | None = None,
        job_id: UUID | str | None = None,
        cancelled: bool = False,
    ) -> None:
        now = SystemClock().now()
        ran = _uuid(run_id) or uuid4()
        info = RunInfo(
            ran,
            _uuid(job_id) or ran,
            task,
            attempt,
            now if scheduled_for is None else to_instant(scheduled_for, now),
            None if checkpoint is None else encoded(checkpoint, "checkpoint", LARGEST_CHECKPOINT),
            job_name=job_name,
        )
        super().__init__(info, Recorded(cancelled=cancelled), state)

    @classmethod
    def of(cls, info: RunInfo, reports: Recorded, state: Any) -> FakeContext[Any]:
        """Return the context of an attempt, which records into `reports`."""
        made: FakeContext[Any] = cls.__new__(cls)
        Context.__init__(made, info, reports, state)
        return made

    @property
    def _recorded(self) -> Recorded:
        assert isinstance(self._reports, Recorded)
        return self._reports

    @property
    def saved(self) -> list[Any]:
        """The checkpoints that were saved, in order."""
        return self._recorded.saved

    @property
    def reported(self) -> list[Progress]:
        """The progress that was reported, in order: (done, total)."""
        return self._recorded.reported

    @property
    def logs(self) -> list[str]:
        """The lines of the log."""
        return self._recorded.logs

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return RecordingLog(self._recorded)

    @property
    def cancelled(self) -> bool:
        return self._recorded.cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._recorded.cancelled = value


def _uuid(given: UUID | str | None) -> UUID | None:
    return UUID(given) if isinstance(given, str) else given
