"""The backend for Django's tasks, with the whole of oncue behind it in fake time: enqueue, run, read the result."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from tests import django_project

from oncue import Tasks
from oncue.client.contexts import Context, Contexts, write_contexts
from oncue.context import Created, current
from oncue.domain.errors import Invalid
from oncue.testing.app import OncueApp
from oncue.testing.fake import OncueFake
from oncue.testing.fake_context import FakeContext, Recorded

django_project.set_up()  # tasks are declared by its settings

from django.conf import LazySettings  # noqa: E402
from django.core.checks import WARNING  # noqa: E402
from django.test.utils import override_settings  # noqa: E402
from tests.contrib.till import tasks as till  # noqa: E402

from oncue.contrib.django import OncueBackend, OncueTask  # noqa: E402
from oncue.contrib.django.framework import (  # noqa: E402
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from oncue.contrib.django.project import ProjectTasks  # noqa: E402
from oncue.contrib.django.running import runs  # noqa: E402

BACKEND = "oncue.contrib.django.OncueBackend"
APPS = ["oncue.contrib.django", "tests.contrib.till"]


others = Tasks()


@others.task
def sweep() -> None: ...


def backend(queues: list[str] | None = None, **options: Any) -> OncueBackend:
    """A backend with these settings."""
    params = {"QUEUES": ["default", "mail"] if queues is None else queues, "OPTIONS": options}
    return OncueBackend("default", params)


@pytest.fixture
def app() -> Iterator[OncueApp]:
    with override_settings(INSTALLED_APPS=APPS), OncueApp([ProjectTasks(), others]) as app:
        yield app


@pytest.fixture
def raised() -> list[Any]:
    """The exception that each signal was sent with."""
    return []


@pytest.fixture
def signals(raised: list[Any]) -> Iterator[list[tuple[str, Any]]]:
    """The name of each signal, in order, and the result that it came with."""
    sent: list[tuple[str, Any]] = []

    def heard(sender: Any, task_result: Any, signal: Any, **_: Any) -> None:
        assert sender is OncueBackend
        sent.append((names[signal], task_result))
        raised.append(sys.exc_info()[0])

    names = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}
    for signal in names:
        signal.connect(heard)
    yield sent
    for signal in names:
        signal.disconnect(heard)


def test_a_task_is_enqueued_runs_and_its_result_is_read(app: OncueApp) -> None:
    result = till.everything.enqueue(1, 2, 3, d=4)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [1, 2, 3], {"d": 4})
    assert till.everything.get_result(result.id).status == TaskResultStatus.READY
    assert result.enqueued_at == app.now

    app.sync.drain()
    assert result.status == TaskResultStatus.READY
    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.SUCCESSFUL, 1, [])
    assert result.return_value == [1, 2, [3], 3, {"d": 4}]
    assert result.started_at == result.last_attempted_at == result.finished_at == app.now

    found = till.everything.get_result(result.id)
    assert (found.task, found.args, found.kwargs) == (till.everything, [1, 2, 3], {"d": 4})
    assert found.worker_ids == result.worker_ids
    app.assert_enqueued("tests.contrib.till.tasks.everything", {"a": 1, "b": 2, "rest": [3], "more": {"d": 4}})


def test_arguments_are_passed_on_as_json_has_them_whatever_their_names_and_types(app: OncueApp) -> None:
    first, second = till.named.enqueue("a"), till.named.enqueue(when=(1, b"two"), ctx={"deep": [None]})
    app.sync.drain()
    assert till.named.get_result(first.id).return_value == ["a", "hi", None]
    assert till.named.get_result(second.id).return_value == [{"deep": [None]}, "hi", [1, "two"]]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "tests.contrib.till.tasks.named.*missing a required argument: 'ctx'"),
        (("a",), {"txt": "b"}, "unexpected keyword argument 'txt'"),
        ((object(),), {}, "Unsupported type"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_nothing_is_enqueued(
    app: OncueApp, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        till.named.enqueue(*args, **kwargs)
    app.assert_not_enqueued()


def test_a_failed_attempt_is_retried_and_its_error_is_kept(app: OncueApp, signals: list[tuple[str, Any]]) -> None:
    result = till.fails_once.enqueue(order=7)
    app.sync.drain()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
    assert result.errors[0].exception_class is ValueError

    app.sync.travel(by="1h")
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 2)
    assert result.return_value == f"{result.id} 2"
    [error] = result.errors
    assert "order 7 is not there yet" in error.traceback
    assert [name for name, _ in signals] == ["enqueued", "started", "started", "finished"]


def test_a_task_that_fails_for_good_has_all_its_errors_and_is_finished_once(
    app: OncueApp, signals: list[tuple[str, Any]], raised: list[Any]
) -> None:
    result = till.fails.using(max_retries=1).enqueue(7)
    app.sync.travel(by="1h")
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [error.exception_class for error in result.errors] == [LookupError, LookupError]
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value

    assert [name for name, _ in signals] == ["enqueued", "started", "started", "finished"]
    _, ended = signals[-1]
    assert (ended.id, ended.status, ended.args) == (result.id, TaskResultStatus.FAILED, [7])
    assert ended.errors[0].exception_class is LookupError
    assert raised == [None, None, None, LookupError]  # error trackers look there


def test_a_return_value_that_is_not_json_fails_without_a_retry(app: OncueApp) -> None:
    till.calls.clear()
    result = till.returns_no_json.enqueue()
    app.sync.travel(by="1h")
    result.refresh()
    assert (result.status, result.attempts, till.calls) == (TaskResultStatus.FAILED, 1, ["returns_no_json"])
    assert "the return value is not JSON" in result.errors[0].traceback


def test_an_async_task_runs_with_its_context(app: OncueApp) -> None:
    result = till.counts.enqueue(n=4)
    app.sync.drain()
    assert till.counts.get_result(result.id).return_value == 5


@pytest.mark.anyio
async def test_async_code_enqueues_and_reads_results(app: OncueApp) -> None:
    result = await till.everything.aenqueue(1, b=2)
    await app.drain()
    await result.arefresh()
    assert result.return_value == [1, 2, [], 3, {}]
    assert (await till.everything.aget_result(result.id)).status == TaskResultStatus.SUCCESSFUL


def test_run_after_queue_and_priority_are_those_of_the_job(app: OncueApp) -> None:
    later = app.now + timedelta(hours=1)
    result = till.everything.using(run_after=later, queue_name="mail", priority=34).enqueue(1, 2)
    till.everything.using(priority=-34).enqueue(1, 2)
    till.everything.using(priority=33, run_after=app.now - timedelta(days=1)).enqueue(1, 2)
    first, second, third = app.enqueued()
    assert (first.options["queue"], first.options["priority"]) == ("mail", "high")
    assert (second.options["queue"], second.options["priority"]) == ("default", "low")
    assert third.options["priority"] == "normal"

    assert {run.priority for run in app.sync.drain()} == {"low", "normal"}  # what is overdue runs now
    [run] = app.sync.travel(to=later)
    assert (str(run.run_id), run.scheduled_for) == (result.id, later)
    assert till.everything.get_result(result.id).task.queue_name == "mail"


@override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin")
def test_a_naive_run_after_is_in_the_time_zone_of_the_project(app: OncueApp) -> None:
    till.everything.using(run_after=datetime(2027, 7, 1, 9)).enqueue(1, 2)
    [call] = app.enqueued()
    assert datetime.fromisoformat(call.options["schedule"]["at"]) == datetime(2027, 7, 1, 7, tzinfo=UTC)


def test_options_of_oncue_are_fields_of_the_job(app: OncueApp) -> None:
    assert isinstance(till.fails, OncueTask)
    task = till.fails.using(timeout="30s", rate="10/1m", tags=["shop"]).using(
        idempotency_key="order-7", queue_name="mail"
    )
    assert task.enqueue(7).id == task.enqueue(7).id
    app.assert_enqueued(
        "tests.contrib.till.tasks.fails", timeout="30s", rate={"limit": 10, "per": "1m"}, tags=["shop"], queue="mail"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": "soon"}, "tests.contrib.till.tasks.fails.*timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"queue_name": "no such"}, "Queue 'no such' is not valid"),
        ({"priority": 101}, "priority must be a whole number"),
        ({"run_after": datetime(2027, 1, 1)}, "run_after must be an aware"),
    ],
)
def test_a_wrong_option_is_an_invalid_task(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTask, match=message):
        till.fails.using(**options)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="tmeout"):
        till.fails.using(tmeout="30s")


def test_a_result_that_is_none_of_a_django_task_does_not_exist(app: OncueApp) -> None:
    job = app.client.jobs.create(task="sweep")
    for unknown, said in (("123", "123"), (str(no_id := uuid4()), str(no_id)), (str(job.job_id), "not a Django task")):
        with pytest.raises(TaskResultDoesNotExist, match=said):
            task_backends["default"].get_result(unknown)


def test_a_job_that_is_created_between_two_looks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, "of the API"])
    monkeypatch.setattr(OncueBackend, "_read", lambda *_: next(answers))
    monkeypatch.setattr(OncueBackend, "_in_outbox", lambda *_: None)
    assert backend().get_result(str(uuid4())) == "of the API"


@override_settings(INSTALLED_APPS=APPS)
def test_a_fake_server_takes_what_is_enqueued() -> None:
    with OncueFake([ProjectTasks()]) as fake:
        till.fails.enqueue(7)
        fake.assert_enqueued("tests.contrib.till.tasks.fails", {"order": 7}, times=1)


def test_a_cancelled_task_has_failed(app: OncueApp) -> None:
    result = till.fails.enqueue(7)
    app.client.runs.cancel(result.id)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 0)
    assert result.errors[0].exception_class.__name__ == "RunFailed"
    assert "cancelled" in result.errors[0].traceback


LATE = UUID("ffffffff-ffff-4fff-8fff-ffffffffffff")  # no time that a datetime could have, as with random ids


class Creating(Recorded):
    """A run whose worker creates jobs, as workers do for threads."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def submit(self, asked: bytes) -> Created:
        self.asked += msgspec.json.decode(asked)["jobs"]
        return Created((LATE,))


