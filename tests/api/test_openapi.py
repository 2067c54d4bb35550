"""The OpenAPI document: that it is one, and that the API keeps to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from tests.api.conftest import Desk
from tests.api.listening import House, listening

import oncue
from oncue.api.openapi import document
from oncue.testing.conformance.store import EmptyStore

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)


def described() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(document())
    return found


def configuration(house: House, whose: str) -> dict[str, Any]:
    return {
        "seed": 1,
        "base-url": house.address,
        "headers": {"Authorization": f"Bearer {house.keys[whose]}"},
        "dictionaries": {"ids": {"values": list(house.things.values())}, "tasks": {"values": ["mark"]}},
        "parameters": {"path.id": {"dictionary": "ids", "probability": 0.9}, "body.task": {"dictionary": "tasks", "probability": 0.9}},
        "generation": {"max-examples": 10, "deterministic": True, "no-shrink": True, "database": "none"},
        "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
        "phases": {"stateful": {"enabled": True, "max-steps": 4}},
        "operations": [{"include-path": "/v1/events", "enabled": False}],
        "cache": {"enabled": False},
    }


def test_the_api_keeps_to_its_document(empty_store: EmptyStore) -> None:
    with listening(empty_store) as house:
        for whose in ("ada",):
            schema = schemathesis.openapi.from_dict(described(), config=SchemathesisConfig.from_dict(configuration(house, whose)))
            import time
            t = time.monotonic()
            statuses = Counter()
            fails = Counter()
            for event in from_schema(schema).execute():
                if isinstance(event, events.PhaseFinished):
                    print(event.phase.name, event.status, time.monotonic() - t)
                if isinstance(event, events.NonFatalError):
                    print("ERR", event.label, str(event.value)[:600])
                if isinstance(event, events.FatalError):
                    print("FATAL", event.exception)
                if isinstance(event, events.ScenarioFinished):
                    if event.elapsed_time > 1: print("SLOW", event.phase, event.label, event.elapsed_time, len(event.recorder.interactions))
                    for case_id, one in event.recorder.interactions.items():
                        if one.response: statuses[event.recorder.cases[case_id].value.operation.label, one.response.status_code] += 1
                    for case_id, nodes in event.recorder.checks.items():
                        for node in nodes:
                            if node.failure_info:
                                f = node.failure_info.failure
                                k = (node.name, f.operation, f.title)
                                fails[k] += 1
                                if fails[k] <= 2:
                                    print("FAIL", k, f.message[:500], node.failure_info.code_sample[:500], "\n")
            for k, v in sorted(statuses.items(), key=str): print(k, v)
            print(sum(statuses.values()), len(fails))
