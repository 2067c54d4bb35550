"""From the JSON of a request to a definition: what is taken, what is refused, and that all of it is told at once."""

from typing import Any

import pytest

from oncue.domain.definition import Limits, define
from oncue.domain.errors import Invalid
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, parse_instant
from oncue.domain.job import Rate, Spec
from oncue.domain.lane import Concurrency
from oncue.domain.placement import Priority, Resources
from oncue.domain.policy import CatchUp, OnLeftBehind, OnLost, Overlap, Retry
from oncue.domain.schedule import Schedule

NOW = parse_instant("2027-01-31T09:00:00Z")


def defined(defaults: dict[str, Any] | None = None, **raw: Any) -> Spec:
    return define({"task": "t", **raw}, defaults or {}, NOW)[0]


def problems(raw: dict[str, Any], limits: Limits | None = None) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        define(raw, {}, NOW, limits or Limits())
    return [(problem.path, problem.code) for problem in caught.value.problems]


def told(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(Invalid) as caught:
        define(raw, {}, NOW)
    return [problem.message for problem in caught.value.problems]


def test_a_task_is_all_a_job_needs() -> None:
    assert define({"task": "t"}, {}, NOW) == (Spec("t"), None)


def test_every_field_is_understood() -> None:
    raw = {
        "task": "t",
        "name": "Größe 7 👩‍💻",
        "schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "jitter": "5m", "max_runs": 3},
        "payload": {"b": 1, "a": [1.5, None, "ä"]},
        "queue": "q",
        "priority": "high",
        "tags": ["x", "y"],
        "max_retries": 0,
        "retry": {"backoff": "1s", "factor": 3, "max_backoff": "1m", "jitter": 0},
        "timeout": "PT30S",
        "overlap": "replace",
        "catch_up": "all",
        "catch_up_window": "0s",
        "start_within": "5m",
        "on_lost": "dead",
        "on_left_behind": "release",
        "key": "k",
        "group": "g",
        "concurrency": {"key": "c", "limit": 2},
        "rate": {"limit": 10, "per": "1s", "key": "cancel_requests"},
        "resources": {"cpu": 0.5, "memory_mb": 64, "slots": 2},
        "labels": ["gpu"],
        "preemptible": True,
    }

    spec, payload = define(raw, {}, NOW)

    assert payload == '{"b":1,"a":[1.5,null,"ä"]}'.encode()
    assert spec == Spec(
        task="t",
        name="Größe 7 👩‍💻",
        schedule=Schedule(cron="0 9 * * *", timezone="Europe/Berlin", jitter=Duration(5 * MINUTE), max_runs=3),
        queue="q",
        priority=Priority.HIGH,
        tags=("x", "y"),
        max_retries=0,
        retry=Retry(SECOND, 3.0, MINUTE, 0.0),
        timeout=Duration(30 * SECOND),
        overlap=Overlap.REPLACE,
        catch_up=CatchUp.ALL,
        catch_up_window=Duration(0),
        start_within=Duration(5 * MINUTE),
        on_lost=OnLost.DEAD,
        on_left_behind=OnLeftBehind.RELEASE,
        key="k",
        group="g",
        concurrency=Concurrency("c", 2),
        rate=Rate(10, SECOND, "cancel_requests"),
        resources=Resources(500, 64, 2),
        labels=("gpu",),
        preemptible=True,
    )


def test_what_is_null_is_left_out_where_that_means_none() -> None:
    nothing = dict.fromkeys(("name", "key", "group", "start_within", "concurrency", "rate", "payload"))

    assert define({"task": "t", **nothing}, {}, NOW) == (Spec("t"), None)


def test_defaults_of_the_task_fill_in_what_is_left_out() -> None:
    defaults = {"timeout": "5m", "max_retries": 7, "retry": {"backoff": "1s", "factor": 3}, "name": "sly"}

    filled = defined(defaults)
    said = defined(defaults, timeout="1h", max_retries=0, retry={"factor": 1})

    assert (filled.timeout, filled.max_retries, filled.retry) == (5 * MINUTE, 7, Retry(SECOND, 3.0))
    assert (said.timeout, said.max_retries, said.retry) == (HOUR, 0, Retry(SECOND, 1.0))
    assert filled.name is None  # no policy


@pytest.mark.parametrize(
    ("cores", "milli"), [(0, 0), (2.007, 2_007), (0.5, 500), (1, 1_000), (2.3, 2_300), (0.0001, 1), (1.0011, 1_002)]
)
def test_cores_are_kept_in_thousandths_rounded_up(cores: float, milli: int) -> None:
    assert defined(resources={"cpu": cores}).resources.cpu_milli == milli


@pytest.mark.parametrize(
    ("field", "value", "path", "code"),
    [
        ("task", "", "task", "too_short"),
        ("name", "  ", "name", "too_short"),
        ("name", "n" * 201, "name", "too_long"),
        ("name", 7, "name", "wrong_type"),
        ("key", "a\x00", "key", "bad_text"),
        ("queue", "a\u202e", "queue", "bad_text"),
        *((field, "a\u200b", field, "bad_text") for field in ("task", "name", "key", "queue", "group")),
        *((field, ["a\u200b"], f"{field}.0", "bad_text") for field in ("tags", "labels")),
        *(("queue", f"a{bad}", "queue", "bad_text") for bad in "\u00ad\u180e\u2060\u2064\u3164\ufeff"),
        *((field, dots, field, "bad_text") for field in ("key", "queue") for dots in (".", "..")),
        ("queue", "q" * 101, "queue", "too_long"),
        ("queue", None, "queue", "wrong_type"),
        ("group", "a\x85", "group", "bad_text"),
        ("group", "\ud800", "group", "bad_text"),
        ("tags", "a", "tags", "wrong_type"),
        ("tags", ["a"] * 51, "tags", "too_many"),
        ("tags", ["a", 7], "tags.1", "wrong_type"),
        ("tags", ["\u2066"], "tags.0", "bad_text"),
        ("labels", ["l" * 65], "labels.0", "too_long"),
        ("labels", ["ü" * 32] * 16, "labels", "too_large"),
        ("priority", "urgent", "priority", "unknown_value"),
        ("priority", 1, "priority", "unknown_value"),
        ("overlap", ["skip"], "overlap", "unknown_value"),
        ("max_retries", -1, "max_retries", "out_of_range"),
        ("max_retries", 10_001, "max_retries", "out_of_range"),
        ("max_retries", True, "max_retries", "wrong_type"),
        ("max_retries", 3.0, "max_retries", "wrong_type"),
        ("timeout", 30, "timeout", "wrong_type"),
        ("timeout", "0s", "timeout", "bad_duration"),
        ("timeout", "soon", "timeout", "bad_duration"),
        ("retry", [], "retry", "wrong_type"),
        ("retry", {"factor": 0.5}, "retry.factor", "out_of_range"),
        ("retry", {"factor": True}, "retry.factor", "wrong_type"),
        ("retry", {"jitter": float("nan")}, "retry.jitter", "out_of_range"),
        ("retry", {"backoff": "10m"}, "retry.backoff", "too_large"),
        ("retry", {"base": 1}, "retry.base", "unknown_field"),
        ("concurrency", {"key": "c"}, "concurrency.limit", "required"),
        ("concurrency", {"key": "c", "limit": 0}, "concurrency.limit", "out_of_range"),
        ("rate", {"limit": 1}, "rate.per", "required"),
        ("rate", {"limit": 0, "per": "1s"}, "rate.limit", "out_of_range"),
        ("rate", {"limit": 1, "per": "1s", "key": ""}, "rate.key", "too_short"),
        ("rate", {"limit": 1, "per": "1s", "key": "x" * 201}, "rate.key", "too_long"),
        ("rate", {"limit": 1, "per": "1s", "by": "x"}, "rate.by", "unknown_field"),
        ("resources", {"cpu": -1}, "resources.cpu", "out_of_range"),
        ("resources", {"cpu": "1"}, "resources.cpu", "wrong_type"),
        ("resources", {"slots": 0}, "resources.slots", "out_of_range"),
        ("preemptible", 1, "preemptible", "wrong_type"),
        ("notify", {}, "notify", "wrong_type"),
        ("notify", [{}] * 11, "notify", "too_many"),
        ("notify", [{"on": ["failed"]}], "notify.0", "one_channel"),
        ("task", "notify", "task", "reserved"),
        ("queue", "oncue", "queue", "reserved"),
        ("schedule", 7, "schedule", "wrong_type"),
        ("schedule", "whenever", "schedule", "bad_schedule"),
        ("schedule", "every 10ms", "schedule.every", "bad_duration"),
        ("schedule", {"corn": "* * * * *"}, "schedule.corn", "unknown_field"),
        ("schedule", {"every": 30}, "schedule.every", "wrong_type"),
        ("schedule", {"every": "1m", "max_runs": True}, "schedule.max_runs", "wrong_type"),
        ("schedule", {"every": "1m", "dst_gap": "jump"}, "schedule.dst_gap", "unknown_value"),
        ("schedule", {"calendar": {"hour": True}}, "schedule.calendar.hour", "wrong_type"),
        ("schedule", {"calendar": {"weekday": 1}}, "schedule.calendar.weekday", "unknown_field"),
        ("schedule", {"calendar": {"year": "2000-2199," * 9_999}}, "schedule.calendar.year", "too_long"),
        ("schedule", {"calendar": {"days_of_week": ["mon", 1]}}, "schedule.calendar.days_of_week.1", "wrong_type"),
        ("schedule", {"cron": "0 9 * * *", "timezone": "localtime"}, "schedule.timezone", "bad_timezone"),
        ("payload", "{}", "payload", "wrong_type"),
        ("payload", {"a": {"b": "\x00"}}, "payload.a.b", "bad_text"),
        ("payload", {"a": [2**64]}, "payload.a.0", "bad_number"),
        ("payload", {"a": float("inf")}, "payload.a", "bad_number"),
        ("payload", {"\ud800": {"\x00": 1}}, "payload.\\ud800", "bad_text"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(field: str, value: Any, path: str, code: str) -> None:
    assert problems({"task": "t", field: value})[0] == (path, code)


def test_everything_wrong_is_told_at_once() -> None:
    raw = {
        "name": "",
        "schedule": {"cron": "61 25 * * *", "timezone": "Europe/Berln", "end_at": "soon", "tz": "UTC"},
        "retry": {"factor": 0, "jitter": 2},
        "rate": {},
        "tags": [1, "ok", ""],
        "notify": [{"on": ["faild"], "email": "x"}, 7],
        "payload": {"a": "\x00"},
    }

    assert sorted(problems(raw)) == [
        ("name", "too_short"),
        ("notify.0.email", "bad_address"),
        ("notify.0.on.0", "unknown_value"),
        ("notify.1", "wrong_type"),
        ("payload.a", "bad_text"),
        ("rate.limit", "required"),
        ("rate.per", "required"),
        ("retry.factor", "out_of_range"),
        ("retry.jitter", "out_of_range"),
        ("schedule.cron", "bad_cron"),
        ("schedule.cron", "bad_cron"),
        ("schedule.end_at", "bad_instant"),
        ("schedule.timezone", "bad_timezone"),
        ("schedule.tz", "unknown_field"),
        ("tags.0", "wrong_type"),
        ("tags.2", "too_short"),
        ("task", "required"),
    ]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("overlap", "sometimes", "'sometimes' is not one of queue, skip, allow, replace"),
        ("priority", ["high"], "a list is not one of high, normal, low"),
        ("max_retries", "3", "'3' is not a whole number from 0 to 10000"),
        ("max_retries", -(10**4_000), "a longer number is not a whole number from 0 to 10000"),
        ("retry", {"factor": 0}, "0 is not a number from 1 to 100"),
        ("preemptible", "yes", "'yes' is neither true nor false"),
        ("retry", {"jitter": "x"}, "'x' is not a number from 0 to 1"),
        ("timeout", [], 'a list is not a duration; write a string like "250ms", "30s", "5m", "2h" or "7d"'),
        ("queue", None, "must be a string, not null"),
        ("tags", "a", "must be a list of strings, like [\"a\", \"b\"], not 'a'"),
        ("rate", "1/s", "must be an object with the fields limit, per, key, not '1/s'"),
        ("overlap", "\x1b[31m" + "x" * 10**6, f"'\\x1b[31m{'x' * 35}…' is not one of queue, skip, allow, replace"),
        ("schedule", {"calendar": {"year": 1}}, '\'1\' must be a year or a range, like "2027" or "2027-2030"'),
        ("schedule", {"cron": ["0 9 * * *"]}, "must be a string, not a list"),
    ],
)  # fmt: skip
def test_a_refused_value_is_told_shortened(field: str, value: Any, message: str) -> None:
    assert told({"task": "t", field: value})[0] == message


def test_no_message_repeats_where_a_notice_goes_or_a_payload() -> None:
    hidden = "https://hooks.slack.com/services/planted"
    raw = {"task": "t", "payload": hidden, "notify": [hidden, {"on": [], "webhook": [hidden], "teams": hidden}]}

    assert len(told(raw)) == 5
    assert "planted" not in str(told(raw))


def test_a_thousand_problems_are_not_all_told() -> None:
    found = problems({f"x{i}": 1 for i in range(2_000)})

    assert (len(found), found[-1]) == (101, ("", "more_problems"))
    assert told({f"x{i}": 1 for i in range(2_000)})[-1] == "and 1,901 more problems", "the task is missing, too"
    assert told({"task": "t", "payload": {f"x{i}": "\0" for i in range(200)}})[-1] == "and at least 1 more problem"


def test_a_payload_is_measured_as_it_is_stored() -> None:
    limits = Limits(payload=len('{"a":"ä"}'.encode()))

    assert define({"task": "t", "payload": {"a": "ä"}}, {}, NOW, limits)[1] == '{"a":"ä"}'.encode()
    assert problems({"task": "t", "payload": {"a": "äx"}}, limits) == [("payload", "too_large")]


def test_lengths_below_a_millisecond_are_not_asked_for() -> None:
    assert defined(start_within="1ms").start_within == MILLISECOND
    assert problems({"task": "t", "start_within": "0ms"}) == [("start_within", "bad_duration")]
