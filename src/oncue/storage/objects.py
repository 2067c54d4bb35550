"""Object storage by obstore: one code path for a folder and for buckets."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncue.clock import Clock
from oncue.domain.errors import ObjectLost, StorageRefused, StorageUnavailable
from oncue.domain.instants import SECOND, Duration, Instant, instant
from oncue.domain.plain_text import kind_of
from oncue.domain.reference import Reference
from oncue.domain.shown_url import shown_url
from oncue.log import log
from oncue.metrics.metric import OTHER
from oncue.metrics.numbers import Numbers
from oncue.metrics.table import STORAGE_CALLS, STORAGE_ERRORS
from oncue.storage.port import Listed

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CONNECT_TIMEOUT = 3 * SECOND
CALL_TIMEOUT = 30 * SECOND
RETRIES = 2
PRIVATE = 0o700
PAGE = 1_000  # objects of a list
MARK = ".oncue"  # a file in a folder of objects
CANNOT_SIGN = ("file:", "memory:")


class ObjectStorage:
    def __init__(
        self, url: str, folder: Path | None, options: Mapping[str, object], clock: Clock, numbers: Numbers
    ) -> None:
        self.url = url
        self._folder = folder
        self._options = options
        self._clock = clock
        self._numbers = numbers
        self._store: ObjectStore | None = None
        self._found = False  # the folder, at an earlier call

    async def put(self, key: str, content: bytes) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        async with self._call("put") as store:
            with suppress(AlreadyExistsError):
                # in one request: of an upload in parts, something would stay behind when this process is killed
                await obstore.put_async(store, key, content, mode="create", use_multipart=False)
            if self._folder is not None:
                await asyncio.to_thread(_delete_first_unfinished, self._folder / key)

    async def get(self, reference: Reference) -> bytes:
        import obstore

        async with self._call("get", reference.key) as store:
            content = bytes(await (await obstore.get_async(store, reference.key)).bytes_async())
        if len(content) != reference.size or hashlib.sha256(content).hexdigest() != reference.sha256:
            self._numbers.add(STORAGE_ERRORS, "get", "lost")
            raise ObjectLost(f"the object {reference.key} has changed in storage since it was stored")
        return content

    async def get_range(self, reference: Reference, start: int, end: int) -> bytes:
        import obstore

        async with self._call("get", reference.key) as store:
            content = bytes(await obstore.get_range_async(store, reference.key, start=start, end=end))
        if len(content) != end - start:
            self._numbers.add(STORAGE_ERRORS, "get", "lost")
            raise ObjectLost(f"the object {reference.key} is shorter in storage than what was stored")
        return content

    async def link(self, reference: Reference, lifetime: Duration) -> str | None:
        import obstore

        if self.url.startswith(CANNOT_SIGN):
            return None
        async with self._call("sign") as store:
            signing: Any = store  # not a folder and not memory
            return await obstore.sign_async(signing, "GET", reference.key, timedelta(microseconds=lifetime))

    async def size(self, key: str) -> int | None:
        import obstore
        from obstore.exceptions import NotFoundError

        if self.is_new():
            return None
        async with self._call("head") as store:
            with suppress(NotFoundError, FileNotFoundError):
                return (await obstore.head_async(store, key))["size"]
        return None

    async def listed(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        if self.is_new():
            return
        pages = _files(self._folder, prefix) if self._folder else self._pages(prefix)
        while True:
            async with self._call("list"):
                page = await anext(pages, None)
            if page is None:
                return
            yield page

    async def _pages(self, prefix: str) -> AsyncIterator[Sequence[Listed]]:
        import obstore

        async for page in obstore.list(self._opened(), prefix, chunk_size=PAGE):
            yield [Listed(one["path"], one["size"], instant(one["last_modified"])) for one in page]

    async def delete(self, keys: Sequence[str]) -> None:
        import obstore
        from obstore.exceptions import NotFoundError

        if self.is_new():
            return
        async with self._call("delete") as store:
            if self._folder is None:
                await obstore.delete_async(store, list(keys))
                return
            for key in keys:
                with suppress(NotFoundError, FileNotFoundError):
                    await obstore.delete_async(store, key)
                await asyncio.to_thread(_delete_unfinished, self._folder / key)

    @asynccontextmanager
    async def _call(self, op: str, key: str = "") -> AsyncIterator[ObjectStore]:
        """Time a call, limit its time, count its errors, and raise ours in place of obstore's."""
        asked_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(CALL_TIMEOUT / SECOND):
                if self._folder is not None:
                    await asyncio.to_thread(self._find_folder, self._folder, op)
                yield self._opened()
        except Exception as error:
            kind, ours = _ours(error, op, shown_url(self.url), key)
            self._numbers.add(STORAGE_ERRORS, op, kind)
            raise ours from error
        finally:
            self._numbers.observe(STORAGE_CALLS, op, value=self._clock.monotonic() - asked_at)

    def is_new(self) -> bool:
        folder = self._folder
        if folder is None or self._found:
            return False
        return not folder.exists() or (folder.is_dir() and next(folder.iterdir(), None) is None)

    def _find_folder(self, folder: Path, op: str) -> None:
        """See that this is still the folder that has the objects, and not the empty one below a missing mount.

        Only a put marks it as ours, or makes it, and only if no earlier call of this process has found it.
        """
        found = self._found  # read before the mark is looked for: another thread may make the folder in between
        if (folder / MARK).exists():
            self._found = True
        elif found or (op == "get" and self.is_new()):
            raise StorageUnavailable(f"{folder} is missing, or is not a folder of oncue: is it mounted?")
        elif op == "put":
            folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            (folder / MARK).write_text("oncue keeps objects here\n")
            self._found = True
            log.info("A folder for large values was created", kind="storage_created", folder=str(folder))

    def _opened(self) -> ObjectStore:
        if self._store is None:
            from obstore.store import LocalStore, from_url

            if self._folder is not None:
                self._store = LocalStore(self._folder, automatic_cleanup=True)
            elif self.url.startswith("memory:"):
                self._store = from_url(self.url)
            else:
                given: Any = {"config": dict(self._options), **_CLIENT}
                given["client_options"]["allow_http"] = str(self._options.get("endpoint", "")).startswith("http://")
                self._store = from_url(self.url, **given)
        return self._store


