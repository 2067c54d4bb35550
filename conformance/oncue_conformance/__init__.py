"""What every engine must do, as tests. An engine's author provides one fixture and imports the rest:

    # conftest.py
    @pytest.fixture
    def empty_store(tmp_path):
        async def make():                       # called: an empty store, up to date
            url = f"mine:///{tmp_path / secrets.token_hex(4)}"

            async def open_one():               # called: one more engine on that store
                return await MyEngine.open(Settings(engine=url))

            return open_one

        return make

    # test_conformance.py
    from oncue.testing.conformance import *

Every test takes a `Store` (store.py) and uses only the verbs of the port. What may differ between engines is read from
`engine.capabilities`. Time is a FakeClock's: nothing sleeps, and any engine is tested at any date.

    store               an engine as the tests see it, and short ways to create and change things
    any_history         hypothesis lets users, workers and time act at random; a model says what must follow

    creation            jobs are stored completely, once per idempotency key, each alone or all together
    repeats             idempotency keys: first come first served, and forgotten one generation at a time
    quotas              how many jobs and bytes of payload a user may have
    stable_keys         one active job per stable key; declared jobs
    editing             every run that has not started, all at once, and only if no other caller was faster
    pausing             nothing starts meanwhile, and no planned run is lost
    cancelling          final for waiting runs, requested of running ones; what a caller that is cut off leaves
    purging             everything of a job that has ended; forgetting a user

    planning            each occurrence becomes one run or one entry of the ledger
    zone_rules          time-zone rules change
    overlapping         occurrences that are due while a run of their job is active
    by_hand             run-now, backfill, running again, and their quotas
    lanes               groups in order, gates of a width
    rates               starts are granted ahead, never more of them than a rate allows
    grants              rates beside everything else that holds runs; granted starts that no worker uses
    racing              lanes, planning and rates with several processes at once
    eligibility         from when a run could start; runs that expire

    fleet               workers and their heartbeats, recovery of runs, the processes of oncue
    classes             what a worker can take, as small numbers
    claiming            peeking, and claiming at the due instant, once, with a token that rises
    fair_peeking        a few due runs of every user in turn
    holdings            what a worker holds, returns to the queue, or may not claim while it is drained
    settling            the outcome is written once, by the worker that holds the run; progress and checkpoints
    dead_letters        kept until a user requeues or discards them; failures of one kind
    telling             notices, inserted by the transaction that settles
    gathering           notices that go with another
    signalling          hints reach listeners and block nobody; pings

    reading             a job and whose it is, the diagnosis of a run, definitions of a newer oncue
    job_lists           jobs, page by page, of one user or of all
    run_lists           runs, page by page; finding things by a part of a name
    nearby              a job's last run and its next; active runs and those that have just ended
    counting            counts as things happen, and over time
    gauges              the whole cluster in numbers: now, by class, and to come
    people              users, keys, the audit log, sessions

    keeping             the ledger, logs, and history that is dropped in whole partitions
    archiving           what the archive reads and marks
    objects             an object in storage goes when nothing refers to it
    bulks               actions on many objects; turns of recurring work
    auditing            what the self-audit reads, and what it found
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator

import pytest

TOPICS = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "store")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ["store", *TOPICS]))

from oncue_conformance.store import EmptyStore, Store  # noqa: E402 (its asserts are to be rewritten)

__all__ = ["EmptyStore", "Store", "store"]


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    async with await Store.on(await empty_store()) as store:
        yield store


def _collect() -> None:
    for topic in TOPICS:
        module = importlib.import_module(f"{__name__}.{topic}")
        for name, test in vars(module).items():
            if not name.startswith("test_"):
                continue
            if name in globals():
                raise ImportError(f"two tests are called {name}: one of them would never run")
            globals()[name] = pytest.mark.anyio(test) if inspect.iscoroutinefunction(test) else test
            __all__.append(name)


_collect()
