"""What bench/api.py measures of creating: with keys and without, from many connections and from one."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from bench import bare
from oncue.client import Client
from oncue.clock import SystemClock
from oncue.domain.instants import DAY, SECOND, Instant, rfc3339
from oncue_bench import procfs
from oncue_bench.http_load import CONNECTIONS, Load, load, request
from oncue_bench.processes import told_in

BATCH = 1_000
ALONE = 2_000  # created one after the other in a round

Row = dict[str, object]


@dataclass
class Served:
    """Some `oncue api` on one store. `label` tells apart the source they come from."""

    label: str
    addresses: list[str]
    key: str
    pids: list[int]
    store_pid: int | None

    def spent(self) -> tuple[float, float]:
        """Return the processor time of the API and of the database, in seconds."""
        if not procfs.readable():
            return 0.0, 0.0
        store = procfs.busy_seconds(self.store_pid) if self.store_pid else 0.0
        return sum(map(procfs.busy_seconds, self.pids)), store


@contextmanager
def serving(
    engine_url: str,
    folder: str,
    servers: int,
    source: str | None = None,
    store_pid: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Run so many `oncue api`; the first of them makes the key of an administrator, in an empty store.

    `source`: of another version. `settings`: names after ONCUE_, with their values.
    """
    command = [sys.executable, "-m", "oncue", "api", "--json", "--port", "0"]
    command += ["--data-dir", folder, "--engine", engine_url]
    env = os.environ | {f"ONCUE_{name}": value for name, value in (settings or {}).items()}
    env |= {} if source is None else {"PYTHONPATH": source}
    started, told = list[subprocess.Popen[str]](), list[dict[str, str]]()
    try:
        for _ in range(servers):
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env))
            door = started[-1].stdout
            assert door is not None
            told.append(told_in(door.readline()))
        addresses, pids = [one["address"] for one in told], [process.pid for process in started]
        yield Served("" if source is None else f" ({source})", addresses, told[0].get("admin_key", ""), pids, store_pid)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def figures(found: Load) -> Row:
    assert all(status < 300 for status in found.statuses), found.statuses
    return {
        "per_second": round(found.rate),
        "p50_ms": round(found.percentile(0.5), 2),
        "p99_ms": round(found.percentile(0.99), 2),
    }


async def warm_up(served: Served) -> None:
    for keyed in (True, False):
        requests = partial(_singles, key=served.key, count=2_000, keyed=keyed)
        await _shared(served, CONNECTIONS, 2_000, requests)
    await asyncio.to_thread(_by_client, served, 50)


async def creating(served: list[Served], reference: str, options: argparse.Namespace) -> list[Row]:
    """One round: each figure is taken of every version before the next one, and beside the bare server."""
    rows: list[Row] = []
    many, alone = await bare.measure(reference), await bare.measure(reference, ALONE, connections=1)
    rows += [
        {"what": f"a bare server, {CONNECTIONS} connections", "per_second": round(many)},
        {"what": "a bare server, one after the other", "per_second": round(alone)},
    ]
    for what, measure in _measures(options).items():
        for one in served:
            before = one.spent()
            found, jobs = await measure(one)
            row = {"what": what + one.label, **figures(found), "per_second": round(jobs / found.seconds)}
            api, store = (1e6 * (after - was) / jobs for was, after in zip(before, one.spent(), strict=True))
            row |= {"api_us": round(api), "store_us": round(store) if one.store_pid else ""}
            if "batches" not in what:
                row["of_bare"] = round(found.rate / (alone if "after the other" in what else many), 2)
            rows.append(row)
    return rows


def _measures(options: argparse.Namespace) -> dict[str, Callable[[Served], Awaitable[tuple[Load, int]]]]:
    async def single(served: Served, *, keyed: bool, connections: int, count: int) -> tuple[Load, int]:
        made = await _shared(served, connections, count, lambda at: _singles(at, served.key, count, keyed=keyed))
        return made, len(made.took)

    async def by_client(served: Served) -> tuple[Load, int]:
        return await asyncio.to_thread(_by_client, served, ALONE), ALONE

    async def batched(served: Served) -> tuple[Load, int]:
        made = await _shared(served, 2, options.batched, lambda at: _batches(at, served.key, options.batched))
        return made, len(made.took) * BATCH

    many, one = f"{CONNECTIONS} connections", "one after the other"
    measures: dict[str, Callable[[Served], Awaitable[tuple[Load, int]]]] = {
        f"create with a key, {many}": lambda s: single(s, keyed=True, connections=CONNECTIONS, count=options.singles),
        f"create without a key, {many}": lambda s: single(
            s, keyed=False, connections=CONNECTIONS, count=options.singles
        ),
        f"create with a key, {one}": lambda s: single(s, keyed=True, connections=1, count=ALONE),
        f"create by oncue.client, {one}": by_client,
    }
    return measures | ({f"create, batches of {BATCH:,}": batched} if options.batched else {})


async def _shared(
    served: Served, connections: int, count: int, requests: Callable[[str], Callable[[int], Iterator[bytes]]]
) -> Load:
    """Share the connections and the requests out among the servers."""
    addresses = served.addresses if connections > 1 else served.addresses[:1]
    each = count // len(addresses)
    sources = {address: requests(address) for address in addresses}
    loads = (
        load(address, max(1, connections // len(addresses)), lambda source=source: source(each))
        for address, source in sources.items()
    )
    found = await asyncio.gather(*loads)
    return Load(
        sum((one.statuses for one in found), Counter()),
        [took for one in found for took in one.took],
        max(one.seconds for one in found),
    )


def _singles(address: str, key: str, count: int, *, keyed: bool) -> Callable[[int], Iterator[bytes]]:
    """Due tomorrow: nothing but their creation is measured. A key for each, as our clients send it."""
    jobs = (json.dumps(_job(n)).encode() for n in range(count))
    written = [request(address, key, "POST", "/v1/jobs", job, str(uuid4()) if keyed else "") for job in jobs]
    return lambda each: iter(written[:each])


def _batches(address: str, key: str, count: int) -> Callable[[int], Iterator[bytes]]:
    body = json.dumps({"jobs": [_job(n) for n in range(BATCH)]}).encode()
    return lambda each: (request(address, key, "POST", "/v1/jobs/batch", body) for _ in range(each // BATCH))


def _by_client(served: Served, count: int) -> Load:
    """Create by our own client, in a thread of its own."""
    clock, found = SystemClock(), Load()
    with Client(served.addresses[0], served.key) as client:
        client.jobs.create(**_job(0))
        began = clock.monotonic()
        for n in range(count):
            sent = clock.monotonic()
            client.jobs.create(**_job(n))
            found.took.append((clock.monotonic() - sent) / 1_000)
    found.seconds = (clock.monotonic() - began) / SECOND
    found.statuses[201] = count
    return found


def _job(n: int) -> dict[str, object]:
    due = rfc3339(Instant(SystemClock().now() // DAY * DAY + 2 * DAY))
    return {"task": "mark", "schedule": due, "payload": {"n": n}}
