"""The built-in task `command`: a program, started without a shell, under a warden."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, assert_never

from oncue.context import Context, current
from oncue.domain.instants import instant, rfc3339
from oncue.domain.placement import Resources
from oncue.executors.contained import Ending, How, outlast, start
from oncue.executors.functions import attempt
from oncue.executors.limits import Limits, limits_for
from oncue.executors.output import Output
from oncue.executors.port import TaskFailed
from oncue.secret import Secret, secrets_of_run
from oncue.settings import Settings
from oncue.tasks import Isolation, Task

# The only variables of our environment that a command gets: any other may be a secret, of ours or of other tasks.
INHERITED = {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM"}
INHERITED_BEGINNING = "LC_"

MOST_HIDDEN = 60_000  # bytes; a pipe holds some more

PASSING = {errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.ETXTBSY}  # a retry may start it


def command_task(settings: Settings) -> Task:
    """Build the task `command` for a worker with these settings. Its result: exit_code, and the end of the output."""
    here = Path.cwd()  # where commands start, wherever other tasks of the worker change to

    async def command(
        ctx: Context,
        argv: list[str],
        env: dict[str, str | Secret] | None = None,
        cwd: str | None = None,
        stdin: str | None = None,
    ) -> dict[str, Any]:
        named = {name: value.reveal() for name, value in (env or {}).items() if isinstance(value, Secret)}
        given = {name: value for name, value in (env or {}).items() if isinstance(value, str)}
        _check(argv, given | named, cwd)
        folder = str(here / (cwd or ""))
        with ExitStack() as open_files:
            stdout, stderr = _log(settings, open_files), _log(settings, open_files)
            source = open_files.enter_context(tempfile.TemporaryFile())
            source.write((stdin or "").encode(errors="replace"))
            source.seek(0)
            hidden = open_files.enter_context(_hidden({**named, **_ids(ctx)} if named else {}))
            streams = source.fileno(), stdout, stderr
            ending = await _run(settings, argv, environment(ctx, given), folder, *streams, hidden)
        _raise_unless_well(argv, cwd, ending, stderr.tail)
        return {"exit_code": 0, "output": stdout.tail.decode(errors="replace")}

    return Task(
        "command",
        command,
        isolation=Isolation.LOOP,
        takes=Isolation.PROCESS,
        defaults={},
        roles=settings.command_roles,
    )


async def _run(
    settings: Settings,
    argv: list[str],
    env: Mapping[str, str],
    folder: str,
    stdin: int,
    stdout: Output,
    stderr: Output,
    hidden: int,
) -> Ending:
    try:
        contained = await start(
            argv,
            env=env,
            cwd=folder,
            limits=_limits(settings),
            grace=settings.kill_grace,
            stdin=stdin,
            stdout=stdout.writing,
            stderr=stderr.writing,
            hidden=hidden,
        )
    except OSError as wrong:
        raise TaskFailed(
            "BadCommand", f"{argv[0]} could not start: {wrong.strerror}", retry=wrong.errno in PASSING
        ) from None
    stdout.handed_over()
    stderr.handed_over()
    try:
        return await contained.ended()
    except asyncio.CancelledError:
        await outlast(asyncio.ensure_future(contained.stop()))
        raise


def environment(ctx: Context, given: Mapping[str, str]) -> dict[str, str]:
    """Build the environment: a few variables of ours, those of the job, and the run's ids, which no job can change."""
    ours = {n: v for n, v in os.environ.items() if n in INHERITED or n.startswith(INHERITED_BEGINNING)}
    return {
        **ours,
        **{name.upper(): value for name, value in ctx.trace_headers.items()},
        **given,
        **_ids(ctx),
    }


def _ids(ctx: Context) -> dict[str, str]:
    return {
        "ONCUE_RUN_ID": str(ctx.run_id),
        "ONCUE_JOB_ID": str(ctx.job_id),
        "ONCUE_ATTEMPT": str(ctx.attempt),
        "ONCUE_SCHEDULED_FOR": rfc3339(instant(ctx.scheduled_for)),
        "ONCUE_IDEMPOTENCY_KEY": ctx.idempotency_key,
    }


@contextmanager
def _hidden(variables: Mapping[str, str]) -> Iterator[int]:
    """Give variables that only the program gets, in a pipe: its warden's environment is there for others to read."""
    written = os.fsencode("\0".join(f"{name}={value}" for name, value in variables.items()))
    if len(written) > MOST_HIDDEN:
        raise _bad(f"env: all secrets together have more than {MOST_HIDDEN} bytes")
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        try:
            fitted = not written or os.write(writing, written) == len(written)
        except BlockingIOError:
            fitted = False
        finally:
            os.close(writing)
        if not fitted:
            raise TaskFailed("BadCommand", "the environment of the command could not be passed to it")
        yield reading
    finally:
        os.close(reading)


def _check(argv: list[str], env: Mapping[str, str], cwd: str | None) -> None:
    """Refuse what no system call accepts. A retry would not help."""
    if not argv or not argv[0]:
        raise _bad("argv is empty: its first item is the program to run")
    for name in env:
        if not name or "=" in name:
            raise _bad(f"env: {name!r} is not a valid name of a variable")
    for where, texts in {"argv": argv, "env": env, "cwd": [cwd or ""]}.items():
        for text in texts:
            if why := _not_passable(text):
                raise _bad(f"{where}: {text[:40]!r} {why}")
    for name, value in env.items():  # which may be a secret
        if why := _not_passable(value):
            raise _bad(f"env: the value of {name[:40]!r} {why}")


def _not_passable(text: str) -> str:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return "cannot be encoded for the operating system"
    return "contains a NUL character" if "\0" in text else ""


def _bad(message: str) -> TaskFailed:
    return TaskFailed("BadCommand", message, retry=False)


def _limits(settings: Settings) -> Limits:
    work = attempt.get()
    return limits_for(settings, work.resources, work.timeout) if work else limits_for(settings, Resources())


def _log(settings: Settings, open_files: ExitStack) -> Output:
    output = Output(settings.max_log_bytes)
    open_files.callback(output.close)
    reports = current.get()
    output.pass_to(reports.write if reports else None, secrets_of_run.get().masking)
    return output


def _raise_unless_well(argv: list[str], cwd: str | None, ending: Ending, stderr: bytes) -> None:
    last_line = stderr.decode(errors="replace").rstrip().rpartition("\n")[2]
    said = f"{argv[0]} {ending.describe()}" + (f": {last_line}" if last_line else "")
    again = ending.number in PASSING
    match ending.how:
        case How.EXIT:
            if ending.number:
                raise TaskFailed("ExitCode", said)
        case How.SIGNAL:
            raise TaskFailed("Signal", said)
        case How.NO_PROGRAM:
            raise TaskFailed("CommandNotFound", said, retry=again)
        case How.NO_FOLDER:
            raise TaskFailed("BadCommand", f"{argv[0]} {ending.describe()}: cwd {cwd!r}", retry=again)
        case How.NO_LIMITS:
            raise TaskFailed("BadCommand", f"{said}: the system refused its limits", retry=again)
        case _:
            assert_never(ending.how)
