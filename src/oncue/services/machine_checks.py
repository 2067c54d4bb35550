"""What `oncue doctor` sees of this machine: permissions of local files, limits of processes."""

from __future__ import annotations

import resource
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote

from oncue.domain.diagnosis import Diagnosis, ok, problem, warning
from oncue.domain.plain_text import printable
from oncue.executors import machine
from oncue.services.first_key import FILE

FEW_OPEN_FILES = 4_096
LITTLE_MEMORY = 256  # MB; `oncue up` alone needs half of it
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})


def diagnose_machine(data_dir: Path) -> list[Diagnosis]:
    _, open_files = resource.getrlimit(resource.RLIMIT_NOFILE)  # every role raises its limit to this
    first = ""
    with suppress(OSError):
        first = Path("/proc/1/comm").read_text().strip()
    return [*files(data_dir), limits(open_files), memory(machine.memory_mb()), *first_process(first)]


def files(data_dir: Path) -> Iterator[Diagnosis]:
    """Check that no other user can read the admin key, or replace what is in the folder."""
    name, key = printable(str(data_dir)), data_dir / FILE
    try:
        mode = stat.S_IMODE(data_dir.stat().st_mode)
        of_key = stat.S_IMODE(key.stat().st_mode) if key.exists() else 0o600
    except FileNotFoundError:
        return  # a machine without local files
    except OSError as no:
        yield problem("data directory", f"{name}: {no.strerror}", "Run this command as the user that oncue runs as.")
        return
    if of_key & 0o077:
        file = printable(str(key))
        yield problem(
            "data directory",
            f"{file} has mode {of_key:o}: other users have access to the admin key",
            f"Run `chmod 600 {quote(file)}`; if others had access, create another admin key and revoke this one.",
        )
    elif mode & 0o022:
        seen = f"{name} has mode {mode:o}: other users can replace its files"
        yield warning("data directory", seen, f"Run `chmod go-w {quote(name)}`.")
    else:
        yield ok("data directory", f"{name}, mode {mode:o}")


def limits(open_files: int) -> Diagnosis:
    unlimited = open_files == resource.RLIM_INFINITY
    seen = "no limit of open files" if unlimited else f"at most {open_files:,} open files per process"
    if unlimited or open_files >= FEW_OPEN_FILES:
        return ok("limits", seen)
    return warning("limits", seen, "Raise the hard limit: LimitNOFILE of the systemd unit, or `ulimit -Hn`.")


def memory(megabytes: int) -> Diagnosis:
    seen = f"{megabytes:,} MB for all processes on this machine, or in this container"
    if megabytes >= LITTLE_MEMORY:
        return ok("memory", seen)
    return warning("memory", seen, "Raise the limit of the container: processes that exceed it are killed.")


def first_process(name: str) -> Iterator[Diagnosis]:
    """Check that stop signals arrive: a container sends them to its process 1, and a shell does not pass them on."""
    if name in SHELLS:
        yield warning(
            "process 1",
            f"a shell ({name}) is process 1 and passes no stop signal on, so runs are killed when the container stops",
            "Start oncue without a shell, or with `exec oncue …`.",
        )
