"""The server of a folder: it writes its address beside `admin.key`, and holds a lock on it for as long as it runs.

So commands and programs find it by the folder, on whatever port; and what a killed server left behind is not taken for
a running one, whose port may be another server's by then: the kernel releases the lock. A folder may be shared with a
container or another machine, where the same address is another place: that is written down, too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from oncue.settings_file import expanded, find_settings

_PREFIX = "address."
LONGEST = 10_000  # bytes of such a file
KEY_FILE = "admin.key"
USUAL_FOLDER = ".oncue"
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_BOOT, _NETWORK = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/net")
_EVERY = {"://0.0.0.0:": "://127.0.0.1:", "://[::]:": "://[::1]:"}  # of which a client cannot be sure to reach it


class LocalServer(msgspec.Struct, frozen=True):
    url: str
    database: str
    """Where its jobs are, as its banner shows it."""
    live: bool
    """False: it has stopped, or runs elsewhere; this was its address on this machine."""
    since: int


def data_dir() -> Path:
    """Return the data directory of this folder, as a server that starts here does. ValueError: its file is damaged."""
    if given := os.environ.get("ONCUE_DATA_DIR"):
        return Path(given)
    file = find_settings(os.environ.get("ONCUE_CONFIG") or None, "data_dir")
    value = file.table.get("data_dir") if file is not None and isinstance(file.table, dict) else None
    if file is None or value is None:
        return Path(USUAL_FOLDER)
    where = f"data_dir in {file.name}"
    found = expanded(where, value)
    if not isinstance(found, str) or not found.strip():
        raise ValueError(f"{where}: is no folder; write its name in quotes")
    return Path(found)


@contextmanager
def announced(folder: Path, url: str, database: str) -> Iterator[str | None]:
    """Say in this block that the server of this folder is at `url`; yields why that is impossible, if it is.

    The file stays: it says where to expect the server again. The block has to begin before the server listens, and to
    end after it: a client that finds an open port and no lock takes the server for another one.
    """
    held = why = None
    try:
        held = _write(folder, f"{_reachable(url)}\n{database}\n{_place()}\n")
    except OSError as no:
        why = no.strerror or str(no)
    try:
        yield why
    finally:
        if held is not None:
            os.close(held)


def local_server(folder: Path) -> LocalServer | None:
    """Return the server of this data directory: of several the one that started last, and a live one rather."""
    return max(local_servers(folder), key=lambda one: (one.live, one.since), default=None)


def local_servers(folder: Path) -> list[LocalServer]:
    """A client asks this before each request: this takes 50 microseconds."""
    files: list[Path] = []
    with suppress(OSError):  # not ours to read: then its key is not, either
        files = [file for file in folder.iterdir() if file.name.startswith(_PREFIX)]
    return [server for file in files if (server := _read(file)) is not None]


def _read(file: Path) -> LocalServer | None:
    try:
        descriptor = _opened(file)
    except OSError:
        return None
    try:
        url, database, place = os.fsdecode(os.read(descriptor, LONGEST)).splitlines()
        of = os.fstat(descriptor)
        live = _is_same(place, _place()) and _locked(descriptor)
        us = os.geteuid()
        owners = (us,) if us else (0, file.parent.stat().st_uid)  # root could read anybody's
        # Anybody may give away a folder with a file in it that leads elsewhere, or put one into a shared folder.
        trusted = of.st_uid in owners and (is_here(url) or live)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return LocalServer(url, database, live, of.st_mtime_ns) if trusted else None


def _opened(file: Path) -> int:
    """Return its descriptor. A link is not followed, and a pipe does not wait for a writer."""
    return os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)


def is_here(url: str) -> bool:
    """Whether this address is on this machine, whatever machine that is."""
    return urlsplit(url).hostname in _HERE


def local_key(folder: Path) -> str | None:
    try:
        return (folder / KEY_FILE).read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _write(folder: Path, text: str) -> int:
    """Return the descriptor that holds the lock. Nobody sees the file before it is locked, and so takes it for old."""
    file = folder / f"{_PREFIX}{os.urandom(4).hex()}"
    hidden = file.with_name(f".{file.name}")
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, os.fsencode(text))
        hidden.replace(file)
    except OSError:
        os.close(descriptor)
        hidden.unlink(missing_ok=True)
        raise
    _remove_old(folder)
    return descriptor


def _remove_old(folder: Path) -> None:
    for file in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            descriptor = _opened(file)
            try:
                if not _locked(descriptor):
                    file.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether a server holds the lock. Those who ask share theirs, so that none takes another for a server."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@cache
def _place() -> str:
    """Return what an address counts for: this machine since it was started, and of its networks that of our container.
    A dash is for what cannot be known here.
    """
    boot = network = "-"
    with suppress(OSError):
        boot = _BOOT.read_text().strip()
    with suppress(OSError):
        network = str(_NETWORK.stat().st_ino)
    return f"{boot} {network}"


def _is_same(place: str, ours: str) -> bool:
    return all(one == our or "-" in (one, our) for one, our in zip(place.split(), ours.split(), strict=True))


def _reachable(url: str) -> str:
    for every, here in _EVERY.items():
        url = url.replace(every, here)
    return url
