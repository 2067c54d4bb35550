"""The benchmark of calls: an example for each, and a store filled as the engine would have filled it."""

import re
from pathlib import Path
from uuid import UUID

import pytest
from bench.call_examples import EXAMPLES, routes
from bench.filled_store import LARGE, fill

from bench import call_examples, filled_store
from oncue.domain.ids import JobId, RunId
from oncue.domain.run import State
from oncue.engines.open import open_engine
from oncue.settings import Settings


def test_every_call_that_reads_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    assert routes().keys() == EXAMPLES.keys()

    monkeypatch.delitem(call_examples.EXAMPLES, "GET /jobs/{id}")
    with pytest.raises(ValueError, match=re.escape("GET /jobs/{id} has no example")):
        routes()


async def test_what_fills_the_store_is_read_without_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filled_store, "USERS", 10)
    monkeypatch.setattr(filled_store, "RUNNING", 110)
    url = f"sqlite:///{tmp_path}/filled.db"

    sampled = await fill(url, 500, 1_500, lambda *_: None)

    engine = await open_engine(Settings(engine=url))
    try:
        uid = await engine.accounts.find(LARGE)
        assert uid is not None
        own = sampled.ids["large"]
        states = {"ended": {State.SUCCEEDED}, "dead": {State.DEAD}, "running": {State.RUNNING}}
        for kind, expected in (states | {"recurring_run": {State.SUCCEEDED}}).items():
            runs = [await engine.history.run(uid, RunId(UUID(one))) for one in own[kind]]
            assert {run and run.state for run in runs} == expected, kind
        for kind in ("one_shot", "recurring"):
            jobs = [await engine.jobs.read(uid, JobId(UUID(one))) for one in own[kind]]
            assert all(one is not None and one.job.uid == uid for one in jobs), kind
            assert len({one.job.spec.name for one in jobs if one}) == len(jobs), kind
        assert all([await engine.jobs.keyed(uid, key) for key in own["key"]])
    finally:
        await engine.close()
