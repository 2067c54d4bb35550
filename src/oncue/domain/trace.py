"""Trace context in the form of W3C: what a job carries of the request that defined it, and which runs are sampled."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from oncue.domain.ids import created_at
from oncue.domain.instants import HOUR
from oncue.domain.run import Claimed, Trigger

LONGEST = 256  # bytes of tracestate, and of baggage
LOW_56 = (1 << 56) - 1  # the bits of an id that are random, as in W3C's trace ids
LOW_64 = (1 << 64) - 1

_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_PRINTABLE = re.compile(r"[\x20-\x7e]+")


class Trace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The context that a request or an attempt passes on: three headers, of which the last two may be empty.

    Stored with a job. Fields that a newer oncue adds are passed over: no run waits because of its trace.
    """

    parent: str  # a valid `traceparent` of version 00
    state: str = ""
    baggage: str = ""

    @property
    def trace_id(self) -> int:
        return int(self.parent[3:35], 16)

    @property
    def span_id(self) -> int:
        return int(self.parent[36:52], 16)

    @property
    def flags(self) -> int:
        return int(self.parent[53:55], 16)

    @property
    def sampled(self) -> bool:
        return self.flags & 1 == 1

    def headers(self) -> dict[str, str]:
        """Return those that are not empty, by their names in HTTP."""
        named = {"traceparent": self.parent, "tracestate": self.state, "baggage": self.baggage}
        return {name: value for name, value in named.items() if value}


def traceparent(trace_id: int, span_id: int, flags: int) -> str:
    return f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"


def read_trace(
    parents: Collection[str], states: Iterable[str], baggage: Iterable[str], keys: Collection[str]
) -> Trace | None:
    """Read the headers of a request, each as often as it was sent. None: no traceparent, or a malformed one.

    Of the baggage only these `keys` are kept. A list that is too long loses its last members, as W3C asks for.
    """
    if len(parents) != 1 or (found := _TRACEPARENT.fullmatch(next(iter(parents)).strip())) is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "00" and more is not None:
        return None
    kept = [member for member in _members(baggage) if member.partition("=")[0].strip() in keys] if keys else []
    return Trace(f"00-{trace_id}-{span_id}-{flags}", _cut(_members(states)), _cut(kept))


def _members(headers: Iterable[str]) -> Iterable[str]:
    listed = (member.strip() for header in headers for member in header.split(","))
    return (member for member in listed if _PRINTABLE.fullmatch(member))


def _cut(members: Iterable[str]) -> str:
    text = ""
    for member in members:
        longer = f"{text},{member}" if text else member
        if len(longer) > LONGEST:
            break
        text = longer
    return text


# ------------------------------------------------------------------------------------------------------------- sampling


def threshold(ratio: float) -> int:
    """Return the least value of an id's low 56 bits with which a run of its own trace is sampled."""
    return round((1 - ratio) * (LOW_56 + 1))


def continues(run: Claimed) -> bool:
    """Whether this run belongs to the trace that its job was created in, at every attempt.

    Others have a trace of their own: a job that runs for a year must not be one trace.
    """
    is_the_job = run.trigger is Trigger.SCHEDULE and run.run_id == run.job_id  # a one-shot has its job's id
    return is_the_job and run.wanted - created_at(run.run_id) <= HOUR


def is_sampled(run: Claimed, carried: Trace | None, least: int) -> bool:
    """Whether an attempt has a span: as its parent says or, without one, by the run's id."""
    if carried is not None and continues(run):
        return carried.sampled
    return run.run_id.int & LOW_56 >= least


def passed_on_unsampled(run: Claimed, carried: Trace) -> Trace:
    """Return what an attempt without a span passes on, where others have one.

    A run with a trace of its own must not add to the one that its job was created in.
    """
    if continues(run):
        return carried
    return Trace(traceparent(run.run_id.int, run.run_id.int & LOW_64, 0), baggage=carried.baggage)
