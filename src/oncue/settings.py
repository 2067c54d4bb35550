"""Every setting, read once, documented only here."""

from __future__ import annotations

from typing import Literal

import msgspec

from oncue.domain.instants import DAY, MINUTE, SECOND, Duration


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str = "sqlite:///.oncue/oncue.db"
    """The database: `sqlite:///relative.db`, `sqlite:////abs.db` or `postgresql://…`."""

    data_dir: str = ".oncue"
    """The folder for local files: the default database and the admin key."""

    host: str = "127.0.0.1"
    """The address the API listens on."""

    port: int = 8470
    """The port the API listens on."""

    request_rate: int = 1_000
    """Requests per second of one member or viewer to one API process; 0: no limit."""

    quota_jobs: int = 0
    """Active and paused jobs per member; 0: no limit. Set the same value for every API process."""

    quota_payload: int = 0
    """Total payload bytes of these jobs per member; 0: no limit."""

    quota_runs: int = 100_000
    """Waiting runs per member started by hand: run now, backfill, retry, requeue; 0: no limit."""

    quota_classes: int = 1_000
    """Combinations of task, queue, priority, labels and size per user; 0: no limit. Unused ones are deleted."""

    history_width: Duration = DAY
    """Time range of one history partition. Retention drops whole partitions: short ones free disk space sooner."""

    keep_history: Duration = Duration(90 * DAY)
    """How long to keep finished runs, occurrence history and logs."""

    keep_dead_letters: Duration = Duration(400 * DAY)
    """How long to keep a dead letter; then it is discarded, with an entry in the audit log."""

    most_dead_letters: int = 100_000
    """Dead letters to keep per user; beyond that the oldest are discarded."""

    keep_audit: Duration = Duration(400 * DAY)
    """How long to keep the audit log."""

    keep_keys: Duration = Duration(400 * DAY)
    """How long to keep API keys that were revoked or have expired; no request has been accepted with them since."""

    archive: str = ""
    """Where history goes before it is dropped: `s3://bucket/prefix`, `file:///folder`, …; empty: nowhere."""

    keep_job_keys: Duration = Duration(400 * DAY)
    """How long the key of a finished job is remembered, so that putting the same job again does not run it again."""

    store_timeout: Duration = Duration(10 * SECOND)
    """Time limit of one database call; after it the database counts as unavailable."""

    history_timeout: Duration = Duration(5 * MINUTE)
    """Time limit for creating and dropping history partitions."""

    pool_size: int = 0
    """PostgreSQL connections in addition to the hot path; 0: as the role needs (API 8, scheduler 3, worker 2)."""

    storage: str = ""
    """Where large payloads, results and logs go: `file:///folder`, `s3://bucket/prefix`, …; empty: a local folder."""

    storage_endpoint: str = ""
    """The address of an S3 service that is not Amazon's, such as `http://127.0.0.1:8333`."""

    storage_region: str = ""
    """The region of an S3 bucket; empty: as the environment says."""

    storage_path_style: bool = False
    """Whether an S3 bucket's name is in the path of its addresses, as most services other than Amazon's want it."""

    storage_patience: Duration = Duration(5 * MINUTE)
    """How long a worker tries to store a large result while storage is unavailable; then the run ends without it."""

    inline_cap: int = 256 * 1024
    """Larger payloads and results go to object storage, in bytes; on a busy PostgreSQL 32 KiB is better."""

    log_cap: int = 16 * 1024 * 1024
    """Bytes of log to keep per run; beyond that only the end of each attempt's log."""

    result_cap: int = 64 * 1024 * 1024
    """Largest result of a run, in bytes."""

    payload_cap: int = 8 * 1024 * 1024
    """Largest payload of a job, in bytes."""

    repeat_for: Duration = DAY
    """How long an idempotency key is remembered: at least this, at most twice as long."""

    # -------------------------------------------------------------------------------------------------------- notices

    notify: Literal["on", "off", "only"] = "on"
    """Whether a worker sends notices; `only`: it runs nothing else, and loads no tasks."""

    notify_rate: int = 20
    """Notices per minute to one target; the others go together in a digest."""

    public_url: str = ""
    """The address of the API as users reach it, for links in notices."""

    webhook_plain: bool = False
    """Whether notices may be sent by http instead of https."""

    smtp: str = ""
    """The mail server for notices: `smtp://user:password@host:587`, `smtps://host:465`; `?tls=off`: without TLS; \
`?secret=NAME`: the password is this secret. Empty: no e-mail."""

    smtp_from: str = ""
    """The sender of notices by e-mail, like `oncue <oncue@example.org>`."""

    smtp_allow_to: tuple[str, ...] = ()
    """Addresses and domains that members may have notices mailed to, like `@example.org`; administrators: any."""

    master_key_file: str = ""
    """The key from which the secrets of webhooks are derived, the same for all processes; empty: `master.key` in the \
data folder, which the first process that needs it creates."""

    # ------------------------------------------------------------------------------------------------------ a process

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe log lines to write."""

    log_format: Literal["auto", "json", "pretty"] = "auto"
    """Log lines as JSON or as text; `auto`: text on a terminal."""

    log_errors: bool = False
    """Whether log lines that are not on a terminal include the messages of errors, which may contain secrets."""

    access_log: bool = False
    """Whether the API logs each request: method, route, status, time and key id, never the query string."""

    reap: bool = False
    """Whether to adopt and collect orphaned processes; a process with id 1 always does."""

    trace_ratio: float = 0.01
    """Fraction of the runs without a parent span that are traced, if `OTEL_*` configures an exporter."""

    trace_baggage: tuple[str, ...] = ()
    """Keys of W3C baggage that a job keeps of the request that defined it, and passes on."""

    # -------------------------------------------------------------------------------------------------------- secrets

    secrets_dir: str = ""
    """The folder with a worker's secrets: `USER/NAME` and `shared/NAME`; empty: `secrets` in the data folder."""

    secret_roles: tuple[str, ...] = ("admin",)
    """Roles whose jobs may use shared secrets and those in the environment of workers."""

    plain_secrets: Literal["allow", "warn", "refuse"] = "warn"
    """What the API does with an `http` job that has a token in a header as plain text."""

    # -------------------------------------------------------------------------------------------------------- metrics

    metrics_port: int = 0
    """A port of their own for metrics and health, in every role; 0: the API serves its metrics itself, others none."""

    metrics_host: str = "127.0.0.1"
    """The address the metrics port listens on."""

    metrics_token_file: str = ""
    """The file with the token that lets a client read metrics; without it only admin keys do."""

    metrics_open: bool = False
    """Whether every client of the metrics port may read them."""

    counting: bool = True
    """Whether a process counts at all; off only in benchmarks, to measure what counting costs."""

    # ------------------------------------------------------------------------------------------------------- a worker

    tasks: tuple[str, ...] = ()
    """Where a worker loads its tasks from: `file.py`, `package.module` or `package.module:attribute`."""

    name: str = ""
    """A worker's name on screens; empty: its host and process id."""

    queues: tuple[str, ...] = ("default",)
    """The queues a worker takes runs from."""

    labels: tuple[str, ...] = ()
    """A worker's labels, such as `gpu` or a region."""

    concurrency: int = 1_000
    """Slots for async tasks in one worker."""

    threads: int = 32
    """Slots for sync tasks in one worker, each a thread."""

    processes: int = 0
    """Slots for process-isolated tasks and commands in one worker; 0: one per CPU."""

    cpu: float = 0
    """CPUs to share among a worker's runs that request them; 0: all CPUs."""

    memory_mb: int = 0
    """Memory in MB to share among a worker's runs that request it; 0: all memory of the machine or its container."""

    reserved_for_high: float = 0.1
    """Fraction of a worker's slots of each kind, rounded down, that is reserved for high-priority runs."""

    lease: Duration = Duration(15 * SECOND)
    """Time without a heartbeat after which a worker counts as dead; workers send a heartbeat five times as often."""

    grace: Duration = Duration(25 * SECOND)
    """Time for running runs to finish after a stop signal; then they return to the queue."""

    stop_grace: Duration = Duration(SECOND)
    """Time between SIGTERM and SIGKILL for the processes of a run."""

    most_abandoned: int = 8
    """Attempts that still execute after their run has ended, before the worker process is replaced."""

    allow_commands: bool = False
    """Whether a worker has the built-in `command` task."""

    command_roles: tuple[str, ...] = ("admin",)
    """Roles that may create jobs of the `command` task."""

    memory_limit_mb: int = 0
    """Memory limit in MB of a process-isolated run or command that requests none; 0: half of the machine's memory."""

    open_files_limit: int = 1_024
    """Open files and sockets per process-isolated run or command."""

    http_allow: tuple[str, ...] = ()
    """Private networks that the `http` task may reach: `10.1.0.0/16`, `127.0.0.1/32`."""

    http_body_cap: int = 1024 * 1024
    """Most bytes of a response that the `http` task reads."""
