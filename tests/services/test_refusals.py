"""One thing that the store refuses keeps nobody else waiting, and nothing is tried unchanged for ever."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace
from tests.services.worker_loops import Stage, crew_on, in_place_of, work

from oncue.domain.errors import StoreRefused, StoreUnavailable
from oncue.domain.instants import MINUTE
from oncue.domain.run import Settlement, State
from oncue.engines.refusals import Refusal, apart
from oncue.services.reporting import UNWRITTEN
from oncue.services.scheduler import Scheduler
from oncue.testing.conformance import Store

BAD = "a text that no store takes \ud800"


class Refusing:
    """A verb that will not have what `bad` says, and writes nothing of the call then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verbs: object, name: str, bad: Any) -> None:
        self._real = getattr(verbs, name)
        self._bad = bad
        self.calls = 0
        monkeypatch.setattr(verbs, name, self)

    async def __call__(self, *given: Any, **options: Any) -> Any:
        self.calls += 1
        if self._bad(*given):
            raise StoreRefused("it will not have this")
        return await self._real(*given, **options)


@pytest.mark.parametrize("bad", [set(), {0}, {6}, {2, 3}, set(range(7))])
async def test_what_is_refused_stands_alone_and_the_rest_is_written_in_order(bad: set[int]) -> None:
    async def write(some: Sequence[int]) -> list[int]:
        if bad & set(some):
            raise StoreRefused(str(some))
        return [-one for one in some]

    answers = [answer async for answer in apart(range(7), write)]

    assert [one for some, _ in answers for one in some] == list(range(7))
    assert {some[0] for some, answer in answers if isinstance(answer, Refusal)} == bad
    assert [one for _, answer in answers if isinstance(answer, list) for one in answer] == [
        -one for one in range(7) if one not in bad
    ]


async def test_an_outage_is_no_refusal() -> None:
    calls = 0

    async def write(some: Sequence[int]) -> None:
        nonlocal calls
        calls += 1
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await anext(aiter(apart(range(7), write)))
    assert calls == 1


# ----------------------------------------------------------------------------------------------- what attempts came to


async def test_a_settlement_that_is_refused_is_dead_with_a_word_and_its_neighbours_are_settled(
    store: Store, logged: list[Any]
) -> None:
    run_ids = await store.one_shots(20)
    crew = await crew_on(store, Stage())
    runs = await store.claim(crew.worker_id, *run_ids)
    for number, run in enumerate(runs):
        done = Settlement(run=run, state=State.SUCCEEDED, started_at=store.now, ended_at=store.now, result=b"1")
        crew.settling.add(replace(done, error=BAD) if number == 7 else done)

    await crew.settling.run_once()

    assert not len(crew.settling)
    states = [(await store.run(run.run_id)).state for run in runs]
    assert states == [State.DEAD if number == 7 else State.SUCCEEDED for number in range(20)]
    culprit = await store.run(runs[7].run_id)
    assert culprit.error_type == "InternalError"
    assert "the outcome of this attempt could not be stored" in (culprit.error or "")
    assert [line["run_id"] for line in logged if line["log_level"] == "error"] == [str(runs[7].run_id)]


async def test_a_hand_back_that_is_refused_ends_its_run_and_the_others_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = await crew_on(store, Stage())
    runs = await store.claim(crew.worker_id, *await store.one_shots(5))
    Refusing(monkeypatch, store.engine.running, "hand_back", lambda _, some, __: runs[2] in some)
    for run in runs:
        crew.settling.add(run)

    await crew.settling.run_once()

    assert not len(crew.settling)
    states = [await store.state(run.run_id) for run in runs]
    assert states == [State.WAITING if number != 2 else State.DEAD for number in range(5)]


