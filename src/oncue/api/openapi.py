"""The OpenAPI 3.1 document, built from the table of routes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

import oncue
from oncue.api.http.answers import stored_json
from oncue.api.http.auth import Caller
from oncue.api.http.browsers import COOKIE
from oncue.api.routes import OPEN_ROUTES, ROUTES, TEXT_ROUTES, OpenRoute, Read, Route, TextRoute
from oncue.api.schemas import components
from oncue.api.shared.context import Api
from oncue.api.shared.idempotency import LONGEST_KEY
from oncue.domain.definition import USUAL
from oncue.domain.fields import Schema, schema_of, text

PATH_PARAMETERS: dict[str, Schema] = {
    "id": {"type": "string", "format": "uuid"},
    "key": schema_of(text(USUAL.name)),
    "queue": schema_of(text(USUAL.queue)),
    "user_id": schema_of(text(USUAL.name)),
}
HEADERS: dict[str, tuple[str, Schema]] = {
    "Idempotency-Key": (
        "A retry with the same key and body gets the first answer and creates nothing twice.",
        {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[ -~]*$"},
    ),
    "If-Match": ("Change only this version: the job's ETag.", {"type": "string"}),
    "If-None-Match": ("`*`: create only; 412 if an active or paused job has this key.", {"type": "string"}),
    "Last-Event-ID": ("Continue after this event.", {"type": "string"}),
    "Range": ("One range of bytes: `bytes=0-1023`. Several ranges and other units are ignored.", {"type": "string"}),
}
REFUSALS = {
    400: "The body is not valid JSON.",
    401: "Missing or invalid API key.",
    403: "The key's role does not allow this call.",
    404: "Not found, or owned by another user.",
    408: "The body was incomplete when the time limit ended.",
    409: "The current state of the resource does not allow this.",
    412: "If-Match names another version, or If-None-Match finds a job.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    416: "The range begins after the end.",
    422: "Invalid fields; `errors` lists each of them.",
    429: "Too many requests; retry after Retry-After.",
    503: "The database is unavailable. The request may or may not have been applied; retry after Retry-After.",
}
ALWAYS = (401, 422, 429, 503)  # possible answers to every call with a key
WITH_A_BODY = (400, 408, 413, 415)
TEXT: Schema = {"type": "string"}
SENT: dict[int, str] = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
VERBS = {"POST": "create", "PATCH": "edit", "PUT": "replace", "DELETE": "delete"}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    return stored_json(document(api.serves_metrics))


ITSELF = Read("GET", "/openapi.json", show, "This document", gives={200: "OpenApi"})


@cache
def document(metrics: bool = True) -> bytes:
    """The document; `metrics` have no place in it if they have a port of their own."""
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for path, route in [*((f"/v1{route.path}", route) for route in ROUTES), (ITSELF.path, ITSELF)]:
        paths[path][route.method.lower()] = _operation(path, route)
    for open_route in OPEN_ROUTES:
        paths[open_route.path]["get"] = _open_operation(open_route)
    for text_route in TEXT_ROUTES if metrics else ():
        paths[text_route.path]["get"] = _text_operation(text_route)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "oncue",
                "version": oncue.__version__,
                "description": "A distributed job scheduler.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "security": [{"key": []}, {"session": []}],
            "tags": [{"name": name} for name in dict.fromkeys(map(_tag, paths))],
            "paths": paths,
            "components": {
                "securitySchemes": {
                    "key": {"type": "http", "scheme": "bearer"},
                    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                },
                "schemas": components(),
            },
        }
    )


def _operation(path: str, route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [_tag(path)],
        "parameters": list(_parameters(route)),
        "responses": {
            **{str(status): _answer(status, name) for status, name in route.gives.items()},
            **{str(status): _refusal(status) for status in sorted(refusals(route))},
        },
    }
    if route.signs_in:
        found["security"] = []
    if route.body is not None:
        content = {"application/json": {"schema": _ref(route.body)}}
        found["requestBody"] = {"required": not route.body_optional, "content": content}
    return found


def refusals(route: Route) -> set[int]:
    """The error statuses that a call may answer with."""
    found = {*ALWAYS, *route.refuses}
    if route.body is not None:
        found |= {*WITH_A_BODY}
    if "{id}" in route.path:
        found.add(404)
    if route.action is not None or route.admin or route.private:
        found.add(403)
    if "If-Match" in route.headers:
        found.add(412)
    return found


def _open_operation(route: OpenRoute) -> dict[str, Any]:
    answers = {"200": _answer(200, "Health"), **{str(status): _refusal(status) for status in route.refuses}}
    return {
        "operationId": route.path.strip("/"),
        "summary": route.summary,
        "tags": [_tag(route.path)],
        "security": [],
        "responses": answers,
    }


def _text_operation(route: TextRoute) -> dict[str, Any]:
    answers = {"200": _answer(200, "text/plain"), **{str(status): _refusal(status) for status in route.refuses}}
    name = route.path.strip("/").replace("/", "_")
    return {"operationId": name, "summary": route.summary, "tags": [_tag(route.path)], "responses": answers}


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS[name]}
    for name, reader in route.query.items():
        yield {"name": name, "in": "query", "schema": schema_of(reader)}
    for name in route.headers:
        description, schema = HEADERS[name]
        yield {"name": name, "in": "header", "description": description, "schema": schema}


def _answer(status: int, name: str) -> dict[str, Any]:
    """Describe an answer. A name with a slash is a media type: not JSON. There may be several, with "or"."""
    kinds = dict((one, TEXT) if "/" in one else ("application/json", _ref(one)) for one in name.split(" or "))
    found: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {media_type: {"schema": schema} for media_type, schema in kinds.items()},
    }
    if name == "Job":
        found["headers"] = {"ETag": {"required": True, "description": "The version of the job.", "schema": TEXT}}
    if "LogParts" in name:
        told = "`true`: a part of the log is not stored yet (of text that is not followed)."
        found["headers"] = {"Log-Delayed": {"required": False, "description": told, "schema": TEXT}}
    return found


def _refusal(status: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": REFUSALS[status],
        "content": {"application/problem+json": {"schema": _ref("Problem")}},
    }
    if status in SENT:
        found["headers"] = {SENT[status]: {"required": True, "schema": TEXT}}
    return found


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _tag(path: str) -> str:
    """The tag of a call: the first part of its path."""
    return path.split("/")[2] if path.startswith("/v1/") else "server"


def _operation_id(route: Route) -> str:
    """The operation id, from the path, as the client names its methods: jobs_list, jobs_run_now, jobs_by_key_show."""
    first, *rest = [part for part in route.path.strip("/").split("/") if not part.startswith("{")]
    verb = VERBS.get(route.method, "show" if "{" in route.path else "list")
    says_it = rest and not route.path.endswith("}")
    name = "_".join([first.partition(".")[0], *rest, *([] if says_it else [verb])])
    return re.sub(r"([A-Z])", r"_\1", name).replace("-", "_").lower()
