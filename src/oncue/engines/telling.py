"""What all engines share about notices: which settlements tell anything, and which notices are dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from oncue.domain.ids import ClassId, JobId, RunId, UserNumber
from oncue.domain.notices import MOST_WAITING
from oncue.domain.notify import NotifyDefault
from oncue.domain.run import NO_STREAK, NewRun, Settlement, State, Step, Streak

encode_default = msgspec.json.Encoder().encode
decode_default = msgspec.json.Decoder(NotifyDefault).decode


class Inserted(msgspec.Struct, frozen=True):
    """How many notices a transaction inserted, and how many it dropped."""

    notices: int = 0
    dropped: int = 0


NOTHING_TOLD = Inserted()


def telling(settlements: Iterable[Settlement], except_for: Container[RunId] = ()) -> list[Settlement]:
    """Return those that tell something, or end a streak, and were written as they are."""
    return [
        one
        for one in settlements
        if one.notices is not None and one.state is not State.CANCELLED and one.run.run_id not in except_for
    ]


def jobs_with_streak(settled: Sequence[Settlement]) -> tuple[list[JobId], list[JobId]]:
    """Return the jobs whose streak counts, and those of them for which one may begin; each sorted."""
    steps = [(one.run.job_id, one.notices.step) for one in settled if one.notices is not None]
    concerned = {job_id for job_id, step in steps if step is not None}
    begin = {job_id for job_id, step in steps if step in (Step.FAILED, Step.ENDED)}
    return sorted(concerned), sorted(begin)


def known_streaks(rows: Iterable[tuple[JobId, int, int]]) -> dict[JobId, Streak]:
    return {job_id: Streak(since, runs) for job_id, since, runs in rows if runs != NO_STREAK}  # type: ignore[arg-type]  # instants are integers


def as_far_as_allowed(
    runs: Sequence[NewRun], class_id: ClassId, open_now: Mapping[UserNumber, int]
) -> tuple[list[NewRun], Counter[UserNumber]]:
    """Return the notices with their class, and how many of each user are dropped because too many of theirs wait."""
    kept = [replace(run, class_id=class_id) for run in runs if open_now.get(run.uid, 0) < MOST_WAITING]
    return kept, Counter(run.uid for run in runs) - Counter(run.uid for run in kept)
