"""Find the secrets that a run names, and keep their values out of everything it says.

Values are found when an attempt starts and live in its context only; process-isolated runs get them over their socket.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from uuid import UUID

from msgspec.structs import replace

from oncue.context import Reports
from oncue.domain.attempt import LONGEST_ERROR
from oncue.domain.errors import Invalid, SecretMissing
from oncue.domain.masking import MaskedStream, Masking
from oncue.domain.plain_text import message_of, printable
from oncue.domain.secret_refs import SHARED, SecretAccess, is_name, own_folder, variable
from oncue.executors.calling import arguments_of, as_failure
from oncue.executors.port import Executor, ProcessLost, TaskFailed, Work
from oncue.secret import Asked, RunSecrets, finding, secrets_of_run
from oncue.tasks import Task

LARGEST = 64 * 1024  # bytes of a value


class SecretSource:
    """A worker's secrets: files in a folder, then variables of the environment that it was started with."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self._folder = Path(folder)
        self._environment = environment

    def resolve(self, names: Iterable[str], access: SecretAccess) -> dict[str, str]:
        """Return the values. SecretMissing: one is not there, or not for this user; OSError: it cannot be read now.

        Reads files: not for the event loop.
        """
        return {name: self._value(name, access) for name in names}

    def _value(self, name: str, access: SecretAccess) -> str:
        if not is_name(name):
            raise SecretMissing(f"no secret {printable(name)!r}: secrets do not have such names")
        places = list(self._places(access))
        for place in places:
            if (found := self._read(place, name)) is not None:
                return found
        if access.shared and (value := self._environment.get(variable(name))):
            return value
        raise SecretMissing(f"no secret {name!r}: looked for {self._looked_for(name, places, access)}")

    def _places(self, access: SecretAccess) -> Iterator[Path]:
        """Folders in the order in which they are searched. A flat one, as of systemd, counts as shared."""
        if own := own_folder(access.user_id):
            yield self._folder / own
        if access.shared:
            yield self._folder / SHARED
            yield self._folder

    def _read(self, folder: Path, name: str) -> str | None:
        """Return the text of a file without byte order mark and last line end; None: there is no such file.

        A link may lead elsewhere in the folder only: Kubernetes has such links, and replaces them at once.
        """
        try:
            path = (folder / name).resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except RuntimeError:  # links that lead in a circle, before Python 3.13
            raise SecretMissing(f"the file of secret {name!r} is a link that leads nowhere") from None
        if not path.is_relative_to(folder.resolve()) or not folder.resolve().is_relative_to(self._folder.resolve()):
            raise SecretMissing(f"the file of secret {name!r} is a link that leads out of its folder")
        content = _content(path)
        if content is None:
            return None
        if len(content) > LARGEST:
            raise SecretMissing(f"the file of secret {name!r} has more than {LARGEST} bytes")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SecretMissing(f"the file of secret {name!r} is not UTF-8 text") from None
        if not text.strip():
            raise SecretMissing(f"the file of secret {name!r} is empty")
        return text.removesuffix("\n").removesuffix("\r")

    def _looked_for(self, name: str, places: list[Path], access: SecretAccess) -> str:
        files = [str((place / name).relative_to(self._folder)) for place in places]
        said = ", ".join(map(printable, [f"{file} in secrets_dir" for file in files]))
        if access.shared:
            return f"{said}, and {printable(variable(name))} in the worker's environment"
        only = "; shared secrets are for the roles in secret_roles"
        return (said or "no file, because this user's id cannot be the name of a folder") + only


NO_SECRETS = SecretSource("/nonexistent", {})


def _content(path: Path) -> bytes | None:
    """Read a file; None: it is none. A pipe, which would keep the reader waiting, is not read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.read(descriptor, LARGEST + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def names_in(task: Task, payload: bytes | None) -> list[str]:
    """Return the names of all secrets that a payload asks for. TaskFailed: it does not fit the task."""
    asked = Asked()
    with finding(RunSecrets(asked)):
        arguments_of(task, payload)
    return sorted(asked)


class WithSecrets:
    """An executor that gives a run its secrets, and masks them in all that comes out of it."""

    def __init__(self, executor: Executor, source: SecretSource, access: SecretAccess) -> None:
        self._executor = executor
        self._source = source
        self._access = access

    async def run(self, work: Work) -> bytes | None:
        secrets = await self._found(work)
        secrets_of_run.set(secrets)  # in the context of this attempt, which its threads copy
        reports = MaskedReports(work.reports, secrets.masking)
        try:
            return secrets.masking.json(await self._executor.run(replace(work, reports=reports)))
        except (asyncio.CancelledError, ProcessLost):
            raise
        except BaseException as error:  # the edge of user code
            raise masked(as_failure(error), secrets.masking) from None
        finally:
            reports.finish()

    async def close(self) -> None:
        """Does nothing: the executor closes itself."""

    async def _found(self, work: Work) -> RunSecrets:
        try:
            names = names_in(work.task, work.payload)
            return RunSecrets(await asyncio.to_thread(self._source.resolve, names, self._access))
        except SecretMissing as missing:
            raise as_failure(missing) from None
        except OSError as wrong:
            said = f"a secret cannot be read: {os.strerror(wrong.errno or 0)}"
            raise TaskFailed("SecretUnreadable", said) from None


def masked(failed: TaskFailed, masking: Masking) -> TaskFailed:
    """Return the failure with masked texts, which may have been cut inside of a value."""
    return TaskFailed(
        masking.excerpt(failed.kind),
        masking.excerpt(message_of(failed, LONGEST_ERROR)),
        retry=failed.retry,
        after=failed.after,
        trace=masking.excerpt(failed.trace),
        path=None if failed.path is None else masking.excerpt(failed.path),
        traceback=masking.excerpt(failed.traceback),
    )


class MaskedReports:
    """`Reports` of a run that has secrets. Progress is numbers; a number that is a secret is not reported."""

    def __init__(self, reports: Reports, masking: Masking) -> None:
        self._reports = reports
        self._masking = masking
        self._stream = MaskedStream(masking)
        self._lock = Lock()

    @property
    def cancelled(self) -> bool:
        return self._reports.cancelled

    def write(self, text: str) -> None:
        with self._lock:
            self._reports.write(self._stream.feed(text))

    def finish(self) -> None:
        """Write what was held back: the run is over, and nothing follows that would make it a value."""
        with self._lock, suppress(Exception):
            self._reports.write(self._stream.feed("", final=True))

    def progress(self, stored: bytes) -> None:
        if not self._masking.found_in(stored):
            self._reports.progress(stored)

    def save(self, stored: bytes) -> Awaitable[None]:
        """Invalid: it has a secret in it. Masked, it would be of no use to the next attempt."""
        if self._masking.found_in(stored):
            raise Invalid.of("checkpoint", "has_secret", "contains the value of a secret; save something else")
        return self._reports.save(stored)

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        """Invalid: it has a secret in it, which would be stored in plain text."""
        if self._masking.found_in(asked):
            raise Invalid.of("payload", "has_secret", "contains the value of a secret; name the secret instead")
        return self._reports.submit(asked)
