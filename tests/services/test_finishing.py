"""Finishing what a process that is gone had begun with a job."""

import pytest

from oncue.domain.instants import HOUR, SECOND
from oncue.domain.policy import Overlap
from oncue.engines.port import Hint, Topic
from oncue.services.finishing import MIN_PAUSE, POLL_INTERVAL, Finishing
from oncue_conformance.cancelling import CutOff, cut_off
from oncue_conformance.store import Store


async def test_a_cancel_that_was_cut_off_comes_to_its_end_and_workers_are_told(store: Store) -> None:
    job_id = await store.recurring(every=SECOND, overlap=Overlap.ALLOW)
    await store.plan_all(ahead=3_200 * SECOND)
    store.advance(1_100 * SECOND)
    worker = await store.worker()
    going = []
    for _ in range(2):
        going += await store.claim_due(worker)
    assert len(going) > 1_000  # more than the first bite tells
    with cut_off(store.engine), pytest.raises(CutOff):
        await store.jobs.cancel(None, job_id, store.now)
    sent: list[Hint] = []

    async def send(hints: list[Hint]) -> None:
        sent.extend(hints)

    store.engine.signals.send = send  # type: ignore[method-assign, assignment]
    finishing = Finishing(store.engine, store.clock)

    while (wait := await finishing.run_once()) != POLL_INTERVAL:
        assert wait == MIN_PAUSE  # at once again, until nothing is left

    assert await store.jobs.unfinished(1) == []
    assert {cancel_requests.run_id for cancel_requests in await store.fleet.cancel_requests(worker)} == {
        run.run_id for run in going
    }
    assert Hint(Topic.CANCELS, target=str(worker)) in sent
    store.advance(HOUR)
    assert await store.claimable() == []
    sent.clear()
    assert await finishing.run_once() == POLL_INTERVAL
    assert sent == []
