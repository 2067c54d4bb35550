"""What people did in the hours that the demo plays: created and changed jobs, made keys, paused things."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from uuid import UUID

from examples.demo.fleet import DRAINED, EDITED, JOBS, PAUSED, WRONG_ADDRESSES
from examples.demo.world import World

from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import DAY, HOUR, SECOND, Instant
from oncue.domain.job import Job
from oncue.domain.keys import key_hash, make_key
from oncue.domain.schedule import parse_schedule
from oncue.engines.port import AuditEntry, JobQuery, Key, Role
from oncue_conformance.store import Store

# user, role, note, days until it expires; the first three are printed
KEYS: list[tuple[str, Role, str | None, int | None]] = [
    ("admin", Role.ADMIN, "first key", None),
    ("billing", Role.MEMBER, "deployment of billing", 90),
    ("data", Role.VIEWER, "screen in the office", 365),
    ("web", Role.MEMBER, "deployment of the shop", 30),
    ("ops", Role.ADMIN, "on-call laptop", 7),
    ("ml", Role.MEMBER, None, None),
    ("web", Role.MEMBER, "old deployment", None),
]
REVOKED = "old deployment"


async def create_keys(store: Store) -> dict[str, str]:
    """Return the secrets of the printed ones."""
    shown: dict[str, str] = {}
    for user, role, note, days in KEYS:
        secret = make_key(store.chance.randbytes(32))
        uid = await store.accounts.user(user, store.now)
        expires_at = None if days is None else Instant(store.now + days * DAY)
        key_id = KeyId(store.new_id())
        await store.accounts.add_key(Key(key_id, key_hash(secret), uid, user, role, store.now, expires_at, note=note))
        await _audit(store, uid, "key.create", key_id, {"user_id": user, "role": role})
        if note == REVOKED:
            await store.accounts.revoke(key_id, store.now)
        elif len(shown) < 3:
            shown[f"{user} ({role})"] = secret
            await store.sessions.used({key_id: (store.now + DAY) // DAY}, {})
    return shown


async def create_jobs(store: Store, users: dict[str, UserNumber]) -> None:
    for job in JOBS:
        store.advance(7 * SECOND)
        uid, schedule = users[job.user], parse_schedule(job.schedule, store.now)
        payload = json.dumps(job.payload).encode()
        job_id = await store.recurring(schedule, uid=uid, payload=payload, task=job.task, name=job.name, **job.how)
        await _audit(store, uid, "job.create", job_id)


async def play(world: World, users: dict[str, UserNumber]) -> None:
    """Play the hours until the demo begins, with what people did in them."""
    people = People(world.store, users)
    for hours_ago, deed in DEEDS:
        await world.live_until(Instant(world.opens_at - int(hours_ago * HOUR)))
        await deed(people)
    await world.live_until(world.opens_at)


class People:
    def __init__(self, store: Store, users: dict[str, UserNumber]) -> None:
        self.store = store
        self.users = users

    async def edit_jobs(self) -> None:
        for name, fields in EDITED.items():
            job = await self._job(name)
            await self.store.edit(job.job_id, **fields)
            await _audit(self.store, job.uid, "job.edit", job.job_id)

    async def pause_jobs(self) -> None:
        for name in PAUSED:
            job = await self._job(name)
            await self.store.pause(job.job_id)
            await _audit(self.store, job.uid, "job.pause", job.job_id)

    async def pause_reports(self) -> None:
        await self.store.fleet.pause_queue("reports", self.store.now, self.users["ops"])
        await _audit(self.store, self.users["ops"], "queue.pause", None, {"queue": "reports"})

    async def drain_a_worker(self) -> None:
        worker = next(one for one in await self.store.fleet.workers() if one.name == DRAINED)
        await self.store.fleet.drain(worker.worker_id, self.store.now)
        await _audit(self.store, self.users["ops"], "worker.drain", worker.worker_id)

    async def send_invoices(self) -> None:
        for n in range(24):
            to = WRONG_ADDRESSES[n % 3] if n % 4 == 1 else f"customer-{n}@example.org"
            await self._once("billing", "send_invoice", f"invoice {10_400 + n}", {"invoice": 10_400 + n, "to": to})

    async def ask_for_reports(self) -> None:
        for city in ("Berlin", "Lyon", "Porto", "Oslo", "Graz", "Turin", "Ghent"):
            await self._once("data", "write_report", f"figures {city}", {"report": city}, queue="reports")

    async def upload_videos(self) -> None:
        for n in range(40):
            await self._once("web", "transcode", f"clip-{n:03d}", {"video": f"clip-{n:03d}.mov"}, queue="media")

    async def cancel_some(self) -> None:
        for name in ("clip-038", "clip-039"):
            job = await self._job(name)
            await self.store.jobs.cancel(None, job.job_id, self.store.now)
            await _audit(self.store, job.uid, "job.cancel", job.job_id)

    async def plan_ahead(self) -> None:
        """Two jobs that run once, later."""
        await self._once("ops", "back_up", "before the migration", {"database": "orders"}, 5 * HOUR, queue="etl")
        await self._once("web", "send_mail", "sale begins", {"list": "subscribers"}, 20 * HOUR, queue="mail")

    async def _once(
        self, user: str, task: str, name: str, payload: dict[str, object], due: int = 0, **how: object
    ) -> None:
        uid, body = self.users[user], json.dumps(payload).encode()
        job_id = await self.store.one_shot(due, uid=uid, payload=body, task=task, name=name, **how)
        await _audit(self.store, uid, "job.create", job_id)

    async def _job(self, name: str) -> Job:
        found = await self.store.lists.jobs(JobQuery(name=name))
        return found.items[0].job


DEEDS: list[tuple[float, Callable[[People], Awaitable[None]]]] = [
    (2.0, People.edit_jobs),
    (1.5, People.send_invoices),
    (1.1, People.pause_jobs),
    (0.8, People.pause_reports),
    (0.7, People.ask_for_reports),
    (0.4, People.drain_a_worker),
    (0.25, People.upload_videos),
    (0.2, People.cancel_some),
    (0.1, People.plan_ahead),
]


async def _audit(
    store: Store, uid: UserNumber, action: str, object_id: UUID | None, detail: dict[str, str] | None = None
) -> None:
    told = None if detail is None else json.dumps(detail).encode()
    await store.audit.record([AuditEntry(store.now, uid, None, action, object_id, told, "10.0.0.17")])
