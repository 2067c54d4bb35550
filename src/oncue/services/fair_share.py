"""Turns between users when work is late: each round takes a few runs of every user, however many one user has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from oncue.clock import Clock
from oncue.domain.ids import ClassId, RunId, UserNumber
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue.domain.run import Peeked
from oncue.engines.port import Engine
from oncue.services.choosing import DueRun

USERS = 100  # users in one round
EACH = 10  # runs of each user in one round
STAYS = 4  # rounds in which the users in turn may get no run for lack of capacity, before other users are read
REST = 10  # times the duration of a round, until the next
LEAST_REST = Duration(10 * MILLISECOND)
RECENTLY = Duration(3 * SECOND)  # after other users waited, one user may not take all slots for this long
LONG_AGO = Instant(0)


class FairShare:
    """A round is read with `read` and ordered by `line_up`; a caller that takes from `turns` reports it with `took`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self.turns: list[DueRun] = []  # the first run of each user, then the second of each
        self.turn_first = True  # the next run to take is one of these
        self.one_more = False  # a user's turns are used up, or a user may have come
        self.rest_until = LONG_AGO
        self._users = 0  # in this round
        self._after = UserNumber(0)  # the user after which the next round starts
        self._stays = STAYS
        self._late: tuple[set[UserNumber], set[UserNumber]] = (set(), set())  # users, in this cycle and the last
        self._others_until = LONG_AGO

    @property
    def others_wait(self) -> bool:
        """Whether several users have due runs, or had a moment ago: a user who adds one run a second finds a slot."""
        now = self._clock.now()
        if len(self._late[0] | self._late[1]) > 1:
            self._others_until = Instant(now + RECENTLY)
        return now < self._others_until

    @property
    def wanted(self) -> bool:
        """Whether another round should follow, after the rest."""
        return self.one_more and self._users > 0

    def stop(self) -> None:
        """Reset: nothing is late."""
        self.turns, self._users, self.one_more = [], 0, False
        self._late, self._others_until = (set(), set()), LONG_AGO

    async def read(self, classes: Sequence[ClassId], now: Instant, known: Container[UserNumber]) -> list[Peeked]:
        """Read the runs of the next round, user by user. Empty if only one user has any, whose runs are known."""
        self.turns, self._users, self.one_more = [], 0, False
        asked_at = self._clock.monotonic()
        found = await self._engine.running.peek_fair(classes, self._after, USERS, EACH, now)
        self.rest_until = Instant(now + max(LEAST_REST, REST * (self._clock.monotonic() - asked_at)))
        users = {run.uid for run in found.runs}
        self._users = len(users)
        self._note_late(users, found.reached)
        return found.runs if len(users) > 1 or any(uid not in known for uid in users) else []

    def line_up(self, runs: Sequence[DueRun]) -> None:
        """Order the runs: the best of each user first, the users in the order in which they were found."""
        users = {uid: n for n, uid in enumerate(dict.fromkeys(run.uid for run in runs))}
        numbers: Counter[UserNumber] = Counter()
        places: list[tuple[int, int, DueRun]] = []
        for run in sorted(runs, key=lambda run: run.rank):
            numbers[run.uid] += 1
            places.append((numbers[run.uid], users[run.uid], run))
        self.turns = [run for _, _, run in sorted(places, key=lambda place: place[:2])]

    def took(self, last: UserNumber, known: dict[RunId, DueRun]) -> None:
        """Record that runs were taken, this user's last: the next round starts after this user."""
        self.turns = [run for run in self.turns if known.get(run.run_id) is run]
        self.one_more = len({run.uid for run in self.turns}) < self._users
        self._after, self._stays = last, STAYS

    def _note_late(self, users: set[UserNumber], reached: UserNumber | None) -> None:
        """Record which users are late; where one round cannot cover all users, collect them over several rounds."""
        if reached is None:
            self._late = (users, set())
            return
        this, last = self._late
        self._late = (users, this) if reached <= self._after else (this | users, last)
        self._stays = self._stays - 1 if self.others_wait and self._stays else STAYS
        if self._stays == STAYS:
            self._after = reached
