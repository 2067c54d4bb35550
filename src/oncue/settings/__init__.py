"""Every setting, read once, declared and documented only here.

The command line's options, the environment variables, the keys of `oncue.toml`, `oncue config show` and the table in
docs/running.md are made from these declarations.

- `declaration.py` is how a setting is declared.
- `checks.py` finds what is wrong with settings, beyond their types and ranges.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_type_hints

import msgspec

from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration
from oncue.settings.declaration import ALL, API, SCHEDULER, WORKER, Declaration, Roles, declarations, setting

__all__ = ["ALL", "DECLARED", "KINDS", "Declaration", "Roles", "Settings"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str = setting(
        "sqlite:///.oncue/oncue.db",
        "The database: `sqlite:///relative.db`, `sqlite:////abs.db` or `postgresql://…`.",
        ALL,
        metavar="URL",
    )
    data_dir: str = setting(
        ".oncue",
        "The folder for local files: the default database, the admin key, the address of the server.",
        ALL,
        metavar="FOLDER",
    )
    host: str = setting("127.0.0.1", "The address the API listens on.", API, metavar="ADDRESS")
    port: int = setting(8470, "The port the API listens on.", API, least=0, most=65_535, metavar="PORT")

    # ------------------------------------------------------------------------------------------------------- a worker

    tasks: tuple[str, ...] = setting(
        (),
        "Where a worker loads its tasks from: `file.py`, `package.module` or `package.module:attribute`.",
        WORKER,
        metavar="FILE.py|MODULE[:ATTR]",
    )
    schedule_owner: str = setting(
        "admin", "The user who owns the jobs of schedules that code declares.", WORKER, metavar="USER"
    )
    build: int = setting(
        0,
        "The number of this build, which only rises; 0: when the newest file of the tasks was written.",
        WORKER,
        least=0,
        most=2**53 - 1,
        metavar="N",
    )
    reload: bool = setting(False, "Whether the worker restarts when the files of its tasks change.", WORKER)
    worker_name: str = setting(
        "", "A worker's name on screens; empty: its host and process id.", WORKER, metavar="NAME"
    )
    queues: tuple[str, ...] = setting(
        (),
        "The queues a worker takes runs from. Not set: `default`, and in `up` and `dev` those that the tasks name.",
        WORKER,
    )
    labels: tuple[str, ...] = setting((), "A worker's labels, such as `gpu` or a region.", WORKER)
    concurrency: int = setting(1_000, "Slots for async tasks in one worker.", WORKER, least=1, most=100_000)
    threads: int = setting(32, "Slots for sync tasks in one worker, each a thread.", WORKER, least=1, most=1_000)
    processes: int = setting(
        0, "Slots for process-isolated tasks and commands in one worker; 0: one per CPU.", WORKER, least=0, most=1_000
    )
    worker_cpu: float = setting(
        0, "CPUs to share among a worker's runs that request them; 0: all CPUs.", WORKER, least=0, most=10_000
    )
    worker_memory_mb: int = setting(
        0,
        "Memory in MB to share among a worker's runs that request it; 0: all memory of the machine or its container.",
        WORKER,
        least=0,
        metavar="MB",
    )
    reserved_for_high: float = setting(
        0.1,
        "Fraction of a worker's slots of each kind, rounded down, that is reserved for high-priority runs.",
        WORKER,
        least=0,
        most=1,
    )
    lease: Duration = setting(
        Duration(15 * SECOND),
        "Time without a heartbeat after which a worker counts as dead; workers send a heartbeat five times as often.",
        WORKER,
    )
    shutdown_grace: Duration = setting(
        Duration(25 * SECOND),
        "Time for running runs to finish after a stop signal; then they return to the queue.",
        WORKER,
    )
    kill_grace: Duration = setting(
        Duration(SECOND),
        "Time for a run to stop after its stop signal; then its processes are killed, and half a second later a "
        "function is left behind.",
        WORKER,
        rare=True,
    )
    max_abandoned_threads: int = setting(
        8,
        "Attempts that still execute after their run has ended, before the worker process is replaced.",
        WORKER,
        least=1,
        most=1_000,
        rare=True,
    )
    allow_commands: bool = setting(False, "Whether a worker has the built-in `command` task.", WORKER)
    command_roles: tuple[str, ...] = setting(
        ("admin",), "Roles that may create jobs of the `command` task.", API, rare=True
    )
    process_memory_mb: int = setting(
        0,
        "Memory limit in MB of a process-isolated run or command that requests none; 0: half of the machine's memory.",
        WORKER,
        least=0,
        metavar="MB",
        rare=True,
    )
    process_open_files: int = setting(
        1_024, "Open files and sockets per process-isolated run or command.", WORKER, least=16, rare=True
    )
    http_allow: tuple[str, ...] = setting(
        (), "Private networks that the `http` task may reach: `10.1.0.0/16`, `127.0.0.1/32`.", ALL, metavar="NETWORK"
    )
    max_http_body_bytes: int = setting(
        1024 * 1024,
        "Most bytes of a response that the `http` task reads.",
        WORKER,
        least=1_024,
        metavar="BYTES",
        rare=True,
    )

    # -------------------------------------------------------------------------------------------------- limits of users

    rate_limit: int = setting(
        1_000, "Requests per second of one member or viewer to one API process; 0: no limit.", API, least=0, rare=True
    )
    max_jobs_per_user: int = setting(
        0, "Active and paused jobs per member; 0: no limit. The same for every process.", API | SCHEDULER, least=0
    )
    max_payload_bytes_per_user: int = setting(
        0, "Total payload bytes of these jobs per member; 0: no limit.", API | SCHEDULER, least=0, metavar="BYTES"
    )
    quota_runs: int = setting(
        100_000,
        "Waiting runs per member started by hand: run now, backfill, run again; 0: no limit.",
        API,
        least=0,
    )
    quota_classes: int = setting(
        1_000,
        "Combinations of task, queue, priority, labels and size per user; 0: no limit. Unused ones are deleted.",
        API | SCHEDULER,
        least=0,
    )

    session_idle: Duration = setting(
        Duration(12 * HOUR), "Time without a request after which a browser has to sign in again.", API, rare=True
    )
    session_lifetime: Duration = setting(
        Duration(7 * DAY), "Time after which a browser has to sign in again, however much it is used.", API, rare=True
    )

    # ----------------------------------------------------------------------------------------------------- what is kept

    partition_span: Duration = setting(
        DAY,
        "Time range of one history partition. Retention drops whole partitions: short ones free disk space sooner.",
        ALL,
    )
    retention: Duration = setting(
        Duration(90 * DAY), "How long to keep finished runs, occurrence history and logs.", ALL
    )
    keep_dead_letters: Duration = setting(
        Duration(400 * DAY),
        "How long to keep a dead letter; then it is discarded, with an entry in the audit log.",
        SCHEDULER,
    )
    most_dead_letters: int = setting(
        100_000, "Dead letters to keep per user; beyond that the oldest are discarded.", SCHEDULER, least=1
    )
    keep_audit: Duration = setting(Duration(400 * DAY), "How long to keep the audit log.", SCHEDULER)
    keep_keys: Duration = setting(
        Duration(400 * DAY),
        "How long to keep API keys that were revoked or have expired; no request has been accepted with them since.",
        SCHEDULER,
    )
    archive: str = setting(
        "",
        "Where history goes before it is dropped: `s3://bucket/prefix`, `file:///folder`, …; empty: nowhere.",
        API | SCHEDULER,
        metavar="URL",
    )
    keep_job_keys: Duration = setting(
        Duration(400 * DAY),
        "How long the key of a finished job is remembered, so that putting the same job again does not run it again.",
        API,
        rare=True,
    )

    # ----------------------------------------------------------------------------------------------------- the database

    store_timeout: Duration = setting(
        Duration(10 * SECOND),
        "Time limit of a database call, on an API of a request's; after it the database counts as unavailable.",
        ALL,
        rare=True,
    )
    history_timeout: Duration = setting(
        Duration(5 * MINUTE), "Time limit for creating and dropping history partitions.", ALL, rare=True
    )
    pool_size: int = setting(
        0,
        "PostgreSQL connections in addition to the hot path; 0: as the role needs (API 8, scheduler 4, worker 2).",
        ALL,
        least=0,
        most=1_000,
        rare=True,
    )

    # --------------------------------------------------------------------------------------------------- object storage

    storage: str = setting(
        "",
        "Where large payloads, results and logs go: `file:///folder`, `s3://bucket/prefix`, …; empty: a local folder.",
        ALL,
        metavar="URL",
    )
    storage_endpoint: str = setting(
        "", "The address of an S3 service that is not Amazon's, such as `http://127.0.0.1:8333`.", ALL, metavar="URL"
    )
    storage_region: str = setting(
        "", "The region of an S3 bucket; empty: as the environment says.", ALL, metavar="NAME"
    )
    storage_path_style: bool = setting(
        False,
        "Whether an S3 bucket's name is in the path of its addresses, as most services other than Amazon's want it.",
        ALL,
    )
    storage_patience: Duration = setting(
        Duration(5 * MINUTE),
        "How long a worker tries to store a large result while storage is unavailable; then the run ends without it.",
        ALL,
    )
    inline_cap: int = setting(
        256 * 1024,
        "Larger payloads and results go to object storage, in bytes; on a busy PostgreSQL 32 KiB is better.",
        ALL,
        least=1_024,
        metavar="BYTES",
        rare=True,
    )
    max_log_bytes: int = setting(
        16 * 1024 * 1024,
        "Bytes of log to keep per run; beyond that only the end of each attempt's log.",
        WORKER,
        least=1_024,
        metavar="BYTES",
        rare=True,
    )
    max_result_bytes: int = setting(
        64 * 1024 * 1024, "Largest result of a run, in bytes.", WORKER, least=1_024, metavar="BYTES", rare=True
    )
    max_payload_bytes: int = setting(
        8 * 1024 * 1024, "Largest payload of a job, in bytes.", API | SCHEDULER, least=1_024, metavar="BYTES", rare=True
    )
    idempotency_retention: Duration = setting(
        DAY, "How long an idempotency key is remembered: at least this, at most twice as long.", API, rare=True
    )
    outbox_timeout: Duration = setting(
        DAY, "How long a job in the outbox is tried that cannot be created yet.", SCHEDULER, rare=True
    )

    # -------------------------------------------------------------------------------------------------------- notices

    notify: Literal["on", "off", "only"] = setting(
        "on", "Whether a worker sends notices; `only`: it runs nothing else, and loads no tasks.", WORKER, rare=True
    )
    notify_rate: int = setting(
        20, "Notices per minute to one target; the others go together in a digest.", ALL, least=1, most=1_000
    )
    public_url: str = setting(
        "",
        "The address of the API as users reach it: for links in notices, and with https for secure cookies.",
        ALL,
        metavar="URL",
    )
    webhook_plain: bool = setting(False, "Whether notices may be sent by http instead of https.", ALL)
    smtp: str = setting(
        "",
        "The mail server for notices: `smtp://user:password@host:587`, `smtps://host:465`; "
        "`?tls=off`: without TLS; `?secret=NAME`: the password is this secret. Empty: no e-mail.",
        ALL,
        metavar="URL",
    )
    smtp_from: str = setting(
        "", "The sender of notices by e-mail, like `oncue <oncue@example.org>`.", ALL, metavar="ADDRESS"
    )
    smtp_allow_to: tuple[str, ...] = setting(
        (),
        "Addresses and domains that members may have notices mailed to, like `@example.org`; administrators: any.",
        ALL,
        metavar="ADDRESS",
    )
    master_key_file: str = setting(
        "",
        "The key from which the secrets of webhooks are derived, the same for all processes; "
        "empty: `master.key` in the data folder, which the first process that needs it creates.",
        ALL,
        metavar="FILE",
    )

    # ------------------------------------------------------------------------------------------------------ a process

    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least severe log lines to write.", ALL
    )
    log_format: Literal["auto", "json", "pretty", "short"] = setting(
        "auto", "Log lines as JSON or text; `auto`: text on a terminal; `short`: only time and sentence.", ALL
    )
    log_runs: bool = setting(False, "Whether a worker logs every run that ends, and no line is left out.", WORKER)
    log_output: bool = setting(
        False, "Whether a worker also logs what tasks print and log, in 10 s at most 100 lines of a run.", WORKER
    )
    log_errors: bool = setting(
        False,
        "Whether log lines that are not on a terminal include the messages of errors, which may contain secrets.",
        ALL,
    )
    access_log: bool = setting(
        False, "Whether the API logs each request: method, route, status, time and key id, never the query string.", API
    )
    reap: bool = setting(False, "Whether to adopt and collect orphaned processes; process 1 always does.", ALL)
    trace_ratio: float = setting(
        0.01,
        "Fraction of the runs without a parent span that are traced, if `OTEL_*` configures an exporter.",
        SCHEDULER | WORKER,
        least=0,
        most=1,
    )
    trace_baggage: tuple[str, ...] = setting(
        (), "Keys of W3C baggage that a job keeps of the request that defined it, and passes on.", API
    )

    # -------------------------------------------------------------------------------------------------------- secrets

    secrets_dir: str = setting(
        "",
        "The folder with a worker's secrets: `USER/NAME` and `shared/NAME`; empty: `secrets` in the data folder.",
        WORKER,
        metavar="FOLDER",
    )
    secret_roles: tuple[str, ...] = setting(
        ("admin",), "Roles whose jobs may use shared secrets and those in the environment of workers.", API | SCHEDULER
    )
    plain_secrets: Literal["allow", "warn", "refuse"] = setting(
        "warn", "What to do with an `http` job that has a token in a header as plain text.", API | SCHEDULER
    )

    # -------------------------------------------------------------------------------------------------------- metrics

    metrics_port: int = setting(
        0,
        "A port of their own for metrics and health, in every role; 0: the API serves its metrics itself, others none.",
        ALL,
        least=0,
        most=65_535,
        metavar="PORT",
    )
    metrics_host: str = setting("127.0.0.1", "The address the metrics port listens on.", ALL, metavar="ADDRESS")
    metrics_token_file: str = setting(
        "",
        "The file with the token that lets a client read metrics; without it only admin keys do.",
        ALL,
        metavar="FILE",
    )
    metrics_open: bool = setting(False, "Whether every client of the metrics port may read them.", ALL)
    counting: bool = setting(
        True, "Whether a process counts at all; off only in benchmarks, to measure what counting costs.", ALL, rare=True
    )


DECLARED: Final = dict(zip(Settings.__struct_fields__, declarations, strict=True))
KINDS: Final[dict[str, Any]] = get_type_hints(Settings)
