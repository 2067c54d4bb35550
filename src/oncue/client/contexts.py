"""Servers that a person has signed in to, each with a name and a key: `~/.config/oncue/config.toml`."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

import msgspec

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HEAD = "# Written by `oncue login` and `oncue context`, which keep nothing else that is in here.\n"


class Context(msgspec.Struct, frozen=True):
    url: str
    key: str
    user: str = ""

    def __repr__(self) -> str:  # keeps the key out of logs
        return f"Context({self.url!r})"


class Contexts(msgspec.Struct, frozen=True):
    current: str | None = None
    contexts: dict[str, Context] = {}
    noted: bool = False
    """Whether it was said, since the current context was chosen, that a folder's own server goes before it."""

    def named(self, name: str) -> Context:
        """ValueError: there is none with this name."""
        if name not in self.contexts:
            known = f"there are {', '.join(self.contexts)}" if self.contexts else "there is none"
            raise ValueError(f"no context has the name {name!r}: {known}; `oncue login URL` creates one")
        return self.contexts[name]


def config_file() -> Path | None:
    """Return where contexts are kept. None: this user has no home."""
    given = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    try:
        folder = given if given.is_absolute() else Path.home() / ".config"
    except RuntimeError:
        return None
    return folder / "oncue" / "config.toml"


def read_contexts() -> Contexts:
    """Return the contexts; without a file that can be read, none. ValueError: the file is damaged."""
    file = config_file()
    try:
        text = b"" if file is None else file.read_bytes()
    except OSError:
        return Contexts()
    try:
        return msgspec.toml.decode(text, type=Contexts)
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise ValueError(f"{file} is damaged ({wrong}): correct or delete it") from None


def write_contexts(contexts: Contexts) -> Path:
    """Replace the file as a whole; only its owner can read it."""
    file = config_file()
    if file is None:
        raise ValueError("this user has no home folder: set XDG_CONFIG_HOME to a folder for settings")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".config")  # readable by its owner only
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(_toml(contexts))
        Path(name).replace(file)
    except OSError as no:
        raise ValueError(f"cannot write {file}: {no.strerror}") from None
    return file


def _toml(contexts: Contexts) -> str:
    lines = [_HEAD] if contexts.current is None else [_HEAD, f"current = {_quoted(contexts.current)}\n"]
    lines += ["noted = true\n"] if contexts.noted else []
    for name, context in contexts.contexts.items():
        values = msgspec.to_builtins(context)
        lines += [f"\n[contexts.{_quoted(name)}]\n", *(f"{key} = {_quoted(value)}\n" for key, value in values.items())]
    return "".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