@pytest.mark.anyio
async def test_inside_of_a_run_its_worker_creates_the_job() -> None:
    run = Creating()
    token = current.set(run)
    try:
        with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"transactional": False}}}):
            assert await asyncio.to_thread(runs(till.enqueues), FakeContext(), order=7) == str(LATE)
            assert await runs(till.enqueues_async)(FakeContext(), order=8) == str(LATE)
    finally:
        current.reset(token)
    assert [(job["task"], job["payload"]) for job in run.asked] == [
        ("tests.contrib.till.tasks.fails", {"order": 7}),
        ("tests.contrib.till.tasks.fails", {"order": 8}),
    ]


def test_the_address_of_the_server_can_be_in_the_settings() -> None:
    found = backend(url="https://oncue.example.org", api_key="k1")
    assert found.clients.for_sync(None).url == "https://oncue.example.org"
    assert found.clients is backend(url="https://oncue.example.org", api_key="k1").clients  # threads share one
    assert found.clients is not backend().clients


class TestProject:
    """What a worker finds."""

    @override_settings(INSTALLED_APPS=APPS)
    def test_tasks_of_installed_apps_have_their_module_path_and_options(self) -> None:
        found = {task.name: task for task in ProjectTasks()}
        assert found.keys() == {
            f"tests.contrib.till.tasks.{name}" for name in vars(till) if hasattr(vars(till)[name], "func")
        }
        assert found["tests.contrib.till.tasks.fails"].defaults == {"queue": "default", "priority": "normal"}
        told = found["tests.contrib.till.tasks.with_options"]
        assert told.no_retry_on == (KeyError,)
        limit = {"key": told.name, "limit": 4}
        assert told.defaults == {"queue": "mail", "priority": "low", "timeout": "30s", "concurrency": limit}

    @override_settings(INSTALLED_APPS=["oncue.contrib.django"])
    def test_a_project_without_tasks_is_told_what_to_do(self) -> None:
        with pytest.raises(Invalid, match=r"no installed app has .* TASKS ="):
            list(ProjectTasks())

    def test_settings_must_be_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("django.conf.settings", LazySettings())
        monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
        with pytest.raises(Invalid, match="DJANGO_SETTINGS_MODULE is not set"):
            len(ProjectTasks())

    @pytest.mark.parametrize("error", [ImportError("no module named nowhere"), SystemExit(0)])
    def test_what_setting_up_raises_is_shown(self, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken() -> None:
            raise error

        monkeypatch.setattr("django.setup", broken)
        with pytest.raises(Invalid, match=f"Django cannot be set up: {type(error).__name__}: {error}"):
            ProjectTasks().get("x")


class TestChecks:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"transactionl": True}, "E001.*'transactionl'; did you mean 'transactional'"),
            ({"transactional": "yes"}, r"E002.*OPTIONS\['transactional'\] must be a bool, not 'yes'"),
            ({"database": "other", "api_key": "k1"}, "E004.*DATABASES has no 'other'"),
            ({"url": "shop"}, "E006.*'shop' is not the address of a server"),
            ({"url": "https://oncue.example.org", "transactional": False}, "W001.*no API key"),
        ],
    )
    def test_what_is_missing_or_wrong_is_named(
        self, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ONCUE_API_KEY", raising=False)
        [found] = backend(**options).check()
        assert re.search(message, f"{found.id} {found.msg}"), found

    def test_a_queue_that_oncue_refuses_is_named(self) -> None:
        assert [found.id for found in backend(["default", "oncue"]).check()] == ["oncue.E003"]

    def test_transactions_need_postgresql(self) -> None:
        from django.db import connections

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(connections["default"]), "vendor", "sqlite")
            [found] = backend(transactional=True, api_key="k1").check()
        assert found.id == "oncue.E005"

    def test_settings_that_are_complete_are_fine(self) -> None:
        assert backend(api_key="k1").check() == []

    def test_no_key_is_needed_to_enqueue_in_transactions(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("ONCUE_API_KEY", "ONCUE_URL", "ONCUE_DATA_DIR"):
            monkeypatch.delenv(name, raising=False)
        assert backend(transactional=True).check() == []

        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        write_contexts(Contexts("prod", {"prod": Context("https://oncue.example.org", "oc_1")}))
        assert backend(transactional=True).check() == [], "somebody has signed in to another server"
        [found] = backend(transactional=False).check()
        assert (found.id, found.level) == ("oncue.W001", WARNING)
        assert "set ONCUE_CONTEXT=prod" in found.msg

    @pytest.mark.parametrize(
        ("declared", "said"),
        [
            (
                "@task(timeout='30x')\ndef send(): ...",
                r"E007 shop_\d\.tasks: Task 'shop_\d\.tasks\.send': timeout.*'30x'",
            ),
            (
                "@task(isolation='thread')\ndef send(): ...",
                r"E007 shop_\d\.tasks: .*'thread' is unknown; write 'process'",
            ),
            (
                "import nowhere",
                r"W004 shop_\d\.tasks cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
            ),
            ("raise SystemExit(0)", r"W004 shop_\d\.tasks cannot be imported: SystemExit: 0"),
        ],
    )
    def test_what_apps_declare_wrong_is_named(
        self, declared: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        name = f"shop_{request.node.callspec.indices['said']}"
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "tasks.py").write_text(f"from tests.contrib.till.tasks import task\n{declared}\n")
        monkeypatch.syspath_prepend(tmp_path)
        with override_settings(INSTALLED_APPS=[*APPS, name]):
            [found] = backend(api_key="k1").check()
        assert re.search(said, f"{found.id} {found.msg}"), found
