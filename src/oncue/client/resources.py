"""The groups of calls that both clients have, and the calls of the clients themselves."""

from __future__ import annotations

from typing import Generic, TypeVar

from oncue.client import bulk, dead_letters, fleet, jobs, overview, people, runs, waiting
from oncue.client.methods import (
    asks,
    asks_job,
    asks_jobs,
    asks_run,
    asks_runs,
    lists,
    lists_jobs,
    lists_runs,
    of_job,
    of_run,
    of_worker,
    starts_run,
    streams,
    takes,
    takes_to_run,
)

C = TypeVar("C")


class Resource(Generic[C]):
    """One group of calls of a client."""

    def __init__(self, client: C) -> None:
        self._client = client


class Jobs(Resource[C]):
    """Create jobs, find them, and change them."""

    create = asks_job(jobs.create)
    create_many = asks(jobs.create_many)
    put = asks_job(jobs.put)
    apply = asks(jobs.apply)
    get = of_job(asks_job(jobs.show))
    get_by_key = asks_job(jobs.show_by_key)
    list = lists_jobs(jobs.page)
    page = asks_jobs(jobs.page)
    edit = of_job(asks_job(jobs.edit))
    preview = of_job(asks(jobs.preview))
    versions = of_job(lists(jobs.versions_page))
    pause = of_job(asks_job(jobs.pause))
    resume = of_job(asks_job(jobs.resume))
    cancel = of_job(asks_job(jobs.cancel))
    purge = of_job(asks(jobs.purge))
    run_now = of_job(starts_run(jobs.run_now))
    status = of_job(asks(jobs.status))
    stats = of_job(asks(jobs.stats))
    runs = of_job(lists_runs(jobs.runs_page))
    occurrences = of_job(lists(jobs.occurrences_page))
    occurrence_heat = of_job(asks(jobs.occurrence_heat))
    explain = of_job(asks(jobs.explain))
    backfill = of_job(asks(jobs.backfill))
    export = of_job(takes(jobs.export))


class Runs(Resource[C]):
    """Look at runs, wait for them, read their logs and results, cancel and retry them."""

    list = lists_runs(runs.page)
    page = asks_runs(runs.page)
    get = of_run(asks_run(runs.show))
    wait = of_run(takes_to_run(waiting.wait))
    logs = of_run(asks(runs.logs))
    log_lines = of_run(streams(waiting.log_lines))
    log_parts = of_run(asks(runs.log_parts))
    follow_logs = of_run(streams(waiting.follow_logs))
    result = of_run(asks(runs.result))
    result_link = of_run(asks(runs.result_link))
    payload = of_run(asks(runs.payload))
    payload_link = of_run(asks(runs.payload_link))
    cancel = of_run(asks_run(runs.cancel))
    retry = of_run(starts_run(runs.retry))
    explain = of_run(asks(runs.explain))


class DeadLetters(Resource[C]):
    """Runs that failed permanently: list them, run them again or discard them."""

    list = lists_runs(dead_letters.page)
    page = asks_runs(dead_letters.page)
    get = of_run(asks_run(dead_letters.show))
    requeue = asks(dead_letters.requeue)
    discard = asks(dead_letters.discard)


class Bulk(Resource[C]):
    """Act on everything that matches a filter, in the background."""

    start = asks(bulk.start)
    preview = asks(bulk.preview)
    get = asks(bulk.show)
    list = lists(bulk.page)
    page = asks(bulk.page)
    stop = asks(bulk.stop)


class Schedules(Resource[C]):
    """Try schedules without creating a job."""

    preview = asks(jobs.preview_schedule)


class Tasks(Resource[C]):
    """The tasks that workers have registered."""

    list = asks(fleet.tasks)
    register = asks(fleet.register_tasks)


class Queues(Resource[C]):
    """Look at queues; pause and resume them."""

    list = asks(fleet.queues)
    get = asks(fleet.queue)
    pause = asks(fleet.pause_queue)
    resume = asks(fleet.resume_queue)


class Workers(Resource[C]):
    """Look at workers; drain and resume them."""

    list = asks(fleet.workers)
    get = of_worker(asks(fleet.worker))
    runs = of_worker(lists_runs(fleet.worker_runs_page))
    drain = of_worker(asks(fleet.drain_worker))
    resume = of_worker(asks(fleet.resume_worker))


class Keys(Resource[C]):
    """API keys."""

    create = asks(people.create_key)
    list = asks(people.keys)
    revoke = asks(people.revoke_key)


class Notifications(Resource[C]):
    """Where your notifications go."""

    get = asks(people.notifications)
    put = asks(people.put_notifications)
    test = asks(people.test_notice)
    secret = asks(people.webhook_secret)
    rotate_secret = asks(people.rotate_webhook_secret)


class Users(Resource[C]):
    """Users, for administrators."""

    list = lists(people.users_page)
    page = asks(people.users_page)
    forget = asks(people.forget_user)


class Calls(Resource[C]):
    """The calls that belong to a client as a whole, and its groups of calls."""

    me = asks(people.me)
    server = asks(fleet.server)
    processes = asks(fleet.processes)
    stats = asks(fleet.stats)
    series = asks(overview.series)
    lookup = asks(fleet.lookup)
    counts = asks(fleet.counts)
    problems = asks(overview.problems)
    upcoming = lists(overview.upcoming_page)
    upcoming_density = asks(overview.upcoming_density)
    upcoming_skipped = asks(overview.upcoming_skipped)
    audit = lists(fleet.audit_page)
    findings = lists(fleet.findings_page)
    outbox = lists(fleet.outbox_page)
    errors = lists(fleet.errors_page)
    scaling = asks(fleet.scaling)

    def __init__(self, client: C) -> None:
        super().__init__(client)
        self.jobs = Jobs(client)
        self.runs = Runs(client)
        self.dead_letters = DeadLetters(client)
        self.bulk = Bulk(client)
        self.schedules = Schedules(client)
        self.tasks = Tasks(client)
        self.queues = Queues(client)
        self.workers = Workers(client)
        self.keys = Keys(client)
        self.notifications = Notifications(client)
        self.users = Users(client)
