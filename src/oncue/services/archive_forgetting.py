"""Take a user out of the archive: its files, and the manifests that name them, whose chain is written anew.

It is done as a turn of the archive, so no manifest is added meanwhile: see `services.archiving`. Nothing is deleted
before the new chain is the one that counts; who is killed in between leaves manifests that the next one finds equal.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.archive import (
    TURN,
    Progress,
    encode_manifest,
    folders_of,
    large_folder,
    manifest_key,
    read_progress,
    without_user,
)
from oncue.domain.ids import UserNumber
from oncue.domain.reference import Reference
from oncue.engines.port import Engine
from oncue.services.archive_reading import Link, chain
from oncue.services.archiving import DELETED_AT_ONCE, EVERY, written_anew
from oncue.storage.port import Storage


async def forget_in_archive(engine: Engine, storage: Storage, clock: Clock, uid: UserNumber) -> bool:
    """Do what is next. True: the archive has nothing of this user. False: call again, later."""
    position = await engine.maintenance.take_turn(TURN, clock.now(), EVERY)
    if position is None:
        return False
    progress = read_progress(position)
    after = await _next(storage, progress, uid)
    if after is None:
        return True
    await engine.maintenance.finish_turn(TURN, position, msgspec.json.encode(after))
    return False


async def _next(storage: Storage, progress: Progress, uid: UserNumber) -> Progress | None:
    if progress.to_delete:
        await storage.delete(progress.to_delete)
        return replace(progress, to_delete=())
    writing = progress.writing
    if writing is not None and not writing.listed and any(file.user == uid for file in writing.files):
        return written_anew(progress, writing)
    links = [link async for link in chain(storage, progress.head)][::-1]
    first = next((n for n, (_, manifest) in enumerate(links) if any(file.user == uid for file in manifest.files)), None)
    if first is not None:
        return await _rewritten(storage, progress, links[first:], uid)
    await _sweep(storage, progress, uid)
    return None


async def _sweep(storage: Storage, progress: Progress, uid: UserNumber) -> None:
    """Delete large values, and files of the current piece that only a process knew which was killed."""
    known = () if progress.writing is None else tuple(folders_of(progress.writing.piece))
    for folder in (large_folder(uid), *known):
        keys = [one.key async for page in storage.listed(folder) for one in page if f"/user={uid}/" in one.key]
        for start in range(0, len(keys), DELETED_AT_ONCE):
            await storage.delete(keys[start : start + DELETED_AT_ONCE])


async def _rewritten(storage: Storage, progress: Progress, links: list[Link], uid: UserNumber) -> Progress:
    """Write these manifests, which are the newest, oldest first, without the user."""
    before, gone = links[0][1].before, []
    for old, manifest in links:
        content = encode_manifest(without_user(manifest, uid, before))
        before = Reference.to(manifest_key(manifest.piece, uid), content)
        await storage.put(before.key, content)
        await storage.get(before)
        gone += [old.key, *(file.key for file in manifest.files if file.user == uid)]
    return replace(progress, head=before, to_delete=tuple(gone))
