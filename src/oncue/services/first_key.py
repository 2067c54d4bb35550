"""The first admin key of a store: created exactly once, however many processes start together, and kept in a crash."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.errors import OncueError
from oncue.domain.keys import key_hash
from oncue.engines.new_keys import new_key
from oncue.engines.port import Engine, Role

FILE = "admin.key"
USER = "admin"


async def first_key(engine: Engine, clock: Clock, data_dir: Path) -> str | None:
    """Return the key if this call created it. The key is then in the data directory, readable by its owner only.

    It is written to a file before it is stored, so a crash in between leaves a file that the next start completes.
    """
    if await engine.accounts.keys():
        return await _left_by_a_crash(engine, data_dir)
    text, key = await new_key(engine, clock, USER, Role.ADMIN)
    written = _write_down(text, data_dir)
    if await engine.accounts.add_first_key(key):
        return _completed(written, text)
    written.unlink(missing_ok=True)
    return await _left_by_a_crash(engine, data_dir)  # or by the process that was first and has not completed it yet


async def _left_by_a_crash(engine: Engine, data_dir: Path) -> str | None:
    for written, text in _written_down(data_dir):
        if await engine.accounts.key(key_hash(text)) is not None:
            return _completed(written, text)
        written.unlink(missing_ok=True)  # another process's key was first
    return None


def _completed(written: Path, text: str) -> str | None:
    """None: a process that started at the same time was first and has shown it."""
    try:
        written.replace(written.with_name(FILE))
    except FileNotFoundError:
        return None
    except OSError as no:
        raise _unwritable(written.with_name(FILE), no) from no
    return text


def _unwritable(file: Path, no: OSError) -> OncueError:
    return OncueError(f"cannot write the admin key to {file} ({no.strerror}); change that, then start again")


def _written_down(data_dir: Path) -> list[tuple[Path, str]]:
    found = []
    for file in sorted(data_dir.glob(f"{FILE}.*")):
        with suppress(FileNotFoundError, IsADirectoryError):  # its writer, or another process that found it, was first
            found.append((file, file.read_text().strip()))
    return found


def _write_down(text: str, data_dir: Path) -> Path:
    file = data_dir / f"{FILE}.{secrets.token_hex(4)}"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as no:
        raise _unwritable(file, no) from no
    with os.fdopen(descriptor, "w") as out:
        out.write(f"{text}\n")
        out.flush()
        os.fsync(descriptor)
    return file