_CLIENT = {
    "client_options": {
        "connect_timeout": timedelta(microseconds=CONNECT_TIMEOUT),
        "timeout": timedelta(microseconds=CALL_TIMEOUT),
    },
    "retry_config": {"max_retries": RETRIES, "retry_timeout": timedelta(microseconds=CALL_TIMEOUT)},
}


async def _files(folder: Path, prefix: str) -> AsyncIterator[Sequence[Listed]]:
    """Yield all files in pages: obstore does not list those that are unfinished."""
    files = _walked(folder, prefix)
    while page := await asyncio.to_thread(lambda: list(islice(files, PAGE))):
        yield page


def _walked(folder: Path, prefix: str) -> Iterator[Listed]:
    for inside, _, names in os.walk(folder / prefix):
        for name in names:
            file = Path(inside, name)
            with suppress(FileNotFoundError):  # deleted meanwhile
                told = file.stat()
                changed_at = Instant(told.st_mtime_ns // 1_000)
                yield Listed(file.relative_to(folder).as_posix(), told.st_size, changed_at)


def _delete_unfinished(file: Path) -> None:
    """Delete what writers that were killed have left of an object: obstore writes to `name#1` and then renames it."""
    for unfinished in file.parent.glob(f"{file.name}#*"):
        unfinished.unlink(missing_ok=True)


def _delete_first_unfinished(file: Path) -> None:
    """The same after a put, without listing a folder that may be large: the next writer has used the next number."""
    for number in count(1):
        try:
            file.with_name(f"{file.name}#{number}").unlink()
        except OSError:
            return


def _ours(error: Exception, op: str, url: str, key: str) -> tuple[str, Exception]:
    """Return the kind of an error for those who count, and the error to raise."""
    from obstore import exceptions

    match error:
        case StorageUnavailable():
            return "away", error
        case exceptions.PermissionDeniedError() | exceptions.UnauthenticatedError() | PermissionError():
            why = "storage does not let us in: check the keys in the environment and their rights"
            return "refused", StorageRefused(f"{why} ({op} at {url})")
        case exceptions.NotFoundError() | FileNotFoundError() if "NoSuchBucket" in str(error):
            return "refused", StorageRefused(f"there is no such bucket: create it, or change `storage` ({url})")
        case exceptions.NotFoundError() | FileNotFoundError() if op == "put":  # another process has just stored it
            return "away", StorageUnavailable(f"storage is unavailable: {op} at {url}: {kind_of(error)}")
        case exceptions.NotFoundError() | FileNotFoundError():
            return "lost", ObjectLost(f"the object {key} is not in storage any more")
        case exceptions.InvalidPathError() | exceptions.NotSupportedError() | exceptions.UnknownConfigurationKeyError():
            return "refused", StorageRefused(f"storage cannot be used like this: {error}")
        case exceptions.BaseError() | OSError():  # TimeoutError is an OSError
            return "away", StorageUnavailable(f"storage is unavailable: {op} at {url}: {kind_of(error)}")
        case _:
            return OTHER, error
