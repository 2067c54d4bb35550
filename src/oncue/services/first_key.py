"""The first admin key of a store: made exactly once, however many processes start together, and not lost by a crash."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.keys import key_hash
from oncue.engines.new_keys import new_key
from oncue.engines.port import Engine, Role

FILE = "admin.key"
USER = "admin"


async def first_key(engine: Engine, clock: Clock, data_dir: Path) -> str | None:
    """The key, if this call made it. It is in the data directory then, readable by its owner only.

    It is written down before it counts, so a crash in between leaves a file that the next start completes.
    """
    if await engine.accounts.keys():
        return await _left_by_a_crash(engine, data_dir)
    text, key = await new_key(engine, clock, USER, Role.ADMIN)
    written = _write_down(text, data_dir)
    if await engine.accounts.add_first_key(key):
        return _completed(written, text)
    written.unlink(missing_ok=True)
    return await _left_by_a_crash(engine, data_dir)  # or by who was first, and has not come to complete it


async def _left_by_a_crash(engine: Engine, data_dir: Path) -> str | None:
    for written, text in _written_down(data_dir):
        if await engine.accounts.key(key_hash(text)) is not None:
            return _completed(written, text)
        written.unlink(missing_ok=True)  # somebody else's was first
    return None


def _completed(written: Path, text: str) -> str | None:
    """None: somebody who started with us was quicker, and has told it."""
    try:
        written.replace(written.with_name(FILE))
    except FileNotFoundError:
        return None
    return text


def _written_down(data_dir: Path) -> list[tuple[Path, str]]:
    found = []
    for file in sorted(data_dir.glob(f"{FILE}.*")):
        with suppress(FileNotFoundError):  # who wrote it, or another who found it, was quicker
            found.append((file, file.read_text().strip()))
    return found


def _write_down(text: str, data_dir: Path) -> Path:
    data_dir.mkdir(parents=True, exist_ok=True)
    file = data_dir / f"{FILE}.{secrets.token_hex(4)}"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(f"{text}\n")
        out.flush()
        os.fsync(descriptor)
    return file
