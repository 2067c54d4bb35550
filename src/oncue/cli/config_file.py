"""Settings in a file: `oncue.toml`, or `[tool.oncue]` in `pyproject.toml`."""

from __future__ import annotations

from typing import Any, Final

import click
import msgspec

from oncue.cli.file_values import typed
from oncue.domain.meanings import nearest
from oncue.settings import DECLARED
from oncue.settings_file import expanded, find_settings

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


class ConfigFile(msgspec.Struct, frozen=True):
    name: str
    values: dict[str, Any]


def read_config(given: str | None) -> ConfigFile | None:
    """Read the file that was named, else the one of this folder. None: there is none."""
    if given is not None and not given.strip():
        raise click.UsageError("--config is empty; name a file")
    try:
        found = find_settings(given)
        return None if found is None else _checked(found.name, found.table)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def _checked(name: str, table: Any) -> ConfigFile:
    if not isinstance(table, dict):
        raise click.UsageError(f"{name}: is not a table; write settings below it, like port = 8470")
    values = {}
    for key, value in table.items():
        if key not in DECLARED:
            meant = RENAMED.get(key) or nearest(key, DECLARED)
            raise click.UsageError(f"{name}: {key!r} is no setting" + (f"; did you mean {meant!r}?" if meant else ""))
        where = f"{key} in {name}"
        values[key] = typed(where, key, expanded(where, value))
    return ConfigFile(name, values)
