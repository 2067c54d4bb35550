"""Two processes on one SQLite file: share it under a lock, or let one own it and serve the other over a socket?

    python bench/sqlite_sharing.py            both shapes, batches of 1, 100 and 1000 (docs/design/0003)
    python bench/sqlite_sharing.py verbs      the engine's peek, claim and settle against raw SQL in the same run

Raw claims and settles: no engine code, so that only the way of sharing differs. Both shapes commit with full sync.
"""

from __future__ import annotations

import asyncio
import fcntl
import multiprocessing
import os
import queue
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import msgspec

SECONDS = 2.0
encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
Claim = Callable[[int, int], list[int]]
Settle = Callable[[list[int]], None]


def connect(path: str) -> apsw.Connection:
    db = apsw.Connection(path)
    db.set_busy_timeout(5_000)
    db.execute("pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 4000")
    return db


def prepare(path: str, runs: int) -> None:
    db = connect(path)
    db.execute("create table runs (id integer primary key, who int, state int, due int, worker int, payload blob)")
    db.execute(
        "create index ready on runs (who, due) where state = 0; create table history (id int, due int, done int)"
    )
    with db:
        db.executemany("insert into runs values (?, ?, 0, ?, null, x'7b7d')", ((i, i % 2, i) for i in range(runs)))
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    db.close()


def claim(db: apsw.Connection, who: int, limit: int) -> list[int]:
    found = db.execute(
        "update runs set state = 1, worker = ?1 where id in (select id from runs where who = ?1 and state = 0"
        " order by due limit ?2) returning id, due, payload",
        (who, limit),
    )
    ids: list[Any] = [row[0] for row in found.fetchall()]
    return ids


def settle(db: apsw.Connection, ids: list[int]) -> None:
    db.executemany("delete from runs where id = ?", [(i,) for i in ids])
    db.executemany("insert into history values (?, 0, 1)", [(i,) for i in ids])


def work(who: int, batch: int, claim_some: Claim, settle_them: Settle) -> tuple[int, list[float]]:
    """Claim and settle until the time is up; how many, and how long each call took."""
    done, took, end = 0, [], time.perf_counter() + SECONDS
    while (begun := time.perf_counter()) < end:
        ids = claim_some(who, batch)
        if not ids:
            raise SystemExit("ran dry: prepare more")
        settle_them(ids)
        took.append((time.perf_counter() - begun) / 2)
        done += len(ids)
    return done, took


# ------------------------------------------------------------------------------------------------ sharing under a lock


def share(path: str, who: int, batch: int, ready: Any, results: Any) -> None:
    db, lock = connect(path), os.open(path + ".lock", os.O_RDWR | os.O_CREAT)
    turnstile = os.open(path + ".lock-next", os.O_RDWR | os.O_CREAT)

    def in_turn(act: Callable[[], Any]) -> Any:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        try:
            db.execute("begin immediate")
            answer = act()
            db.execute("commit")
            return answer
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    ready.wait()
    results.put(
        work(who, batch, lambda w, n: in_turn(lambda: claim(db, w, n)), lambda ids: in_turn(lambda: settle(db, ids)))
    )


# ------------------------------------------------------------------------------------- one owner, reached over a socket


