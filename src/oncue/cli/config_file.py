"""Settings in a file: `oncue.toml`, or `[tool.oncue]` in `pyproject.toml`."""

from __future__ import annotations

import os
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from oncue.cli.file_values import typed
from oncue.settings import DECLARED

RENAMED: Final = {
    "request_rate": "rate_limit",
    "quota_jobs": "max_jobs_per_user",
    "quota_payload": "max_payload_bytes_per_user",
    "keep_history": "retention",
    "history_width": "partition_span",
    "log_cap": "max_log_bytes",
    "result_cap": "max_result_bytes",
    "payload_cap": "max_payload_bytes",
    "memory_limit_mb": "process_memory_mb",
    "open_files_limit": "process_open_files",
    "repeat_for": "idempotency_retention",
    "name": "worker_name",
    "grace": "shutdown_grace",
    "stop_grace": "kill_grace",
    "most_abandoned": "max_abandoned_threads",
    "http_body_cap": "max_http_body_bytes",
    "cpu": "worker_cpu",
    "memory_mb": "worker_memory_mb",
}
VARIABLE = re.compile(r"\$\{(\w+)\}")


class ConfigFile(msgspec.Struct, frozen=True):
    name: str
    values: dict[str, Any]


def read_config(given: str | None) -> ConfigFile | None:
    """Read the file that was named, else the one of this folder. None: there is none."""
    if given is not None:
        if not given.strip():
            raise click.UsageError("--config is empty; name a file")
        return _checked(given, _load(Path(given)))
    if os.path.lexists("oncue.toml"):  # a folder, too, or a link to nothing: it was meant to be the file
        return _checked("oncue.toml", _load(Path("oncue.toml")))
    project = Path("pyproject.toml")
    tools = _load(project).get("tool") if os.path.lexists(project) else None
    table = tools.get("oncue") if isinstance(tools, dict) else None
    return None if table is None else _checked("[tool.oncue] in pyproject.toml", table)


def _load(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8-sig"))
    except OSError as no:
        raise click.UsageError(f"cannot read {file}: {no.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as no:
        raise click.UsageError(f"{file} is not TOML: {no}") from None


def _checked(name: str, table: Any) -> ConfigFile:
    if not isinstance(table, dict):
        raise click.UsageError(f"{name}: is not a table; write settings below it, like port = 8470")
    values = {}
    for key, value in table.items():
        if key not in DECLARED:
            near = [RENAMED[key]] if key in RENAMED else get_close_matches(key, DECLARED, 1)
            raise click.UsageError(f"{name}: {key!r} is no setting" + (f"; did you mean {near[0]!r}?" if near else ""))
        where = f"{key} in {name}"
        values[key] = typed(where, key, _expanded(where, value))
    return ConfigFile(name, values)


def _expanded(where: str, value: Any) -> Any:
    """Replace `${NAME}` by the variable, also in a list."""
    if isinstance(value, list):
        return [_expanded(where, one) for one in value]
    if isinstance(value, dict):
        raise click.UsageError(f"{where}: is a table; write one value, or a list of texts")
    return VARIABLE.sub(lambda found: _variable(where, found[1]), value) if isinstance(value, str) else value


def _variable(where: str, name: str) -> str:
    if (value := os.environ.get(name)) is None:
        raise click.UsageError(f"{where}: the environment variable {name} is not set")
    return value
