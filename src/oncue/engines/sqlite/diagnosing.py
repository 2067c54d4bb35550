"""What can be wrong with the file: who may read it, where it lies, and how much space is left."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.plain_text import printable
from oncue.engines.sqlite.store import WAL_BYTES

MIB = 1024 * 1024
LITTLE_SPACE, HARDLY_ANY_SPACE = 1024 * MIB, 100 * MIB
LARGE_LOG = 4 * WAL_BYTES
MOUNTS = Path("/proc/self/mounts")

# Their locks do not keep two machines from writing at once, and their shared memory is of one machine only.
_NETWORK = re.compile(r"(fuse\.)?(nfs|cifs|smb|9p$|afs$|ceph|lustre|gluster|sshfs|s3fs|rclone|gcsfuse)")
_ESCAPED = re.compile(r"\\([0-7]{3})")  # a blank in a path


def diagnose_file(path: Path, mounts: str | None = None) -> list[Diagnosis]:
    """Look at a database file. `mounts`: as in /proc/self/mounts; None: those of this machine."""
    try:
        found = [*_rights(path), _space(path), _log(path)]
    except OSError as no:
        return [problem("file", f"{printable(str(path))}: {no.strerror}", "Check the path and its permissions.")]
    if mounts is None:
        mounts = MOUNTS.read_text("utf-8", "replace") if MOUNTS.exists() else ""
    return [*found, *_file_system(path, mounts)]


def _rights(path: Path) -> Iterator[Diagnosis]:
    name, mode = printable(str(path)), stat.S_IMODE(path.stat().st_mode)
    folder = stat.S_IMODE(path.parent.stat().st_mode)
    may_replace = folder & 0o022 and not folder & stat.S_ISVTX
    if not (os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK)):
        yield problem(
            "file", f"this user may not write {name} or its folder", "Run oncue as the owner, or change the owner."
        )
    elif mode & 0o077:
        seen = f"{name} has mode {mode:o}: other users have access to it"
        yield warning("file", seen, f"Run `chmod 600 {quote(name)}`.")
    elif may_replace:
        yield warning(
            "file",
            f"the folder of {name} has mode {folder:o}: other users can replace the file",
            f"Run `chmod go-w {quote(printable(str(path.parent)))}`.",
        )
    else:
        yield ok("file", f"{name}, mode {mode:o}")


def _space(path: Path) -> Diagnosis:
    disk = os.statvfs(path)
    free = disk.f_bavail * disk.f_frsize
    seen = f"{free // MIB:,} MiB free for {printable(str(path))}"
    if free < HARDLY_ANY_SPACE:
        return problem("disk space", seen, "Free disk space now: without it nothing can be stored.")
    if free < LITTLE_SPACE:
        return warning("disk space", seen, "Free disk space, or keep less history (--retention).")
    return ok("disk space", seen)


def _log(path: Path) -> Diagnosis:
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    seen = f"the write-ahead log has {size // MIB:,} MiB"
    if size <= LARGE_LOG:
        return ok("write-ahead log", seen)
    return warning(
        "write-ahead log",
        seen,
        "A program keeps a transaction on the file open. Find it (`fuser` lists who has the file open) and end it.",
    )


def _file_system(path: Path, mounts: str) -> Iterator[Diagnosis]:
    kind = file_system(path, mounts)
    if kind is not None and _NETWORK.match(kind):
        yield problem(
            "file system",
            f"{printable(str(path))} is on a network file system ({kind}), which can damage the database",
            "Move the file to a local disk, or use PostgreSQL.",
        )
    elif kind is not None:
        yield ok("file system", printable(kind))


def file_system(path: Path, mounts: str) -> str | None:
    """Return the kind of file system that has this path: that of the longest mount point above it, mounted last."""
    above = {str(folder) for folder in (path, *path.parents)}
    found = [(where, kind) for _, where, kind, *_ in (line.split() for line in mounts.splitlines() if line)]
    real = ((_ESCAPED.sub(lambda code: chr(int(code[1], 8)), where), kind) for where, kind in found)
    fitting = [(len(where), place, kind) for place, (where, kind) in enumerate(real) if where in above]
    return max(fitting)[2] if fitting else None
