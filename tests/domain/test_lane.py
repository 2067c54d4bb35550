"""Which lanes a run goes through."""

from uuid import UUID

import pytest

from oncue.domain.ids import JobId, UserNumber, lane_key
from oncue.domain.instants import SECOND
from oncue.domain.job import Rate, Spec
from oncue.domain.lane import FREE, Concurrency, Held, Lanes, lanes_of
from oncue.domain.policy import Overlap

ADA, BOB = UserNumber(1), UserNumber(2)
JOB, OTHER = JobId(UUID(int=1)), JobId(UUID(int=2))
GATE = Concurrency("c", 3)


def lanes(
    uid: UserNumber = ADA,
    job_id: JobId = JOB,
    *,
    recurring: bool = False,
    overlap: Overlap = Overlap.QUEUE,
    group: str | None = None,
    gate: Concurrency | None = None,
) -> Lanes:
    return lanes_of(uid, job_id, recurring=recurring, overlap=overlap, group=group, concurrency=gate)


def test_a_plain_one_shot_waits_for_nobody() -> None:
    assert lanes() == FREE
    assert FREE.held is Held.NO


@pytest.mark.parametrize("overlap", Overlap)
def test_a_recurring_job_has_a_lane_of_its_own_unless_it_may_overlap(overlap: Overlap) -> None:
    mine = lanes(recurring=True, overlap=overlap)

    assert (mine.lane is None) == (overlap is Overlap.ALLOW)
    assert mine == lanes(recurring=True, overlap=overlap)
    assert overlap is Overlap.ALLOW or mine != lanes(job_id=OTHER, recurring=True, overlap=overlap)


@pytest.mark.parametrize("overlap", Overlap)
def test_a_group_takes_the_place_of_overlap(overlap: Overlap) -> None:
    assert lanes(recurring=True, overlap=overlap, group="g") == lanes(job_id=OTHER, group="g")


def test_groups_and_gates_are_each_users_own() -> None:
    assert lanes(group="g") != lanes(BOB, group="g")
    assert lanes(gate=GATE).gate != lanes(BOB, gate=GATE).gate
    assert lanes(group="c").lane != lanes(gate=GATE).gate  # the same name, two lanes


def test_a_gate_goes_with_a_group() -> None:
    both = lanes(group="g", gate=GATE)

    assert (both.lane, both.gate, both.width) == (lanes(group="g").lane, lanes(gate=GATE).gate, 3)


def test_a_new_member_is_held_by_each_lane_it_goes_through() -> None:
    assert lanes(group="g").held == Held.LANE
    assert lanes(gate=GATE).held == Held.GATE
    assert lanes(group="g", gate=GATE).held == Held.LANE | Held.GATE


def test_keys_fit_a_signed_64_bit_column_and_do_not_run_together() -> None:
    keys = {lane_key("group", uid, name) for uid in range(50) for name in ("1", "11", "a", "é")}

    assert len(keys) == 200
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert lane_key("group", 1, "1x") != lane_key("group", 11, "x")


def metered(key: str | None = None, *, uid: UserNumber = ADA, task: str = "t", limit: int = 1) -> Lanes:
    return Spec(task, rate=Rate(limit, SECOND, key)).lanes(uid, JOB)


def test_jobs_of_one_user_share_the_meter_of_their_key_or_else_of_their_task() -> None:
    assert metered("k") == metered("k", task="another")
    assert metered() != metered(task="another")
    assert metered("k") != metered("k", uid=BOB)
    assert metered() != metered(uid=BOB)


def test_a_meter_goes_with_what_the_newest_definition_says() -> None:
    slow, fast = metered("k").meter, metered("k", limit=9).meter

    assert slow is not None
    assert fast is not None
    assert (slow.key, slow.limit, slow.per) == (fast.key, 1, SECOND)
    assert fast.limit == 9


def test_a_new_member_waits_for_its_rate_beside_all_else() -> None:
    assert metered().held == Held.RATE
    both = Spec("t", group="g", concurrency=GATE, rate=Rate(1, SECOND)).lanes(ADA, JOB)
    assert both.held == Held.LANE | Held.GATE | Held.RATE
