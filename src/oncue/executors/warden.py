"""Runs one command so that nothing it starts outlives it. A program of its own, standard library only:

    python -I -S warden.py PARENT GRACE REPORT_FD FDS HIDDEN_FD CPU MEMORY FILES FOLDER PROGRAM [ARGUMENT …]

PARENT is the process that started it; GRACE the seconds between TERM and KILL; FDS the descriptors that the program
inherits in addition to its three standard streams ("7,9", or ""); HIDDEN_FD a pipe with variables for the program's
environment that are not in ours, NAME=VALUE with NULs between, or ""; CPU in seconds, MEMORY in bytes and FILES are
limits, 0 for none; FOLDER where the program starts, "" for here.

When the program ends, the warden kills whatever it left behind. On TERM every descendant gets TERM, and KILL after the
grace. When PARENT dies, however it dies, all are killed at once. The warden reports how the program ended in one line
on REPORT_FD: `exit 3`, `signal 9`, or, with the errno of a start that failed, `folder 2`, `program 2` or `limits 1`.

On Linux a descendant cannot escape by a session of its own or by losing its parents: this process inherits it (a
subreaper). On other systems only the program's process group is contained.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PARENT_DIED = signal.SIGUSR1
STOP = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
AWAITED = {*STOP, PARENT_DIED, signal.SIGCHLD, signal.SIGALRM}
LOOK_AGAIN = 0.02  # seconds
LOOK_FOR_PARENT = 0.5  # seconds; where the system does not report a parent's death


def main(arguments: list[str]) -> None:
    # From here on a signal stays pending until it is asked for. An earlier one ends this process, which has no child.
    signal.pthread_sigmask(signal.SIG_SETMASK, AWAITED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, it would never come
    parent, grace, report = int(arguments[0]), float(arguments[1]), int(arguments[2])
    fds = [int(fd) for fd in arguments[3].split(",") if fd]
    hidden = int(arguments[4]) if arguments[4] else -1
    close_all_but([report, *fds, *([hidden] if arguments[4] else [])])
    control = process_control()
    control(PR_SET_CHILD_SUBREAPER, 1)
    control(PR_SET_PDEATHSIG, PARENT_DIED)
    if os.getppid() != parent:
        return
    os.set_inheritable(report, False)
    child, failure = start(control, hidden, arguments[5:8], arguments[8], arguments[9:])
    close_all_but([report])  # the program has its own; with ours open, their readers would see no end
    os.close(1)
    family = Family(child)
    family.watch(parent, grace)
    family.end()
    with suppress(OSError):  # the reader may be gone
        os.write(report, (failure or ended(family.status)).encode())


def close_all_but(kept: list[int]) -> None:
    """Close all but these and the standard streams: not every event loop closes what a program must not inherit."""
    most = max(4_096, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # may be -1: no limit
    for lower, upper in pairwise([2, *sorted(kept), most]):
        os.closerange(lower + 1, upper)


def process_control() -> Callable[[int, int], object]:
    if not LINUX:
        return lambda option, value: None
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def start(
    control: Callable[[int, int], object], hidden: int, limits: list[str], folder: str, argv: list[str]
) -> tuple[int, str]:
    """Start the program. Return its pid, and why it could not start, if so."""
    warden = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        stage = "limits"
        try:
            os.setsid()
            control(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != warden:
                os._exit(1)
            limit(*(int(bound) for bound in limits))
            stage = "folder"
            os.chdir(folder or ".")
            stage = "program"
            restore_signals()
            os.execvpe(argv[0], argv, os.environb | read_hidden(hidden))
        except OSError as wrong:
            os.write(writing, f"{stage} {wrong.errno}".encode())
        finally:
            os._exit(127)
    os.close(writing)
    failure = os.read(reading, 100).decode()  # waits until the program has started, which closes the other end
    os.close(reading)
    return child, failure


def read_hidden(pipe: int) -> dict[bytes, bytes]:
    """Read variables where only the program's own process holds them."""
    if pipe < 0:
        return {}
    written = b""
    while piece := os.read(pipe, 65_536):
        written += piece
    os.close(pipe)
    return {name: value for name, _, value in (one.partition(b"=") for one in written.split(b"\0")) if name}


