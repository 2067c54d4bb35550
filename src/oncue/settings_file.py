"""Which file has the settings of this folder, and `${NAME}` in its values."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

VARIABLE = re.compile(r"\$\{(\w+)\}")


class SettingsFile(msgspec.Struct, frozen=True):
    name: str
    table: Any


def find_settings(given: str | None, having: str = "") -> SettingsFile | None:
    """Return the file that was named, else that of this folder; None: there is none. ValueError: it cannot be read.

    A file without the text `having` is not parsed, and its table is empty.
    """
    if given is not None:
        return SettingsFile(given, _load(Path(given), having))
    if os.path.lexists("oncue.toml"):  # a folder, too, or a link to nothing: it was meant to be the file
        return SettingsFile("oncue.toml", _load(Path("oncue.toml"), having))
    project = Path("pyproject.toml")
    tools = _load(project, having).get("tool") if os.path.lexists(project) else None
    table = tools.get("oncue") if isinstance(tools, dict) else None
    return None if table is None else SettingsFile("[tool.oncue] in pyproject.toml", table)


def _load(file: Path, having: str) -> dict[str, Any]:
    try:
        text = file.read_bytes()
        if having.encode() not in text:
            return {}
        import tomllib  # takes 5 ms, and most files of settings say nothing of what a client asks

        return tomllib.loads(text.decode("utf-8-sig"))
    except OSError as no:
        raise ValueError(f"cannot read {file}: {no.strerror}") from None
    except ValueError as no:  # of tomllib, or the encoding
        raise ValueError(f"{file} is not TOML: {no}") from None


def expanded(where: str, value: Any) -> Any:
    """Replace `${NAME}` by the variable, also in a list. ValueError: it is not set."""
    if isinstance(value, list):
        return [expanded(where, one) for one in value]
    if isinstance(value, dict):
        raise ValueError(f"{where}: is a table; write one value, or a list of texts")
    return VARIABLE.sub(lambda found: _variable(where, found[1]), value) if isinstance(value, str) else value


def _variable(where: str, name: str) -> str:
    if (value := os.environ.get(name)) is None:
        raise ValueError(f"{where}: the environment variable {name} is not set")
    return value
