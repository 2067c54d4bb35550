"""The OpenAPI document: that it is one, that it tells all there is, and that the API keeps to it on every engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest
from tests.api.conftest import Desk
from tests.api.listening import KEY, House, listening

import oncue
from oncue.api.application import CALLS, OPEN_CALLS
from oncue.api.openapi import document
from oncue.api.routes import TEXT_ROUTES
from oncue.domain.fields import object_schema
from oncue.shapes.jobs import JobFields
from oncue_conformance.store import EmptyStore

RESULT = "/v1/runs/{id}/result"  # only one of the runs has one
EVENTS = "/v1/events"  # told for as long as somebody listens
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
SAME_BODY = (
    "jobs_replace",
    "jobs_by_key_replace",
    "jobs_batch",
)  # as jobs_create and jobs_edit: corners once are enough


def described() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(document())
    return found


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, by_method in described()["paths"].items():
        for method, operation in by_method.items():
            yield method.upper(), path, operation


def strict() -> dict[str, Any]:
    """The document as if answers had no other fields than those it names, so that none is forgotten."""
    found = described()
    for schema in found["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    logs = found["paths"]["/v1/runs/{id}/logs"]["get"]
    logs["parameters"] = [one for one in logs["parameters"] if one["name"] != "follow"]  # of a run that does not end
    return found


# -------------------------------------------------------------------------------------------------- the document itself


def test_it_is_valid() -> None:
    import schemathesis  # takes seconds, so only where it is used

    schemathesis.openapi.from_dict(described()).validate()


def test_it_tells_of_every_call_and_of_nothing_else() -> None:
    told = {(method, path) for method, path, _ in operations()}

    assert told == CALLS.keys() | {("GET", path) for path in (*OPEN_CALLS, *(route.path for route in TEXT_ROUTES))}


def test_it_does_not_tell_of_metrics_that_have_a_port_of_their_own() -> None:
    elsewhere = msgspec.json.decode(document(metrics=False))["paths"]

    assert described()["paths"].keys() - elsewhere.keys() == {route.path for route in TEXT_ROUTES}


def test_every_call_has_a_name_of_its_own_and_says_what_it_answers() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]

    assert len(set(names)) == len(names)
    for method, path, operation in operations():
        assert operation["summary"], (method, path)
        assert operation["tags"], (method, path)
        assert any(status.startswith("2") for status in operation["responses"]), (method, path)
        asks = operation.get("security") is None or path == "/v1/session"  # in its body
        assert ("401" in operation["responses"]) == asks, (method, path)


def test_whatever_is_referred_to_is_there_and_whatever_is_there_is_referred_to() -> None:
    found = described()
    names = {name.rpartition("/")[2] for name in references(found)}

    assert names == found["components"]["schemas"].keys()


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(part, list):
        for one in part:
            yield from references(one)


def test_a_job_is_described_with_all_the_fields_that_the_client_sends() -> None:
    schemas = described()["components"]["schemas"]

    assert schemas["NewJob"]["properties"].keys() == JobFields.__annotations__.keys()
    assert schemas["NewJob"]["properties"].keys() <= schemas["Job"]["properties"].keys()
    assert schemas["NewJob"]["required"] == ["task"]


def test_a_field_whose_reader_does_not_say_what_it_takes_cannot_be_described() -> None:
    with pytest.raises(KeyError):
        object_schema({"new": lambda raw, path: raw})


@pytest.mark.parametrize("who", ["root", "ada", "viewer"])
async def test_whoever_has_a_key_may_read_it(desk: Desk, who: str) -> None:
    answer = await desk.call("GET", "/openapi.json", key=who)

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json()["info"]["version"] == oncue.__version__
    assert answer.content == document()


# -------------------------------------------------------------------------------------------- that the API keeps to it


def configuration(house: House, whose: str, *, corners: bool, reads: bool) -> dict[str, Any]:
    runs = [house.things[name] for name in ("dead", "running", "succeeded", "later")]
    chosen = {"jobs": [*runs, house.things["recurring"]], "runs": runs, "keys": [house.things["spare key"]]}
    return {
        "seed": 1,
        "base-url": house.address,
        "request-timeout": 60,
        "headers": {"Authorization": f"Bearer {house.keys[whose]}"},
        "dictionaries": {
            "tasks": {"values": ["mark"]},
            "stable": {"values": [KEY]},
            "succeeded": {"values": [house.things["succeeded"]]},
            "false": {"values": ["false"]},
            **{name: {"values": ids} for name, ids in chosen.items()},
        },
        "parameters": {"body.task": often("tasks"), "path.key": often("stable")},
        "generation": {
            "max-examples": 10 if reads else 5 if corners else 1,
            "deterministic": True,
            "no-shrink": True,
            "database": "none",
        },
        "checks": {
            "enabled": False,
            **{name: {"enabled": True} for name in CHECKS},
            "negative_data_rejection": {"expected-statuses": [400, 401, 403, 404, 405, 409, 412, 413, 415, 422]},
        },
        "phases": {"coverage": {"enabled": corners}, "stateful": {"enabled": corners, "max-steps": 4}},
        "operations": [
            {"include-path": EVENTS, "enabled": False},
            *([{"exclude-method": "GET", "enabled": False}] if reads else []),
            {"include-path": RESULT, "parameters": {"path.id": often("succeeded"), "query.link": often("false")}},
            *({"include-path-regex": f"^/v1/{name}/", "parameters": {"path.id": often(name)}} for name in chosen),
            *({"include-operation-id": name, "phases": {"coverage": {"enabled": False}}} for name in SAME_BODY),
        ],
        "cache": {"enabled": False},
    }


def often(dictionary: str) -> dict[str, Any]:
    return {"dictionary": dictionary, "probability": 0.9}


def departures(
    house: House, whose: str, *, corners: bool, reads: bool = False
) -> tuple[list[str], Counter[tuple[str, int]]]:
    """Where the API was caught not keeping to its document, and how often which call gave which status."""
    import schemathesis
    from schemathesis.config import SchemathesisConfig
    from schemathesis.engine import events, from_schema

    wrong: dict[tuple[str, str], str] = {}
    seen: Counter[tuple[str, int]] = Counter()
    config = SchemathesisConfig.from_dict(configuration(house, whose, corners=corners, reads=reads))
    for event in from_schema(schemathesis.openapi.from_dict(strict(), config=config)).execute():
        match event:
            case events.FatalError(exception=error):
                raise error
            case events.NonFatalError(label=label, value=error):
                wrong[label, "error"] = f"{label}: {error}"
            case events.ScenarioFinished(recorder=recorder):
                for case_id, asked in recorder.interactions.items():
                    if asked.response is not None:
                        seen[recorder.cases[case_id].value.operation.label, asked.response.status_code] += 1
                for check in (check for checks in recorder.checks.values() for check in checks):
                    if check.failure_info is not None:
                        failure = check.failure_info.failure
                        told = f"{failure.operation}: {failure.message}\n{check.failure_info.code_sample}"
                        wrong.setdefault((failure.operation, check.name), told)
    return list(wrong.values()), seen


@pytest.mark.parametrize(("whose", "corners"), [pytest.param("root", True, marks=pytest.mark.long), ("ada", False)])
def test_the_api_keeps_to_its_document(empty_store: EmptyStore, whose: str, corners: bool) -> None:
    with listening(empty_store) as house:
        # First what only reads: an administrator's other calls may delete all that there is to be read.
        wrong, seen = departures(house, whose, corners=False, reads=True) if corners else ([], Counter())
        wrong_later, seen_later = departures(house, whose, corners=corners)

    assert wrong + wrong_later == []
    done = {label for label, status in seen | seen_later if 200 <= status < 300}
    reads = {f"{method} {path}" for method, path, _ in operations() if method == "GET" and path != EVENTS}
    if whose == "root":
        assert reads | {"POST /v1/jobs", "DELETE /v1/keys/{id}"} <= done


def test_the_stream_of_events_is_as_described(empty_store: EmptyStore) -> None:
    with listening(empty_store) as house:
        headers = {"Authorization": f"Bearer {house.keys['ada']}"}
        with httpx2.stream("GET", house.address + EVENTS, headers=headers, verify=False) as answer:
            first = next(answer.iter_lines())

    told = described()["paths"][EVENTS]["get"]["responses"]["200"]["content"]
    assert (answer.status_code, list(told)) == (200, [answer.headers["Content-Type"].partition(";")[0]])
    assert first.startswith("id: ")