def limit(cpu: int, memory: int, files: int) -> None:
    """Set limits. Not RLIMIT_AS: programs that reserve much more than they use (Go, Java, Node) would not start."""
    bounds = {resource.RLIMIT_CPU: cpu, resource.RLIMIT_DATA: memory, resource.RLIMIT_NOFILE: files}
    for kind, bound in bounds.items():
        hard = resource.getrlimit(kind)[1]
        if bound and (hard == resource.RLIM_INFINITY or bound < hard):
            resource.setrlimit(kind, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def restore_signals() -> None:
    """Reset all signals: a program expects none ignored and none blocked."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Family:
    """The child and all its descendants."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.status = 0  # as waitpid returns it, once the child has ended
        self.ended = False

    def watch(self, parent: int, grace: float) -> None:
        """Wait until the child has ended by itself, or no process is left after a TERM, or their time is over."""
        stopping = False
        if not LINUX:
            signal.setitimer(signal.ITIMER_REAL, LOOK_FOR_PARENT, LOOK_FOR_PARENT)
        while self.reap() and (stopping or not self.ended):
            came = signal.sigwait(AWAITED)
            if os.getppid() != parent or (came == signal.SIGALRM and stopping):
                return
            if came in STOP and not stopping:
                stopping = True
                self.send(signal.SIGTERM)
                signal.setitimer(signal.ITIMER_REAL, max(grace, LOOK_AGAIN))

    def end(self) -> None:
        """Kill until no process is left: those born during a pass are found in the next."""
        while self.reap():
            self.send(signal.SIGKILL)
            signal.setitimer(signal.ITIMER_REAL, LOOK_AGAIN)
            signal.sigwait({signal.SIGCHLD, signal.SIGALRM})

    def reap(self) -> bool:
        """Reap ended processes; return whether any is left. On Linux descendants are our children sooner or later."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX and self.in_group()
            if pid == 0:
                return True
            if pid == self.child:
                self.status, self.ended = status, True

    def in_group(self) -> bool:
        try:
            os.killpg(self.child, 0)
        except OSError:
            return False
        return True

    def send(self, number: signal.Signals) -> None:
        members = descendants() if LINUX else [(self.child, self.child)]
        if number == signal.SIGKILL or not LINUX:
            kill(members, number)
            return
        for pid, _ in members:
            with suppress(OSError):
                os.kill(pid, number)


def kill(members: list[tuple[int, int]], number: int = signal.SIGKILL) -> None:
    """Kill by group first: that is one step for all its members, and none of them can escape it by a fork."""
    groups = {group for _, group in members} - {os.getpgrp(), 0}
    for target in [*(-group for group in groups), *(pid for pid, _ in members)]:
        with suppress(OSError):  # already gone, or owned by another user by now
            os.kill(target, number)


def descendants(of: int = 0) -> list[tuple[int, int]]:
    """Process and group numbers of all descendants of a process, or of this one, by the parents in /proc."""
    children: dict[int, list[tuple[int, int]]] = {}
    with os.scandir("/proc") as entries:
        for pid in [int(entry.name) for entry in entries if entry.name.isdigit()]:
            # pathlib would take milliseconds to import. A "zombie" may be a leader whose other threads live: it counts.
            with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
                _, parent, group = stat.read().rpartition(b")")[2].split()[:3]
                children.setdefault(int(parent), []).append((pid, int(group)))
    found = children.pop(of or os.getpid(), [])
    for pid, _ in found:
        found += children.pop(pid, [])
    return found


def ended(status: int) -> str:
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


if __name__ == "__main__":
    main(sys.argv[1:])
