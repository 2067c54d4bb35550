"""The derived secrets of webhooks, by the master key of this installation and how often each was replaced."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import secrets
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.errors import Invalid
from oncue.domain.ids import UserNumber
from oncue.domain.signing import derived_secret, generations, url_hash
from oncue.engines.port import Notices
from oncue.settings import Settings


class DerivedSecrets:
    """Reads the key when it is needed first. Invalid: its file cannot be used."""

    def __init__(self, stored: Notices, clock: Clock, settings: Settings) -> None:
        self._stored = stored
        self._clock = clock
        self._settings = settings
        self._master: bytes | None = None

    async def __call__(self, uid: UserNumber, url: str) -> list[str]:
        """Return the secrets that sign for a user's URL now, newest first."""
        if self._master is None:
            self._master = await asyncio.to_thread(master_key, self._settings)
        found = await self._stored.generation(uid, url_hash(url))
        return [
            derived_secret(self._master, uid, url, number)
            for number in generations(found.number, found.rotated_at, self._clock.now())
        ]


FILE = "master.key"
LENGTH = 32  # bytes


def master_key(settings: Settings) -> bytes:
    """Read the key; the first process that needs it makes it. Invalid: the file cannot be used.

    Reads a file: not for the event loop. Processes that start together get the same key.
    """
    path = Path(settings.master_key_file or Path(settings.data_dir) / FILE)
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)
    except OSError as wrong:
        raise _unusable(path, wrong.strerror or "cannot be read") from wrong


def _read(path: Path) -> bytes:
    try:
        key = base64.b64decode(path.read_text().strip(), validate=True)
    except (binascii.Error, UnicodeDecodeError):
        key = b""
    if len(key) != LENGTH:
        raise _unusable(path, f"must be {LENGTH} bytes in base64")
    return key


def _make(path: Path) -> None:
    """Write the key whole, and then give it its name, unless another process was first."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(base64.b64encode(secrets.token_bytes(LENGTH)).decode() + "\n")
            out.flush()
            os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
    except OSError as wrong:
        raise _unusable(path, wrong.strerror or "cannot be written") from wrong


def _unusable(path: Path, why: str) -> Invalid:
    return Invalid.of("master_key_file", "unusable", f"{path}: {why}; remove it or name another file")
