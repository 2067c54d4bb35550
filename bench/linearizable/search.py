"""Whether the calls on a key could have happened one after the other: the search of Wing and Gong, with Lowe's memory.

A call takes effect at one instant between its beginning and its end. So the search takes calls one by one: each that
began before the first of the remaining ones ended may be the next, if the model answers it as the server did; where
none fits, it goes back. Of two ways to the same calls and the same state, one is tried. A call of unknown effect may
come at any time from its beginning on, or never.

What makes it quick: a payload is sent once, so who saw it says which version it became; versions only rise, and what
is cancelled stays so. A state that makes a remaining answer impossible is left at once. Unknown calls with the same
effect are exchangeable: the one that began first stands for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.linearizable.model import CANCELLED, READS, UNSEEN, Call, Job, Key, Kind, step

MOST_STATES = 300_000  # a search that takes more gives up
FOREVER = 1 << 62
MADE, REFUSED = 201, 400


class Verdict(NamedTuple):
    """`linearizable` None: the search gave up. Else without an order: the longest one, and what did not fit then."""

    linearizable: bool | None
    states: int = 0
    order: tuple[Call, ...] = ()
    key: Key = Key()
    stuck: tuple[Call, ...] = ()
    why: str = ""


def check(calls: Sequence[Call], most_states: int = MOST_STATES) -> Verdict:
    """Search an order of all calls with known answers, and of some with unknown ones, that the model allows."""
    contradiction = _contradiction(calls)
    return Verdict(False, why=contradiction) if contradiction else _Search(_relevant(calls)).run(most_states)


def _contradiction(calls: Sequence[Call]) -> str:
    """What no order can explain."""
    seen: dict[tuple[str | None, int], Call] = {}
    for call in calls:
        if call.shown is not None:
            one = seen.setdefault((call.shown.job_id, call.shown.version), call)
            if one.shown is not None and _definition(one.shown) != _definition(call.shown):
                return f"version {call.shown.version} is told with two definitions:\n  {one}\n  {call}"
    return ""


def _definition(job: Job) -> tuple[str, str]:
    return job.payload, job.schedule


def _relevant(calls: Sequence[Call]) -> list[Call]:
    """Leave out unknown calls that change nothing, and the payloads that nobody saw."""
    seen = {call.shown.payload for call in calls if call.shown is not None}
    sent = Counter(call.payload for call in calls)
    runs = Counter(call.idempotency_key for call in calls if call.kind is Kind.RUN)

    def matters(call: Call) -> bool:
        return call.known or (
            call.kind not in READS and not (call.kind is Kind.RUN and runs[call.idempotency_key] == 1)
        )

    def payload(call: Call) -> str:
        return UNSEEN if call.payload and call.payload not in seen and sent[call.payload] == 1 else call.payload

    return [
        call._replace(payload=payload(call)) for call in sorted(calls, key=lambda one: one.invoked) if matters(call)
    ]


def _changes_nothing(call: Call) -> bool:
    """Whether a call with this answer has nowhere an effect, or, of a run that is accepted again, not here."""
    return call.known and (call.kind in READS or call.kind is Kind.RUN or call.status >= REFUSED)


class _Told:
    """What the known answers say of a job at any time."""

    def __init__(self) -> None:
        self.definitions: dict[int, tuple[str, str]] = {}  # by version
        self.at_version: dict[int, int] = defaultdict(int)  # the calls that were shown it
        self.alive = 0  # the calls that were shown it active or paused
        self.by_key = 0  # the calls that were shown it by the key
        self.made = False  # by a call that was told so

    @property
    def first(self) -> int:
        return min(self.at_version)

    def below(self, version: int) -> int:
        return sum(mask for at, mask in self.at_version.items() if at < version)


class _Search:
    """A place in the search is (the known calls that are done, how many are used of each kind of unknown ones, key)."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._known = [call for call in calls if call.known]
        self._bits = {call.number: 1 << place for place, call in enumerate(self._known)}
        self._all = (1 << len(self._known)) - 1
        self._told: dict[str, _Told] = defaultdict(_Told)
        self._below: dict[tuple[str, int], int] = {}
        self._by_key = 0  # the calls by the key that were shown a job
        sent = Counter(call.payload for call in calls)
        self._versions: dict[str, tuple[str, int]] = {}  # of payloads that were sent once
        for call in self._known:
            if call.shown is not None and call.shown.job_id is not None:
                self._learn(call, call.shown, call.shown.job_id, sent)
                self._by_key |= 0 if call.job_id else self._bits[call.number]
        alike: dict[Call, list[Call]] = defaultdict(list)
        for call in calls:
            if not call.known:
                alike[call._replace(number=0, invoked=0)].append(call)
        self._unknown = list(alike.values())
        self._by_version: dict[int, list[int]] = defaultdict(list)  # kinds that can only make this version
        self._any_time = list[int]()
        for number, (first, *_) in enumerate(self._unknown):
            place = self._versions.get(first.payload)
            (self._any_time if place is None else self._by_version[place[1]]).append(number)

    def _learn(self, call: Call, shown: Job, job_id: str, sent: Counter[str]) -> None:
        told, bit = self._told[job_id], self._bits[call.number]
        told.definitions[shown.version] = _definition(shown)
        told.at_version[shown.version] |= bit
        told.by_key |= 0 if call.job_id else bit
        told.made |= call.status == MADE
        if shown.status != CANCELLED:
            told.alive |= bit
        if sent[shown.payload] == 1:
            self._versions[shown.payload] = job_id, shown.version

    def run(self, most_states: int) -> Verdict:
        begin = _Place(0, (0,) * len(self._unknown), Key(), 0)
        frames, order, states = [(begin, self._next(begin))], list[Call](), 0
        tried: dict[tuple[int, Key], list[Used]] = {}
        longest, best = -1, Verdict(False)
        while frames:
            here, ways = frames[-1]
            if here.done == self._all:
                return Verdict(True, states, tuple(order), here.key)
            if states > most_states:
                return best._replace(linearizable=None, states=states, why="the search gave up")
            if len(order) > longest:
                stuck = tuple(call for call, _ in self._candidates(here))
                longest, best = len(order), Verdict(False, 0, tuple(order), here.key, stuck, "no order fits")
            found = next(ways, None)
            if found is None:
                frames.pop()
                del order[-1:]
                continue
            call, place = found
            if _is_new(tried.setdefault((place.done, place.key), []), place.used):
                states += 1
                frames.append((place, self._next(place)))
                order.append(call)
        return best._replace(states=states)

    def _next(self, here: _Place) -> Iterator[tuple[Call, _Place]]:
        """A known call that fits, and could change nothing, comes first: it is in the way of no other."""
        found = [
            (call, kind, key) for call, kind in self._candidates(here) if (key := step(here.key, call)) is not None
        ]
        quiet = next((one for one in found if one[2] == here.key and _changes_nothing(one[0])), None)
        for call, kind, key in found if quiet is None else [quiet]:
            done, used, low = here.done, here.used, here.low
            if kind is None:
                done |= self._bits[call.number]
                while low < len(self._known) and done & self._bits[self._known[low].number]:
                    low += 1
            else:
                used = (*used[:kind], used[kind] + 1, *used[kind + 1 :])
            if self._is_possible(key, done):
                yield call, _Place(done, used, key, low)

    def _candidates(self, here: _Place) -> list[tuple[Call, int | None]]:
        """The calls that began before the first of the known ones that are left ended: these, the first to end first,
        then unknown ones, with their kinds."""
        left, until = list[Call](), FOREVER
        for call in self._known[here.low :]:
            if call.invoked > until:
                break
            if not here.done & self._bits[call.number]:
                left.append(call)
                until = min(until, call.returned or FOREVER)
        left = sorted((call for call in left if call.invoked <= until), key=lambda one: one.returned or FOREVER)
        found: list[tuple[Call, int | None]] = [(call, None) for call in left]
        version = 0 if here.key.job is None else here.key.job.version
        fitting = self._by_version[version + 1] + (self._by_version[1] if version else [])
        for kind in fitting + self._any_time:
            alike, used = self._unknown[kind], here.used[kind]
            if used < len(alike) and alike[used].invoked <= until:
                found.append((alike[used], kind))
        return found

    def _is_possible(self, key: Key, done: int) -> bool:
        """Whether the remaining known answers can still come."""
        job = key.job
        if job is None:
            return True
        place = self._versions.get(job.payload)
        if place is not None and place != (job.job_id or place[0], job.version):
            return False
        if job.job_id is None:
            return not self._by_key & ~done or self._may_become_known(key, job)
        before = self._told.get(key.earlier[-1].job_id or "") if key.earlier else None
        if before is not None and before.by_key & ~done:
            return False
        told = self._told.get(job.job_id)
        if told is None:
            return True
        if told.definitions.get(job.version, _definition(job)) != _definition(job):
            return False
        if self._below_version(job.job_id, job.version) & ~done:
            return False
        return job.status != CANCELLED or not told.alive & ~done

    def _may_become_known(self, key: Key, unnamed: Job) -> bool:
        """Whether it may be a job that somebody was told of later: the next answer by the key tells it."""
        return any(
            unnamed.version <= told.first
            and told.definitions.get(unnamed.version, _definition(unnamed)) == _definition(unnamed)
            and key.find(job_id) is None
            for job_id, told in self._told.items()
            if not told.made
        )

    def _below_version(self, job_id: str, version: int) -> int:
        """The calls that were shown an earlier version of the job: it is in the past from now on."""
        found = self._below.get((job_id, version))
        if found is None:
            found = self._below[job_id, version] = self._told[job_id].below(version)
        return found


Used = tuple[int, ...]


class _Place(NamedTuple):
    """`low`: before it all known calls are done. `used`: how many of each kind of unknown calls."""

    done: int
    used: Used
    key: Key
    low: int


def _is_new(tried: list[Used], used: Used) -> bool:
    """Whether nobody came here with as few unknown calls used. Who has more of them left can do as much."""
    if any(all(one <= other for one, other in zip(before, used, strict=True)) for before in tried):
        return False
    tried.append(used)
    return True
