"""The simulation can fail: planted bugs in engines and services spoil its stories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.engines.mutants import MUTANTS, Mutant
from tests.simulation.service_mutants import BACKLOG_MUTANTS, SERVICE_MUTANTS, Plant
from tests.simulation.story import tell

from oncue.engines.port import Engine

ENOUGH = 200  # seeds, when the one that was known tells another story by now
GOOD: dict[int, bool] = {}

# Each bug of an engine, and a seed whose story it spoils.
SEEN = {
    "settle matches on the run's id only": 12,
    "settle does not compare tokens": 267,
    "a buried worker's late result is taken": 12,
    "save is not fenced": 37,
    "claim forgets to raise the token": 0,
    "the planner dies between two commits": 1,
    "a worker declared dead can claim": 4,
    "a worker declared dead is told that it holds its runs": 1,
    "what is held is shown without its job's definition": 33,
    "what a worker is told it holds may be another's": 7,
    "what is held is shown under its job's newest definition": 49,
    "those running do not hold their place in a lane": 213,
    "a retry loses its place in its lane": 65,
    "a pause holds nothing": 1,
    "an edit does not notice that planning went on": 15,
    "an edit does not notice another edit": 20,
    "successes are counted twice": 0,
    "expiry ends what has been tried": 5,
    "handing back spends an attempt": 2,
    "another user's run can be read": 2,
    "another user's job can be cancelled": 2,
    "a paused queue is claimed from": 0,
    "losses are not counted: a poison is immortal": 1,
    "starts that were granted are not counted": 0,
    "a paused run is granted a start": 2,
    "a retry does not wait for its rate": 0,
    "nobody looks at a meter again when a run is tried again": 2,
    "nobody looks at a meter again when a run is let into its lane": 0,
}
# What no story can show, and why.
UNSEEN = {
    "what is no longer held is withdrawn": "it must be let in between a look and the next call; 200 stories had none",
    "settle does not compare workers": "tokens rise with every claim, so the token alone refuses whoever lost a run",
    "cancel answers before the claim in flight": "others act before and after a call to the store, not inside of it",
    "a snapshot is read in two looks": "others act before and after a call to the store, not inside of it",
    "claims come a microsecond early": "workers ask on the instant and not before: the store's refusal is never needed",
    "a whole batch is stored one by one": "nobody in the simulation asks for all or nothing",
    "a key with another body is taken for a repeat": "nobody in the simulation uses idempotency keys",
    "a job's key is not looked for in the generation before": "nobody in the simulation uses idempotency keys",
    "the peek's window is closed at its beginning": "a run that is seen twice is claimed once all the same",
    "a worker that has beaten meanwhile is buried": "it must beat between a look and the next call",
    "a claim takes runs after its deadline": "its worker finds them, and whether they count as lost decides nothing",
    "what a worker holds is told to every worker": "who asks for such a run by its id is told that it holds none",
    "a worker declared dead is told all that it held": "what it then settles or returns is refused",
    "a worker is asked only once": "nothing says how soon a run that is to stop has to; its timeout ends it, too",
    "retention takes open dead letters": "no story lasts as long as history is kept",
    "the first key is looked for, then added": "nobody in the simulation has a key",
    **dict.fromkeys(
        (
            "who takes others along does not write down whom",
            "a message that was begun goes with another",
            "a requeued message goes with another",
        ),
        "nobody in the simulation is told of runs",
    ),
    **dict.fromkeys(
        (
            "a key is not looked for in the generation before",
            "a refusal opens a key that has its answer",
            "after a refusal things are made with another id",
            "an answer leaves the key open that another's refusal opened",
            "an idempotency key stands for any body",
            "anybody's answer is kept",
            "both generations are emptied at once",
            "of those who come after a refusal all get the key",
            "the last answer is kept instead of the first",
        ),
        "nobody in the simulation sends a request again",
    ),
    **dict.fromkeys(
        (
            "who is let in as it is stored counts as held up until then",
            "who is let in later counts as late from when it was wanted",
            "the series of all classes is kept as that of one",
            "hours that were minutes replace those that are there",
        ),
        "nobody in the simulation looks at what is measured",
    ),
    "a fair peek ends with the last user": "all users of the simulation fit in one round",
    "a fair peek shows runs twice": "all users of the simulation fit in one round",
    "a fair peek shows what is held": "what cannot be claimed is asked for in vain, no more",
    "a fair peek shows what runs": "what cannot be claimed is asked for in vain, no more",
    "a fair peek shows the future": "what cannot be claimed is asked for in vain, no more",
    "a fair peek shows retries before their time": "what cannot be claimed is asked for in vain, no more",
    "another user's run can be explained": "nobody in the simulation asks for an explanation",
    "those in line before a run are not counted": "nobody in the simulation asks for an explanation",
    "paused ones count as in line": "nobody in the simulation asks for an explanation",
    "who is let in counts as in line": "nobody in the simulation asks for an explanation",
    "those running are in nobody's way": "nobody in the simulation asks for an explanation",
    "places are among the runs of every class": "nobody in the simulation asks for an explanation",
    "any worker's beat counts for a run": "nobody in the simulation asks for an explanation",
    "starts that nobody makes use of are not taken back": "without faults a start seldom has to wait for long",
    "starts that were made use of are taken back when the run waits again": "a retry may start a little sooner",
    "starts are forgotten while they count": "nobody in the simulation tends history",
    "what is handed back waits for its rate again": "it starts later than it could, and nothing says when it has to",
    "nobody looks at a meter again when a run is resumed": "the next run with that rate has somebody look",
    "nobody looks at a meter again when a resume releases what came to wait meanwhile": "the next run has one look",
    "what came to wait while a pause was decided keeps its place": "it must come between a look and the next call",
    "a run that waits for its rate loses its place at its gate": "others go ahead of it, and no more than may at once",
    "what has expired is granted a start": "others start later than they could, and nothing says when they have to",
    **dict.fromkeys(
        (
            "what other time-zone rules computed stays until it is due",
            "newer time-zone rules are waited for for ever",
            "older time-zone rules go on planning beside newer ones",
        ),
        "only the stories of test_zones.py have two kinds of rules",
    ),
    "the oldest definition decides how fast a meter is": "all rates with one key are the same",
    **dict.fromkeys(
        (
            "a turn is taken by everybody who asks",
            "a turn waits for a clock that was set back",
            "who comes late with a turn moves it back",
            "a finding that is seen again counts as new",
            "a finding that was cleared stays so",
            "open findings are forgotten before others",
            "the audit finds what runs among what should have expired",
            "a stretch is found only if all of it is in the window",
            "a paused run counts as held",
            "what a lane holds counts as due",
            "what runs counts as due",
        ),
        "nobody in the simulation audits the store or looks at the whole of it",
    ),
}


def test_every_engine_mutant_is_seen_or_known_to_be_unseen() -> None:
    here = {mutant.bug for mutant in MUTANTS if "sqlite" in mutant.engines}

    assert SEEN.keys() | UNSEEN.keys() == here
    assert SEEN.keys() & UNSEEN.keys() == set()


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", [pytest.param(m, id=m.bug) for m in MUTANTS if m.bug in SEEN])
async def test_a_bug_of_an_engine_spoils_a_story(mutant: Mutant) -> None:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for statement in mutant.statements:
            if statement.module.startswith("sqlite"):
                statement.plant(patch)

    assert await spoils_a_story(SEEN[mutant.bug], plant, mutant.plant)


@pytest.mark.mutants
@pytest.mark.parametrize(("plant", "seed"), SERVICE_MUTANTS.values(), ids=SERVICE_MUTANTS)
async def test_a_bug_of_a_service_spoils_a_story(plant: Plant, seed: int) -> None:
    assert await spoils_a_story(seed, plant)


@pytest.mark.mutants
@pytest.mark.parametrize(("plant", "story"), BACKLOG_MUTANTS.values(), ids=BACKLOG_MUTANTS)
async def test_a_bug_in_sharing_spoils_a_long_story(plant: Plant, story: Callable[[], Awaitable[list[str]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert await story()


async def spoils_a_story(
    known: int, plant: Plant, plant_in: Callable[[Engine], Engine] = lambda engine: engine
) -> bool:
    """By the seed that is known to show it, or by any other: a story that is a good one without the bug."""
    for seed in (known, *range(ENOUGH)):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            spoilt = (await tell(seed, plant_in)).problems
        if spoilt and await is_good(seed):
            return True
    return False


async def is_good(seed: int) -> bool:
    """Whether its story is a good one without a bug; told once for all of them."""
    if seed not in GOOD:
        GOOD[seed] = not (await tell(seed)).problems
    return GOOD[seed]
