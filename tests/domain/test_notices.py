"""Who is told of what: tables of ends, entries and streaks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from oncue.domain.errors import Invalid
from oncue.domain.ids import NOTICES, SCHEDULE, ClassId, JobId, RunId, UserNumber
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Spec, decode_spec, definition_of, encode_spec
from oncue.domain.notices import fold, late_notices, late_now, notices, read_told
from oncue.domain.notify import Entry, Event, NotifyDefault, Policy, Webhook, read_entry, read_notify, refused
from oncue.domain.run import Claimed, NewRun, RunView, Settlement, State, Streak, Trigger
from oncue.domain.schedule import Schedule

NOW = Instant(1_700_000_000_000_000)
RECURRING = Schedule(every=HOUR)
A_JOB = UUID(int=1)
HOOK = Webhook("https://example.org/hook")


def claimed(spec: Spec, *, failures: int = 0, job_id: UUID = A_JOB) -> Claimed:
    return Claimed(
        *(RunId(UUID(int=2)), 1, JobId(job_id), UserNumber(7), ClassId(3), NOW, NOW, NOW, SCHEDULE),
        *(Trigger.SCHEDULE, 1, failures, 0, None, None, None, None, encode_spec(spec), None, False),
    )


def end(run: Claimed, state: State, *, failed: bool = True, at: Instant = NOW) -> Settlement:
    more = failed and state in (State.WAITING, State.DEAD)
    return Settlement(run, state, at, started_at=at, failures=run.failures + more, error_type="Boom", error="it broke")


def told(on: str, state: State, streak: int | None, *, schedule: Schedule = RECURRING, failures: int = 0) -> list[str]:
    """Return what an entry is told, of a job whose streak had so many runs (None: there was none)."""
    spec = Spec(task="t", schedule=schedule, notify=(Entry(tuple(map(Event, on.split())), HOOK),))
    run = claimed(spec, failures=failures)
    settled = replace(end(run, state), notices=notices(run, spec, end(run, state)))
    before = {} if streak is None else {run.job_id: Streak(NOW, streak)}
    return [read_told(one.payload or b"").event.value for one in fold([settled], before)[0]]


EVERY = "failing failed dead succeeded recovered"


@pytest.mark.parametrize(
    ("on", "state", "by_streak"),
    [
        # what is told after no streak, one without an ended run, one with one
        ("failing", State.WAITING, (["failing"], [], [])),
        ("failing", State.DEAD, (["failing"], [], [])),
        ("failed", State.WAITING, ([], [], [])),
        ("failed", State.DEAD, (["failed"], ["failed"], [])),
        ("failed", State.EXPIRED, (["failed"], ["failed"], [])),
        ("failing failed", State.DEAD, (["failed"], ["failed"], [])),
        ("dead", State.DEAD, (["dead"], ["dead"], ["dead"])),
        ("dead", State.EXPIRED, (["dead"], ["dead"], ["dead"])),
        ("dead", State.WAITING, ([], [], [])),
        (EVERY, State.DEAD, (["dead"], ["dead"], ["dead"])),
        ("succeeded", State.SUCCEEDED, (["succeeded"], ["succeeded"], ["succeeded"])),
        ("recovered", State.SUCCEEDED, ([], [], ["recovered"])),
        ("failing recovered", State.SUCCEEDED, ([], ["recovered"], ["recovered"])),
        ("succeeded recovered", State.SUCCEEDED, (["succeeded"], ["succeeded"], ["recovered"])),
        (EVERY, State.SUCCEEDED, (["succeeded"], ["recovered"], ["recovered"])),
        (EVERY, State.CANCELLED, ([], [], [])),
        ("late", State.DEAD, ([], [], [])),
    ],
)
def test_a_recurring_job_is_told_of_by_its_streak(on: str, state: State, by_streak: tuple[list[str], ...]) -> None:
    assert tuple(told(on, state, streak) for streak in (None, 0, 1)) == by_streak


@pytest.mark.parametrize(
    ("on", "state", "first", "after_a_failure"),
    [
        ("failing", State.WAITING, ["failing"], []),
        ("failing", State.DEAD, ["failing"], []),
        ("failing failed", State.DEAD, ["failed"], ["failed"]),
        ("failed", State.DEAD, ["failed"], ["failed"]),
        ("dead", State.DEAD, ["dead"], ["dead"]),
        ("recovered", State.SUCCEEDED, [], []),
        ("failing recovered", State.SUCCEEDED, [], ["recovered"]),
        ("succeeded", State.SUCCEEDED, ["succeeded"], ["succeeded"]),
        (EVERY, State.SUCCEEDED, ["succeeded"], ["recovered"]),
    ],
)
def test_a_one_shot_is_its_own_streak(on: str, state: State, first: list[str], after_a_failure: list[str]) -> None:
    once = Schedule()
    assert told(on, state, None, schedule=once) == first
    assert told(on, state, None, schedule=once, failures=1) == after_a_failure


def test_a_lost_attempt_that_is_retried_tells_nothing() -> None:
    spec = Spec(task="t", notify=(Entry((Event.FAILING,), HOOK),))
    run = claimed(spec)
    assert notices(run, spec, end(run, State.WAITING, failed=False)) is None


def test_a_job_says_whom_to_tell_or_leaves_it_to_the_default() -> None:
    default = NotifyDefault((Entry((Event.DEAD,), HOOK),))
    for notify, told_of in ((None, 1), ((), 0), ((Entry((Event.DEAD,), email=("a@b.c",)),) * 2, 2)):
        spec = Spec(task="t", notify=notify)
        run = claimed(spec)
        found = notices(run, spec, end(run, State.DEAD), default)
        assert (0 if found is None else len(found.notices)) == told_of


def test_while_muted_only_the_streak_is_kept() -> None:
    spec = Spec(task="t", schedule=RECURRING, notify=(Entry((Event.FAILED,), HOOK),))
    run = claimed(spec)
    settled = end(run, State.DEAD)
    for until, told_of in ((NOW + 1, 0), (NOW, 1)):
        found = notices(run, spec, settled, NotifyDefault(muted_until=Instant(until)))
        assert found is not None
        assert (found.step is not None, len(found.notices)) == (True, told_of)


def test_nobody_is_told_of_a_notice() -> None:
    default = NotifyDefault((Entry((Event.DEAD, Event.FAILING, Event.SUCCEEDED), HOOK),))
    spec = Spec(task="t", notify=default.entries)
    run = claimed(spec)
    found = notices(run, spec, end(run, State.DEAD), default)
    assert found is not None
    notice = found.notices[0].run
    of_notice = decode_spec(notice.spec or b"")
    again = claimed(of_notice, job_id=NOTICES)

    assert (notice.job_id, of_notice.notify) == (NOTICES, None)
    for state in (State.DEAD, State.WAITING, State.SUCCEEDED):
        assert notices(again, of_notice, end(again, state), default) is None


def test_ids_of_notices_follow_from_attempt_and_entry() -> None:
    spec = Spec(task="t", notify=(Entry((Event.FAILING,), HOOK), Entry((Event.FAILING,), email=("a@b.c",))))
    run = claimed(spec)

    def made(run: Claimed) -> list[RunId]:
        found = notices(run, spec, end(run, State.WAITING))
        assert found is not None
        return [notice.run.run_id for notice in found.notices]

    assert made(run) == made(run)
    assert len(set(made(run)) | set(made(replace(run, token=2)))) == 4


def test_each_target_has_a_meter_of_its_own() -> None:
    def meter(entry: Entry) -> int:
        spec = Spec(task="t", notify=(entry,))
        run = claimed(spec)
        found = notices(run, spec, end(run, State.DEAD))
        assert found is not None
        lanes = found.notices[0].run.lanes
        assert lanes.meter is not None
        assert (lanes.meter.limit, lanes.meter.per) == (1, 3 * SECOND)
        return lanes.meter.key

    one = Entry((Event.DEAD,), HOOK)
    assert meter(one) == meter(replace(one, on=(Event.FAILED,), text="hi"))
    assert len({meter(one), meter(Entry((Event.DEAD,), email=("a@b.c",))), meter(Entry((Event.DEAD,), slack="x"))}) == 3


def test_whom_to_tell_is_no_part_of_what_runs() -> None:
    assert definition_of(Spec(task="t"), None) == definition_of(Spec(task="t", notify=()), None)


def late_run(**how: Any) -> RunView:
    found: dict[str, Any] = dict.fromkeys(("failures", "losses"), 0) | {"state": State.WAITING, "wanted": NOW} | how
    fixed = (RunId(UUID(int=2)), JobId(UUID(int=1)), UserNumber(7), ClassId(3), found.pop("state"), NOW)
    wanted, failures, losses = (found.pop(name) for name in ("wanted", "failures", "losses"))
    return RunView(*fixed, wanted, None, Trigger.SCHEDULE, 0, failures, losses, 1, **found)


@pytest.mark.parametrize(
    ("run", "when"),
    [
        (late_run(), NOW + MINUTE),
        (late_run(wanted=Instant(NOW + HOUR)), NOW + HOUR + MINUTE),
        (late_run(failures=1), None),
        (late_run(losses=1), None),
        (late_run(state=State.RUNNING), None),
        (late_run(state=State.SUCCEEDED), None),
        (late_run(state=State.CANCELLED), None),
        (None, None),
    ],
)
def test_a_run_is_late_until_it_has_started(run: RunView | None, when: int | None) -> None:
    spec = Spec(task="t", notify=(Entry((Event.LATE,), HOOK),))
    new = NewRun(RunId(UUID(int=2)), JobId(UUID(int=1)), UserNumber(7), ClassId(3), NOW, NOW)
    [notice] = late_notices(new, spec)
    assert notice.wanted == NOW + MINUTE
    assert late_now(read_told(notice.payload or b""), run, NOW) == when


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ({"on": ["failed"]}, "one_channel"),
        ({"on": ["failed"], "webhook": "https://a.b/", "email": "a@b.c"}, "one_channel"),
        ({"webhook": "https://a.b/"}, "required"),
        ({"on": [], "webhook": "https://a.b/"}, "wrong_type"),
        ({"on": ["test"], "webhook": "https://a.b/"}, "unknown_value"),
        ({"on": ["failed"], "email": "nobody"}, "bad_address"),
        ({"on": ["failed"], "email": "a@b.c\r\nBcc: x@y.z"}, "bad_text"),
        ({"on": ["failed"], "email": []}, "too_short"),
        ({"on": ["failed"], "email": ["a@b.c"] * 11}, "too_many"),
        ({"on": ["failed"], "slack": "https://example.org/services/x"}, "bad_url"),
        ({"on": ["failed"], "slack": "http://hooks.slack.com/services/x"}, "bad_url"),
        ({"on": ["failed"], "discord": "https://discord.com.example.org/api"}, "bad_url"),
        ({"on": ["failed"], "teams": "https://logic.azure.com.evil.org/"}, "bad_url"),
        ({"on": ["failed"], "slack": {"secret": "x", "more": 1}}, "bad_secret"),
        ({"on": ["failed"], "webhook": {"url": "https://a.b/", "secret": "plain"}}, "bad_secret"),
        ({"on": ["failed"], "webhook": "https://a.b/", "text": "x" * 501}, "too_long"),
    ],
)
def test_an_entry_that_cannot_be_told_is_refused(raw: dict[str, Any], code: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_notify([raw], "notify")
    assert code in {problem.code for problem in refusal.value.problems}


def test_entries_are_read_in_every_form() -> None:
    raw = [
        {"on": ["failed", "failed"], "webhook": "https://a.b/x"},
        {"on": ["late"], "webhook": {"url": "https://a.b/x", "secret": {"secret": "s"}}, "late_after": "5m"},
        {"on": ["dead"], "email": ["a@b.c", "d@e.f"], "text": "{job_name}\nagain"},
        {"on": ["dead"], "slack": {"secret": "chat"}},
        {"on": ["dead"], "teams": "https://prod-1.westeurope.logic.azure.com:443/workflows/x"},
        {"on": ["dead"], "discord": "https://discord.com/api/webhooks/1/x"},
    ]
    found = read_notify(raw, "notify")
    assert [entry.channel for entry in found] == ["webhook", "webhook", "email", "slack", "teams", "discord"]
    assert found[0].on == (Event.FAILED,)
    assert found[1].late_after == Duration(300 * SECOND)
    assert decode_spec(encode_spec(Spec(task="t", notify=found))).notify == found


@pytest.mark.parametrize(
    ("raw", "policy", "anybody", "codes"),
    [
        ({"webhook": "http://example.org/"}, Policy(), False, ["bad_url"]),
        ({"webhook": "http://example.org/"}, Policy(plain=True), False, []),
        ({"webhook": "https://127.0.0.1/"}, Policy(), True, ["refused_address"]),
        ({"email": "a@example.org"}, Policy(), True, ["no_mail"]),
        ({"email": "a@example.org"}, Policy(mail=True), True, []),
        ({"email": "a@example.org"}, Policy(mail=True), False, ["refused_address"]),
        ({"email": "a@Example.org"}, Policy(mail=True, mail_to=("@example.org",)), False, []),
        ({"email": "a@bexample.org"}, Policy(mail=True, mail_to=("example.org",)), False, ["refused_address"]),
        ({"email": "a@example.org"}, Policy(mail=True, mail_to=("b@example.org",)), False, ["refused_address"]),
    ],
)
def test_an_installation_says_where_notices_may_go(
    raw: dict[str, Any], policy: Policy, anybody: bool, codes: list[str]
) -> None:
    entry = read_entry(raw, "entry", test=True)
    assert [problem.code for problem in refused([entry], policy, "notify", anybody=anybody)] == codes
