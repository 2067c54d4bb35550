"""Nothing is silent: through outages, jumps, overlap and restarts each nominal instant has one fate, and one only."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncue.domain.ids import JobId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration
from oncue.domain.policy import CatchUp, Overlap
from oncue.domain.schedule import Schedule
from oncue.services.overlap import Overlap as OverlapService
from oncue.services.scheduler import HORIZON, OTHERS_AT_IT, Scheduler
from oncue.testing.conformance import EmptyStore, Store
from oncue_conformance.store import nominals

LENGTHS = st.sampled_from([MINUTE, 90 * SECOND, 5 * MINUTE])
ALSO_CRON = {MINUTE: "* * * * *", 5 * MINUTE: "*/5 * * * *"}
# Mostly from one occurrence to the next, so that many are due on time while the one before is still going.
STEPS = st.lists(
    st.tuples(
        st.sampled_from([MINUTE, MINUTE, MINUTE, 30 * SECOND, 10 * SECOND, 10 * MINUTE, 3 * HOUR, -MINUTE, -HOUR]),
        st.sampled_from(["claim", "nothing", "settle"]),
    ),
    min_size=4,
    max_size=20,
)


@settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    length=LENGTHS,
    as_cron=st.booleans(),
    catch_up=st.sampled_from(CatchUp),
    overlap=st.sampled_from(Overlap),
    window=st.sampled_from([MINUTE, 20 * MINUTE, 24 * HOUR]),
    steps=STEPS,
)
async def test_each_occurrence_is_a_run_or_in_the_ledger_exactly_once(
    empty_store: EmptyStore,
    length: int,
    as_cron: bool,
    catch_up: CatchUp,
    overlap: Overlap,
    window: int,
    steps: list[tuple[int, str]],
) -> None:
    async with await Store.on(await empty_store()) as store:
        began = highest = store.now  # a whole hour: cron and interval have the same instants
        schedule = (
            Schedule(cron=ALSO_CRON[Duration(length)]) if as_cron and length in ALSO_CRON else store.every(length)
        )
        job_id = await store.recurring(schedule, catch_up=catch_up, overlap=overlap, catch_up_window=Duration(window))
        for step, audit_entry in steps:
            highest = max(highest, store.advance(step))
            await one_round(store, audit_entry)

        expected = list(range(began + length, highest + HORIZON + 1, length))
        assert await fates(store, job_id, expected) == Counter(expected)
        await store.check_counts()


async def one_round(store: Store, audit_entry: str) -> None:
    """A scheduler that was just started, and a worker that lets its runs go on or comes to an end with them."""
    for _ in range(50):
        if await Scheduler(store.engine, store.clock).run_once() > OTHERS_AT_IT:
            break
    else:
        raise AssertionError("the scheduler does not come to rest")
    await OverlapService(store.engine, store.clock).run_once()
    if audit_entry == "nothing":
        return
    worker = await store.worker()
    runs = await store.claim_due(worker)
    if audit_entry == "settle":
        await store.succeed(worker, *runs)


async def fates(store: Store, job_id: JobId, expected: list[int]) -> Counter[int]:
    """How often each nominal instant is accounted for. A stretch in the ledger must count what lies in it."""
    found: Counter[int] = Counter(nominals(await store.runs(job_id=job_id)))
    for entry in await store.ledger(job_id):
        inside = [at for at in expected if entry.first <= at <= entry.last]
        assert len(inside) == entry.count, entry
        found.update(inside)
    return found
