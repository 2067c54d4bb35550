"""What `oncue doctor` says: one check, what it saw, and what to do."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, but somebody should look
    PROBLEM = "problem"


class Diagnosis(msgspec.Struct, frozen=True):
    check: str
    state: State
    seen: str
    remedy: str = ""  # what to do; empty if all is well


def ok(check: str, seen: str) -> Diagnosis:
    return Diagnosis(check, State.OK, seen)


def warning(check: str, seen: str, remedy: str) -> Diagnosis:
    return Diagnosis(check, State.WARNING, seen, remedy)


def problem(check: str, seen: str, remedy: str) -> Diagnosis:
    return Diagnosis(check, State.PROBLEM, seen, remedy)
