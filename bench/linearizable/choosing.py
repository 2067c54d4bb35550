"""What a client does next: all calls on one key, most of them aimed at what it was told last."""

from __future__ import annotations

from datetime import date
from random import Random

from bench.linearizable.model import CANCELLED, Call, Job, Kind, Match

# A recurring job and a one-shot: neither runs while we look.
SCHEDULES = ("every 30d", f"{date.today().year + 2}-01-01T00:00:00Z")
FAR_BACK = 0.1  # of the calls that name a job: an earlier one
AGAIN = 0.15  # of the calls that can be repeated
BARE = 0.3  # of the versions in If-Match

WEIGHTS = {
    Kind.PUT: 22,
    Kind.PATCH: 26,
    Kind.PAUSE: 12,
    Kind.RESUME: 12,
    Kind.DELETE: 4,
    Kind.RUN: 8,
    Kind.READ: 8,
    Kind.READ_KEY: 12,
}


class Told:
    """What the clients of a key were told so far. They share it, as clients share a database of their own."""

    def __init__(self) -> None:
        self.last: Job | None = None
        self.jobs: list[str] = []
        self.repeatable: list[Call] = []  # calls of unknown effect, and those that were accepted with a key

    def learn(self, call: Call) -> None:
        if call.shown is not None and call.shown.job_id is not None:
            self.last = call.shown
            if call.shown.job_id not in self.jobs:
                self.jobs.append(call.shown.job_id)
        if call.kind is Kind.RUN or (call.kind is Kind.PUT and not call.known):
            self.repeatable = [*self.repeatable[-5:], call]


def choose(chance: Random, told: Told, number: int) -> Call:
    """Return a call that has not begun. What it sends is its own: no other call has this payload or this key."""
    if told.repeatable and chance.random() < AGAIN / 2:
        return _anew(chance.choice(told.repeatable), number)
    [kind] = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
    call = Call(number, kind, invoked=0)
    if kind is Kind.READ_KEY:
        return call
    if kind is Kind.PUT:
        return _put(chance, told, call)
    if told.last is None:
        return call._replace(kind=Kind.READ_KEY)
    far_back = chance.random() < FAR_BACK
    call = call._replace(job_id=chance.choice(told.jobs) if far_back else told.last.job_id)
    if kind is Kind.RUN:
        return call._replace(idempotency_key=f"r{number}")
    if kind is not Kind.PATCH:
        return call
    schedule = chance.choice(SCHEDULES) if chance.random() < 0.2 else None
    match = _match(chance, told.last) if chance.random() < 0.6 else None
    return call._replace(payload=f"p{number}", schedule=schedule, match=match)


def _put(chance: Random, told: Told, call: Call) -> Call:
    call = call._replace(payload=f"p{call.number}", schedule=chance.choice(SCHEDULES))
    how = chance.random()
    if how < 0.15 or (told.last is not None and told.last.status == CANCELLED and how < 0.3):
        return call._replace(must_be_new=True)
    return call._replace(match=_match(chance, told.last)) if how < 0.5 and told.last is not None else call


def _match(chance: Random, last: Job) -> Match:
    return Match(last.version, None if chance.random() < BARE else last.job_id)


def _anew(call: Call, number: int) -> Call:
    """The same request once more."""
    return call._replace(number=number, invoked=0, returned=None, status=0, shown=None, run_id=None)
