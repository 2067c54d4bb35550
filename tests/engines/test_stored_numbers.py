"""What is stored for a name stays what it is, and who reads a statement sees the name beside the number."""

import re
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from oncue.domain.buckets import LAG, RUN
from oncue.domain.lane import Held
from oncue.domain.ledger import Outcome
from oncue.domain.placement import Priority
from oncue.domain.run import State, Trigger
from oncue.engines.port import Count, Measure
from oncue.engines.stored import STATUS_NUMBER, STATUSES, TRIGGERS

ENGINES = Path(__file__).parents[2] / "src" / "oncue" / "engines"

# Rows of every store there is have these numbers: a line may be added here, and none changed.
STORED = {
    "status": {"active": 0, "paused": 1, "finished": 2, "cancelled": 3},
    "state": {"waiting": 0, "running": 1, "succeeded": 2, "dead": 3, "cancelled": 4, "expired": 5},
    "trigger": {"schedule": 0, "run_now": 1, "backfill": 2, "requeue": 3, "catch_up": 4},
    "held": {"no": 0, "lane": 1, "gate": 2, "paused": 4, "rate": 8},
    "priority": {"high": 0, "normal": 1, "low": 2},
}

# Series have the numbers of buckets: for other edges there has to be another measure.
EDGES = {
    "lag": (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600),
    "run": (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 300, 1800, 3600),
}
COUNTS = (
    "created succeeded dead cancelled expired withdrawn retried lost requeued discarded skipped coalesced missed"
).split()

_COLUMN = r"\b(?P<column>status|state|trigger|held|priority)\b"
_NUMBERS = r"(?P<numbers>(?<=\()\d+(?:, \d+)*|\d+\b)"
COMPARED = re.compile(rf"{_COLUMN}(?: \+ 0)? (?:=|<>|<=|>=|<|>|in|not in|when|\|) \(?{_NUMBERS}")
MASKED = re.compile(rf"{_COLUMN} & ~?{_NUMBERS}")
NAMED = re.compile(rf"\b{_NUMBERS}(?:::\w+)? as {_COLUMN}")
PRODUCED = re.compile(r"\b(?:then|else) ([1-9])\b|\biif\(.*?, (?:\d, )?([1-9])\)|(?<!\$)\b([1-9])::smallint")


def names_of(column: str, number: int) -> set[str]:
    """The name of a number; of flags that of each bit."""
    names = {stored: name for name, stored in STORED[column].items()}
    if number in names or column != "held":
        return {names[number]}
    return {name for bit, name in names.items() if number & bit}


def bare_numbers(statement: str) -> Iterator[str]:
    """Numbers of coded columns whose name is in no comment on their line."""
    for place, line in enumerate(statement.splitlines(), 1):
        code, _, comment = line.partition("--")
        said = set(re.findall(r"[a-z_]+", comment))
        for found in (*COMPARED.finditer(code), *MASKED.finditer(code), *NAMED.finditer(code)):
            for number in map(int, found["numbers"].split(",")):
                missing = names_of(found["column"], number) - said
                if missing:
                    yield f"line {place}: {found[0]!r} without {', '.join(sorted(missing))}"
        if re.search(rf"{_COLUMN}|::smallint", code):  # what a case or a choice makes of them
            for found in PRODUCED.finditer(code):
                number = next(int(group) for group in found.groups() if group)
                if not said & {name for numbers in STORED.values() for name, n in numbers.items() if n == number}:
                    yield f"line {place}: {found[0]!r} without its name"


def numbers_of(members: type[IntEnum] | type[IntFlag]) -> dict[str, int]:
    return {name.lower(): member.value for name, member in members.__members__.items()}


def test_the_numbers_of_names_do_not_change() -> None:
    assert {
        "status": {status.value: number for status, number in STATUS_NUMBER.items()},
        "state": numbers_of(State),
        "trigger": numbers_of(Trigger),
        "held": numbers_of(Held),
        "priority": numbers_of(Priority),
    } == STORED


def test_nor_do_counts_and_the_edges_of_histograms() -> None:
    assert {Measure.LAG.value: LAG, Measure.RUN.value: RUN} == EDGES
    assert [what.value for what in Count] == COUNTS
    assert {Outcome.SKIPPED, Outcome.COALESCED, Outcome.MISSED} == set(Outcome) <= set(Count)


def test_what_was_stored_is_read_as_what_it_was() -> None:
    assert {number: status.value for number, status in STATUSES.items()} == {
        number: name for name, number in STORED["status"].items()
    }
    assert {number: trigger.name.lower() for number, trigger in TRIGGERS.items()} == {
        number: name for name, number in STORED["trigger"].items()
    }


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_every_number_in_sql_has_its_name_beside_it(engine: str) -> None:
    files = sorted((ENGINES / engine).rglob("*.sql"))
    assert files

    assert [f"{file.name} {bare}" for file in files for bare in bare_numbers(file.read_text())] == []


@pytest.mark.parametrize(
    "statement",
    [
        "select 1 from jobs where status = 0",
        "select 1 from jobs where status < 2 -- status: 1 paused",
        "select 1 from jobs where\n  status + 0 >= 2 -- or so\n",
        "select 1 from runs where held & 5 = 1 -- held: 1 lane",
        "update runs set held = held | 4",
        "select 0::smallint as state from waiting",
        "select iif(state = 4, 3, 2) from history -- state: 4 cancelled",
        "select case state when 4 then 3 else 2 end from history",
        "select 1 from history where state in (2, 3) -- state: 2 succeeded",
    ],
)
def test_a_bare_number_is_found(statement: str) -> None:
    assert list(bare_numbers(statement)) != []


@pytest.mark.parametrize(
    "statement",
    [
        "select 1 from jobs where status = $2 and version = 0",
        "select 1 from jobs where status = 0 -- status: 0 active",
        "select 1 from runs where held & 5 = 1 -- held: 1 lane, 4 paused",
        "select 1 from history where state in (2, 3) -- state: 2 succeeded, 3 dead",
    ],
)
def test_one_with_its_name_is_not(statement: str) -> None:
    assert list(bare_numbers(statement)) == []