async def test_nothing_is_given_up_while_the_store_refuses_everything(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody took our rights away: when we have them again, what attempts came to is written as it was."""
    run_ids = await store.one_shots(5)
    crew = await crew_on(store, Stage(), concurrency=10)
    broken = True
    settles = Refusing(monkeypatch, store.engine.running, "settle", lambda *_: broken)
    await crew.worker.run_once()
    await crew.rest()
    for _ in range(3):
        with pytest.raises(StoreRefused):
            await crew.settling.run_once()
    assert len(crew.settling) == 5
    assert settles.calls < 20

    broken = False
    await crew.settling.run_once()

    assert [(await store.run(run_id)).result for run_id in run_ids] == [b"1"] * 5


async def test_one_that_even_its_substitute_does_not_save_keeps_nobody_waiting(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, *others = await store.one_shots(6)
    crew = await crew_on(store, Stage(), concurrency=10)
    Refusing(
        *(monkeypatch, store.engine.running, "settle"),
        lambda _, settlements, __: any(done.run.run_id == poison for done in settlements),
    )
    await crew.worker.run_once()
    await crew.rest()

    for _ in range(2):
        with pytest.raises(StoreRefused):
            await crew.settling.run_once()

    assert [await store.state(run_id) for run_id in others] == [State.SUCCEEDED] * 5
    assert len(crew.settling) == 1


async def test_a_batch_that_takes_too_long_is_made_smaller(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_ids = await store.one_shots(10)
    crew = await crew_on(store, Stage(), concurrency=10)
    monkeypatch.setattr("oncue.services.settling.BATCH", 10)
    crew.settling._most = 10
    real = store.engine.running.settle

    async def slow(worker_id: Any, settlements: Any, now: Any) -> Any:
        if len(settlements) > 3:
            raise StoreUnavailable("no answer in time")
        return await real(worker_id, settlements, now)

    monkeypatch.setattr(store.engine.running, "settle", slow)
    await crew.worker.run_once()
    await crew.rest()
    for _ in range(20):
        with suppress(StoreUnavailable):
            await crew.settling.run_once()

    assert [await store.state(run_id) for run_id in run_ids] == [State.SUCCEEDED] * 10


# ------------------------------------------------------------------------------------------------- what attempts say


async def test_words_that_are_refused_are_missed_in_the_log_and_not_tried_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = await crew_on(store, Stage())
    [run] = await store.claim(in_place_of(crew), await store.one_shot())
    reports = crew.reporting.of(run)
    appends = Refusing(monkeypatch, store.engine.history, "append_log", lambda _, __, text, ___: b"bad" in text)

    reports.write("bad\n")
    await crew.reporting.run_once()
    reports.write("good\n")
    for _ in range(3):
        await crew.reporting.run_once()

    assert (await store.log(run.run_id)).decode() == UNWRITTEN + "good\n"
    assert appends.calls == 2


async def test_progress_that_is_refused_is_told_in_the_log(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = await crew_on(store, Stage())
    [run] = await store.claim(in_place_of(crew), await store.one_shot())
    reports = crew.reporting.of(run)
    saves = Refusing(monkeypatch, store.engine.running, "save", lambda *_: True)

    reports.progress(b'{"done": 1, "total": null}')
    for _ in range(3):
        await crew.reporting.run_once()

    assert (await store.log(run.run_id)).decode() == UNWRITTEN
    assert saves.calls == 1


async def test_progress_is_written_after_an_outage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = await crew_on(store, Stage())
    [run] = await store.claim(in_place_of(crew), await store.one_shot())
    reports = crew.reporting.of(run)

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as outage:
        outage.setattr(store.engine.running, "save", away)
        reports.progress(b'{"done":1,"total":null}')
        with pytest.raises(StoreUnavailable):
            await crew.reporting.run_once()
    await crew.reporting.run_once()

    assert (await store.run(run.run_id)).progress == b'{"done":1,"total":null}'


async def test_a_megabyte_of_words_is_cut_before_it_is_looked_at(store: Store) -> None:
    crew = await crew_on(store, Stage(), max_log_bytes=1_000)
    [run] = await store.claim(in_place_of(crew), await store.one_shot())
    reports = crew.reporting.of(run)

    reports.write("\0\ud800é" * 1_000_000)
    await crew.reporting.run_once()

    said = (await store.log(run.run_id)).decode()
    assert said.startswith(r"\x00\ud800é")
    assert len(said) <= 1_000


# ---------------------------------------------------------------------------------------------------------- planning


async def test_a_job_whose_plan_is_refused_is_put_off_and_the_others_are_planned(
    store: Store, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    job_ids = [await store.recurring(every=MINUTE) for _ in range(20)]
    poison = job_ids[11]
    real = store.engine.planning.plan

    async def plan(until: Any, limit: Any, now: Any, decide: Any, **how: Any) -> Any:
        def refusing(job: Any) -> Any:
            made = decide(job)
            if made and job.job_id == poison and made.runs:
                raise StoreRefused("it will not have this")
            return made

        return await real(until, limit, now, refusing, **how)

    monkeypatch.setattr(store.engine.planning, "plan", plan)
    store.advance(MINUTE)
    scheduler = Scheduler(store.engine, store.clock)
    for _ in range(30):
        await scheduler.run_once()

    planned = {job_id for job_id in job_ids if await store.runs(job_id=job_id)}
    assert planned == set(job_ids) - {poison}
    assert {line["job_id"] for line in logged if line["log_level"] == "error"} == {str(poison)}

    monkeypatch.setattr(store.engine.planning, "plan", real)
    store.advance(2 * MINUTE)
    await scheduler.run_once()
    assert await store.runs(job_id=poison)


async def test_everything_of_a_worker_goes_on_beside_what_is_refused(store: Store) -> None:
    """As it was found: one task's words, and nothing that the worker did was ever written again."""
    crew = await crew_on(store, Stage(), concurrency=10)
    [run] = await store.claim(crew.worker_id, await store.one_shot())
    crew.settling.add(Settlement(run=run, state=State.DEAD, started_at=store.now, ended_at=store.now, error=f"{BAD}\0"))
    run_ids = await store.one_shots(3)

    await work(crew, passes=2)

    assert [await store.state(run_id) for run_id in (run.run_id, *run_ids)] == [State.DEAD, *[State.SUCCEEDED] * 3]