class Owner:
    """A writer thread that commits whatever its own process and the one at the socket have queued, all at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[tuple[Callable[[apsw.Connection], Any], Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def do(self, act: Callable[[apsw.Connection], Any]) -> Any:
        done: Future[Any] = Future()
        self._queue.put((act, done))
        return done.result()

    def serve(self, at: socket.socket) -> None:
        while frame := receive(at):
            verb, argument = decode(frame)
            act = (
                partial(claim, who=argument[0], limit=argument[1]) if verb == "claim" else partial(settle, ids=argument)
            )
            send(at, self.do(act))

    def _write(self) -> None:
        db = connect(self._path)
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            db.execute("begin immediate")
            answers = [act(db) for act, _ in batch]
            db.execute("commit")
            for (_, done), answer in zip(batch, answers, strict=True):
                done.set_result(answer)


def send(at: socket.socket, value: Any) -> None:
    frame = encode(value)
    at.sendall(struct.pack(">I", len(frame)) + frame)


def receive(at: socket.socket) -> bytes:
    head = at.recv(4, socket.MSG_WAITALL)
    return at.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL) if head else b""


def own(path: str, who: int, batch: int, ready: Any, results: Any) -> None:
    owner = Owner(path)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path + ".sock")
        door.listen()
        other, _ = door.accept()
    threading.Thread(target=owner.serve, args=(other,), daemon=True).start()
    ready.wait()
    results.put(
        work(
            who, batch, lambda w, n: owner.do(lambda db: claim(db, w, n)), lambda i: owner.do(lambda db: settle(db, i))
        )
    )
    time.sleep(SECONDS / 4)  # the other may still be at its last batch


def ask(path: str, who: int, batch: int, ready: Any, results: Any) -> None:
    at = socket.socket(socket.AF_UNIX)
    while at.connect_ex(path + ".sock"):
        time.sleep(0.01)

    def call(*what: Any) -> Any:
        send(at, what)
        return decode(receive(at))

    ready.wait()
    results.put(work(who, batch, lambda w, n: call("claim", (w, n)), lambda ids: call("settle", ids)))


def measure(name: str, shapes: list[Any], batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/shared.db"
        prepare(path, {1: 60_000, 100: 700_000}.get(batch, 1_400_000))
        ready = multiprocessing.Event()
        results: multiprocessing.Queue[tuple[int, list[float]]] = multiprocessing.Queue()
        processes = [
            multiprocessing.Process(target=shape, args=(path, who, batch, ready, results))
            for who, shape in enumerate(shapes)
        ]
        for process in processes:
            process.start()
        time.sleep(0.5)
        ready.set()
        found = [results.get() for _ in processes]
        for process in processes:
            process.join()
    rates = sorted(round(done / SECONDS) for done, _ in found)
    p99 = max(statistics.quantiles(took, n=100)[-1] for _, took in found) * 1_000
    print(
        f"{name:12} batch {batch:5}: {sum(rates):7,} runs/s, {rates[0]:,} and {rates[1]:,}; p99 of a call {p99:.1f} ms"
    )


# --------------------------------------------------------------------------------------------- the verbs of the engine


def raw(runs: int = 100_000, batch: int = 1_000) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/raw.db"
        prepare(path, runs * 2)
        db, begun = connect(path), time.perf_counter()
        for _ in range(0, runs, batch):
            db.execute("begin immediate")
            ids = claim(db, 0, batch)
            db.execute("commit; begin immediate")
            settle(db, ids)
            db.execute("commit")
        rate = runs / (time.perf_counter() - begun)
        db.close()
    return rate


async def verbs(runs: int = 50_000, batch: int = 1_000, *, scattered: bool = False) -> float:
    """Ids in the order of their instants, as of jobs that run at once; `scattered`: made long before, in any order."""
    from oncue.domain.attempt import succeeded
    from oncue.domain.change import only_run
    from oncue.domain.ids import JobId, WorkerId, uuid7
    from oncue.domain.instants import DAY, Duration, Instant
    from oncue.domain.job import Job, Spec
    from oncue.domain.schedule import Schedule
    from oncue.engines.port import NewJob, Worker
    from oncue.engines.sqlite.engine import SqliteEngine
    from oncue.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        engine = await SqliteEngine.open(Settings(engine=f"sqlite:///{Path(folder) / 'verbs.db'}"))
        now = await engine.now()
        uid, worker = await engine.accounts.user("ada", now), WorkerId(uuid4())
        await engine.fleet.register(Worker(worker, "bench", "here", Duration(DAY), now, now), now)
        due = [Instant(now + i) for i in range(runs)]
        specs = [Spec(task="noop", schedule=Schedule(at=at)) for at in due]
        [class_id] = await engine.jobs.intern([specs[0].class_key])
        made = [now if scattered else Instant(now + 100 * i) for i in range(runs)]
        ids = [JobId(uuid7(at, os.urandom(10))) for at in made]
        jobs = [Job(one, uid, spec, b'{"a":1}', now, now) for one, spec in zip(ids, specs, strict=True)]
        new = [NewJob(job, class_id, run=only_run(job, class_id, now)) for job in jobs]
        for i in range(0, runs, batch):
            await engine.jobs.create(new[i : i + batch], now)
        later, spent = due[-1], 0.0
        for _ in range(0, runs, batch):
            begun = time.perf_counter()
            peeked = await engine.running.peek([class_id], Instant(0), later, batch)
            claimed = await engine.running.claim(worker, [run.run_id for run in peeked], later)
            spent += time.perf_counter() - begun
            settlements = [succeeded(run, later, later, b"3") for run in claimed]
            begun = time.perf_counter()
            settled = await engine.running.settle(worker, settlements, later)
            spent += time.perf_counter() - begun
            assert (len(claimed), settled.lost) == (batch, frozenset())
        await engine.close()
    return runs / spent


def main() -> None:
    if sys.argv[1:] == ["verbs"]:
        found = [(raw(), asyncio.run(verbs()), asyncio.run(verbs(scattered=True))) for _ in range(5)]
        of_raw, in_order, scattered = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"raw SQL {of_raw:,.0f} runs/s")
        print(f"peek + claim + settle {in_order:,.0f} runs/s: {in_order / of_raw:.0%}")
        print(f"the same, ids scattered {scattered:,.0f} runs/s: {scattered / of_raw:.0%}")
        return
    for batch in (1, 100, 1000):
        measure("shared file", [share, share], batch)
        measure("one owner", [own, ask], batch)


if __name__ == "__main__":
    main()
