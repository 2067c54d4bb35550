"""Nobody can hurt anybody else: every case of `cases/` against a real server, on both engines. README.md tells how."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.attack.stage import Stage
from tests.processes.fleet import Fleet

pytestmark = pytest.mark.attack

ENGINES = ("sqlite", "postgres")
SHORT = os.environ.get("ONCUE_ATTACK") == "short"  # each case on one engine, which one by turns


def cases() -> list[Any]:
    """One of them at a time may keep the processors busy, beside others that mostly wait."""
    found: list[Any] = []
    names = sorted(file.stem for file in Path(__file__).parent.glob("cases/*.py"))
    for number, name in enumerate(names):
        case = load(name)
        marks = [pytest.mark.xdist_group("busy")] if getattr(case, "BUSY", False) else []
        engines = getattr(case, "ENGINES", ENGINES)
        chosen = [engines[number % len(engines)]] if SHORT else engines
        found += [pytest.param(name, engine, marks=marks) for engine in chosen]
    return found


def load(name: str) -> ModuleType:
    return importlib.import_module(f"tests.attack.cases.{name}")


@pytest.mark.parametrize(("name", "engine"), cases())
def test_the_victim_is_unhurt(name: str, engine: str, request: pytest.FixtureRequest) -> None:
    fleet: Fleet = request.getfixturevalue("fleet" if engine == "sqlite" else "postgres_fleet")
    case = load(name)
    stage = Stage(fleet, case)
    stage.victim.begin()
    case.attack(stage)
    problems = stage.problems()
    assert not problems, "\n".join([*problems, fleet.tell()])
