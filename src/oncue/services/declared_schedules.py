"""Apply the schedules that code declares, for a process that has a store and no key.

The decisions are those of `POST /jobs/apply`. Any number of processes may do this at once: each step is one
conditional write, and who is too late compares again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import uniform
from typing import Any

import msgspec

from oncue.domain.declared import Action
from oncue.domain.errors import Conflict, Invalid, OncueError, StoreUnavailable, Superseded
from oncue.domain.ids import JobId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.schedule import describe_schedule
from oncue.engines.port import AuditEntry, Hint, Role, Topic
from oncue.intake.apply_planning import plan
from oncue.intake.apply_writing import HalfWritten, write
from oncue.intake.context import Intake, UserWithRole
from oncue.intake.declaration import Declaration, Step, want
from oncue.log import log
from oncue.metrics.numbers import Numbers
from oncue.tasks.schedules import DeclaredSet

TRIES = 10  # while other processes that start at the same time apply the same
APPLY = "job.apply"  # in the audit log
UNTOLD = frozenset({"payload", "notify"})  # fields whose values are in no log line


class DeclaredSchedules:
    """Applies sets for one owner, with the rights of an administrator: whoever deploys the code decides what runs."""

    def __init__(self, intake: Intake, owner: str, numbers: Numbers) -> None:
        self._intake = intake
        self._owner = owner
        self._numbers = numbers

    async def apply(self, sets: Sequence[DeclaredSet]) -> tuple[str, ...]:
        """Return the schedules that are in place, in words. A set that is refused is logged; the others are applied."""
        return tuple([words for one in sets for words in await self._in_place(one)])

    async def _in_place(self, one: DeclaredSet) -> list[str]:
        tries = 0
        while True:
            try:
                return await self._applied(one)
            except OncueError as error:
                why = error.why if isinstance(error, HalfWritten) else error
                if isinstance(why, Superseded):
                    log.warning(
                        "Declared schedules of older code are ignored",
                        kind="schedules_outdated",
                        set=one.name,
                        stamp=one.stamp,
                        why=str(why),
                    )
                    return []
                tries += not isinstance(why, StoreUnavailable)
                if not isinstance(why, StoreUnavailable | Conflict) or tries >= TRIES:
                    _log_refused(one, why, partly=isinstance(error, HalfWritten))
                    return []
                if isinstance(why, StoreUnavailable):
                    log.warning("The database is unavailable; retrying", kind="store_away", service="schedules")
            await self._intake.clock.sleep(Duration(round(SECOND * uniform(0.1, 1))))

    async def _applied(self, one: DeclaredSet) -> list[str]:
        intake = self._intake
        now = intake.clock.now()
        author = UserWithRole(await intake.engine.accounts.user(self._owner, now), self._owner, Role.ADMIN)
        await intake.defaults.refresh()
        asked = {"set": one.name, "prune": one.named, "stamp": one.stamp}
        declaration = Declaration(asked, intake.task_registry.lookups)
        for index, job in enumerate(one.jobs):
            await want(intake, declaration, index, job, author, now)
        steps = await plan(intake, declaration, author, now)
        if any(warning["code"] == "same_stamp" for warning in declaration.warnings):
            log.warning(
                "Other schedules were applied with the same stamp before; these replace them",
                kind="schedules_same_stamp",
                set=one.name,
                stamp=one.stamp,
            )
        await self._write(declaration, steps, author)
        return [f"{wanted.key}: {describe_schedule(wanted.spec.schedule)}" for wanted in declaration.jobs]

    async def _write(self, declaration: Declaration, steps: Sequence[Step], author: UserWithRole) -> None:
        told: dict[str, Any] = {"set": declaration.set, "stamp": declaration.stamp}
        detail = msgspec.json.encode(told)

        def line(action: str, job_id: JobId | None, now: Instant) -> AuditEntry:
            return AuditEntry(now, author.uid, None, action, job_id, detail)

        written = await write(self._intake, declaration, steps, author, line, self._numbers)
        done = [step for step in written if step.action is not Action.UNCHANGED]
        if not done:
            return
        counted = msgspec.json.encode({**told, **Counter(str(step.action) for step in done)})
        whole = msgspec.structs.replace(line(APPLY, None, self._intake.clock.now()), detail=counted)
        await self._intake.engine.audit.record([whole])
        for step in done:
            log.info(
                "A declared schedule was applied",
                kind="schedule_applied",
                set=declaration.set,
                key=step.key,
                action=str(step.action),
                changes=_changes(step),
            )
        await self._intake.engine.signals.send([Hint(Topic.CHANGED, target=f"{author.uid} jobs")])


def _changes(step: Step) -> dict[str, Any]:
    """Return the changed fields, old and new; of some only that they changed, because no log line has a secret."""
    return {
        name: "changed" if name in UNTOLD else {"old": one.old, "new": one.new} for name, one in step.changes.items()
    }


def _log_refused(one: DeclaredSet, why: Exception, *, partly: bool) -> None:
    """Log why a set is not applied, with the place of each job that is wrong."""
    problems = [_problem(one, found.path, found.message) for found in why.problems] if isinstance(why, Invalid) else []
    known = isinstance(why, OncueError)
    log.error(
        "Declared schedules are refused",
        kind="schedules_refused",
        set=one.name,
        changed="some of the set" if partly else "nothing",
        why="; ".join(problems) or str(why),
        exc_info=None if known else why,
    )


def _problem(one: DeclaredSet, path: str, message: str) -> str:
    match path.split(".", 2):
        case ["jobs", number, *field] if number.isdecimal() and int(number) < len(one.jobs):
            index = int(number)
            key = one.jobs[index]["key"]
            if field and field[0].partition(".")[0] in UNTOLD:
                message = "does not fit the task that is registered" if field[0].startswith("payload") else "is refused"
            how = " (`oncue apply MODULE --adopt` does)" if "adopt takes it" in message else ""
            return f"{one.places[index]}: {key}: {' '.join((*field, message))}{how}"
    return f"{path} {message}".strip()
