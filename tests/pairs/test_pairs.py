"""Between any two statements of one verb another comes: whatever comes first, every promise holds.

`make test` runs a part of it, the same one each time; `make test-pairs` runs it whole, and prints the table.
"""

import secrets
from collections.abc import AsyncIterator
from zlib import crc32

import msgspec
import pytest
from tests.pairs.conftest import RAN
from tests.pairs.situations import SITUATIONS
from tests.pairs.table import Fault, Theatre, play, play_pair

from oncue.engines.postgres import running
from oncue.testing.postgres import PrivatePostgres

ONE_IN = 96


@pytest.fixture(scope="module")
async def theatre(postgres_server: PrivatePostgres, postgres_template: str) -> AsyncIterator[Theatre]:
    name = f"oncue_pairs_{secrets.token_hex(8)}"
    url = postgres_server.create_database(name, template=postgres_template)
    async with Theatre.on(url) as theatre:
        yield theatre
    postgres_server.drop_database(name)


def some(situation: str, first: str, second: str, after: int) -> bool:
    """A part of all, spread over everything."""
    return crc32(f"{situation}/{first}/{second}/{after}".encode()) % ONE_IN == 0


def see(faults: list[Fault]) -> None:
    if faults:
        pytest.fail("\n".join(map(str, faults)), pytrace=False)


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_after_some_steps(theatre: Theatre, situation: str) -> None:
    stage = await theatre.stage(situation)
    await play(stage, some, follow=["claim"])
    see(stage.faults)


@pytest.mark.pairs
@pytest.mark.parametrize("situation", SITUATIONS)
async def test_after_every_step(theatre: Theatre, situation: str, request: pytest.FixtureRequest) -> None:
    stage = await theatre.stage(situation)
    await play(stage)
    pairs = [(first, second, pair) for (first, second), pair in stage.pairs.items()]
    request.node.user_properties.append((RAN, msgspec.to_builtins(pairs)))
    see(stage.faults)


# ---------------------------------------------------------------------- faults that were found so, each in its place


@pytest.mark.parametrize(("first", "second"), [("expire", "edit"), ("edit", "expire")])
@pytest.mark.parametrize("situation", ["too late", "one-shot too late"])
async def test_what_an_edit_puts_in_the_place_of_the_expired_lives(
    theatre: Theatre, situation: str, first: str, second: str
) -> None:
    assert not await play_pair(await theatre.stage(situation), first, second)


@pytest.mark.parametrize(("first", "second"), [("cancel run", "move"), ("move", "cancel run")])
async def test_a_run_that_is_moved_while_it_is_cancelled_leaves_its_new_lane(
    theatre: Theatre, first: str, second: str
) -> None:
    assert not await play_pair(await theatre.stage("one-shot first in a group"), first, second)


@pytest.mark.parametrize(("first", "second"), [("cancel job", "purge"), ("purge", "cancel job")])
async def test_who_purges_and_who_cancels_lock_in_the_same_order(theatre: Theatre, first: str, second: str) -> None:
    assert not await play_pair(await theatre.stage("finished"), first, second)


@pytest.mark.parametrize("situation", ["waiting", "running, next free", "retrying", "one-shot with further runs"])
async def test_what_is_claimed_while_its_job_is_cancelled_is_told(theatre: Theatre, situation: str) -> None:
    assert not await play_pair(await theatre.stage(situation), "cancel job", "claim")


@pytest.mark.parametrize(("first", "second"), [("cancel job", "turn"), ("turn", "cancel job")])
async def test_a_one_shot_that_turns_recurring_while_it_is_cancelled_ends(
    theatre: Theatre, first: str, second: str
) -> None:
    assert not await play_pair(await theatre.stage("one-shot with further runs"), first, second)


@pytest.mark.parametrize("second", ["edit", "move"])
async def test_what_was_handed_back_keeps_its_token_when_it_is_edited(theatre: Theatre, second: str) -> None:
    assert not await play_pair(await theatre.stage("one-shot running"), "hand back", second)


# ----------------------------------------------------------------------------------------------- these tests can fail


class Planted(msgspec.Struct, frozen=True):
    """A bug in one statement, and where it shows."""

    statement: str
    text: str
    instead: str
    situation: str
    first: str
    second: str


PLANTED = {
    "what is claimed while its job is cancelled is not looked for": Planted(
        "has_unstopped_runs",
        "or exists (select from running where job_id = $1 and job_id <> run_id and cancel_at is null)",
        "",
        "waiting",
        "cancel job",
        "claim",
    ),
    "what expires is ended by its id alone": Planted(
        "end_waiting",
        "expires_at < $2 and token = 0",
        "expires_at < $2 or token = 0",
        "one-shot too late",
        "expire",
        "edit",
    ),
    "the lane that a run was moved to is not tended": Planted(
        "end_waiting",
        "class_id, lane, gate from gone",
        "class_id, null::bigint as lane, null::bigint as gate from gone",
        "one-shot first in a group",
        "move",
        "cancel run",
    ),
    "a cancel does not keep a run from being tried again": Planted(
        "settle_again", "and r.cancel_at is null", "", "one-shot running", "cancel run", "retry"
    ),
    "whoever lets a run wait again does not lock its job": Planted(
        "job_statuses", "for share", "", "running, next free", "retry", "pause"
    ),
    "planning does not lock the cursor": Planted("plan_take", "for update skip locked", "", "waiting", "plan", "edit"),
    "a purge does not look for what waits": Planted(
        "has_live_runs",
        "or exists (select from waiting where job_id = $1 and job_id <> run_id)",
        "",
        "one-shot finished",
        "run now",
        "purge",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
async def test_a_planted_bug_is_found(theatre: Theatre, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[bug]
    statement = running._SQL[planted.statement]
    assert planted.text in statement
    monkeypatch.setitem(running._SQL, planted.statement, statement.replace(planted.text, planted.instead))
    assert await play_pair(await theatre.stage(planted.situation), planted.first, planted.second)
