"""Every setting, read once, documented only here."""

from __future__ import annotations

import msgspec

from oncue.domain.instants import DAY, MINUTE, SECOND, Duration


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str = "sqlite:///.oncue/oncue.db"
    """Where state lives: `sqlite:///relative.db`, `sqlite:////abs.db` or `postgresql://…`."""

    data_dir: str = ".oncue"
    """The folder of everything local: the default store and the admin key."""

    host: str = "127.0.0.1"
    """The address the API listens on."""

    port: int = 8470
    """The port the API listens on."""

    request_rate: int = 1_000
    """Requests a second that one member or viewer may make of one API process; 0: as many as they like."""

    quota_jobs: int = 0
    """Jobs that have not ended which one member may have; 0: as many as they like. The same for every API process."""

    quota_payload: int = 0
    """Bytes that the payloads of these jobs may have, all together; 0: as many as they like."""

    quota_runs: int = 100_000
    """Waiting runs one member may have asked for by hand: run now, backfill, retry, requeue; 0: any number."""

    quota_classes: int = 1_000
    """Combinations of task, queue, priority, labels and size that one user may have made; 0: as many as they like. They
    go when nothing refers to them any more. Workers know each they can run: this bounds what one user costs all."""

    history_width: Duration = DAY
    """How much time one piece of history spans. Retention drops whole pieces: narrow ones give room back sooner."""

    keep_history: Duration = Duration(90 * DAY)
    """How long ended runs, ledger and logs are kept."""

    keep_dead_letters: Duration = Duration(400 * DAY)
    """How long a dead letter that nobody deals with is kept; then it is discarded, and the audit log says so."""

    most_dead_letters: int = 100_000
    """Dead letters of one user that are kept; of more, the oldest are discarded."""

    keep_job_keys: Duration = Duration(400 * DAY)
    """How long it is known of a job that was put by its key and has finished, so that it is not made and run again."""

    store_timeout: Duration = Duration(10 * SECOND)
    """How long one call to the store may take before it counts as away."""

    history_timeout: Duration = Duration(5 * MINUTE)
    """How long making and dropping pieces of history may take."""

    pool_size: int = 8
    """PostgreSQL connections for everything but the hot path, which has three of its own."""

    log_cap: int = 256 * 1024
    """Bytes of log kept per run."""

    result_cap: int = 256 * 1024
    """Bytes of result kept per run."""

    payload_cap: int = 256 * 1024
    """Bytes a job's payload may have."""

    repeat_for: Duration = DAY
    """How long an idempotency key is remembered at least; at most it is twice as long."""

    # ------------------------------------------------------------------------------------------------------- a worker

    tasks: tuple[str, ...] = ()
    """Where a worker finds its tasks: `file.py`, `package.module` or `package.module:attribute`."""

    name: str = ""
    """What a worker is called on screens; left out, its host and process number."""

    queues: tuple[str, ...] = ("default",)
    """The queues a worker takes work from."""

    labels: tuple[str, ...] = ()
    """What a worker offers beyond code: `gpu`, a region."""

    concurrency: int = 1_000
    """Async runs at a time in one worker."""

    threads: int = 32
    """Sync runs at a time in one worker, each in a thread."""

    processes: int = 0
    """Process-isolated runs and commands at a time in one worker; 0: as many as there are processors."""

    cpu: float = 0
    """Processors that a worker's runs may ask for, all together; 0: as many as there are."""

    memory_mb: int = 0
    """Memory that a worker's runs may ask for, all together; 0: what the machine or its container has."""

    reserved_for_high: float = 0.1
    """The part of a worker's places of each kind, rounded down, that only runs of high priority get."""

    lease: Duration = Duration(15 * SECOND)
    """A worker silent for this long is dead, and its runs start elsewhere. It beats five times as often."""

    grace: Duration = Duration(25 * SECOND)
    """How long a worker told to stop lets its runs finish before it hands them back."""

    stop_grace: Duration = Duration(SECOND)
    """Between TERM and KILL, for what a run started and is to be stopped."""

    most_abandoned: int = 8
    """Attempts that outlived their run before another worker process takes the place of theirs."""

    allow_commands: bool = False
    """Whether a worker runs the `command` task."""

    command_roles: tuple[str, ...] = ("admin",)
    """Who may make jobs of the `command` task."""

    memory_limit_mb: int = 0
    """Memory of one process-isolated run or command that does not say; 0: half of the machine's."""

    open_files_limit: int = 1_024
    """Files and sockets one process-isolated run or command may have open."""

    http_allow: tuple[str, ...] = ()
    """Networks the `http` task may reach though they are private: `10.1.0.0/16`, `127.0.0.1/32`."""

    http_body_cap: int = 1024 * 1024
    """Bytes of an answer the `http` task reads at most."""
