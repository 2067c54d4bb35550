"""Every metric of a process, declared once. docs/metrics.md has the same table, and a test compares the two."""

from __future__ import annotations

from typing import Final

from oncue.domain.buckets import CALL, LAG, RUN
from oncue.domain.instants import SECOND
from oncue.metrics.metric import Kind, Labels, Metric, Roles

MOST_RUN_SERIES: Final = 140  # of task and outcome: histograms, of 15 lines each


def _each(*values: str) -> tuple[Labels, ...]:
    return tuple((value,) for value in values)


def _counter(name: str, role: Roles, text: str, labels: tuple[str, ...] = (), *values: str) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, role=role, help=text, labels=labels, values=_each(*values))


def _gauge(name: str, role: Roles, text: str, labels: tuple[str, ...] = (), *, own: bool = False) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, role=role, help=text, labels=labels, own=own)


def _seconds(
    name: str, role: Roles, text: str, labels: tuple[str, ...], edges: tuple[float, ...], most: int = 0
) -> Metric:
    return Metric(
        name=name, kind=Kind.HISTOGRAM, role=role, help=text, labels=labels, edges=edges, scale=SECOND, most=most
    )


ALL, API, SCHEDULER, WORKER = Roles.ALL, Roles.API, Roles.SCHEDULER, Roles.WORKER

# --------------------------------------------------------------------------------------------------------- the process

BUILD = _gauge(
    "oncue_build_info",
    ALL,
    "1; the labels say what runs: version, role, engine, and the schema that the code knows.",
    ("version", "role", "engine", "schema"),
    own=True,
)
CPU = Metric(
    name="process_cpu_seconds_total",
    kind=Kind.COUNTER,
    role=ALL,
    help="Processor time of the process that answers.",
    own=True,
)
MEMORY = _gauge(
    "process_resident_memory_bytes", ALL, "Resident memory of the process that answers, in bytes.", own=True
)
OPEN_FILES = _gauge("process_open_fds", ALL, "Open file descriptors of the process that answers.", own=True)
MOST_FILES = _gauge("process_max_fds", ALL, "Most file descriptors that this process may open.", own=True)
STARTED = _gauge("process_start_time_seconds", ALL, "When the process that answers started, in Unix seconds.", own=True)

WORKER_CPU = _counter("oncue_worker_process_cpu_seconds_total", WORKER, "Processor time of the worker process.")
WORKER_MEMORY = _gauge(
    "oncue_worker_process_resident_memory_bytes", WORKER, "Resident memory of the worker process, in bytes."
)
WORKER_OPEN_FILES = _gauge("oncue_worker_process_open_fds", WORKER, "Open file descriptors of the worker process.")
WORKER_MOST_FILES = _gauge(
    "oncue_worker_process_max_fds", WORKER, "Most file descriptors that the worker process may open."
)
WORKER_STARTED = Metric(
    name="oncue_worker_process_start_time_seconds",
    kind=Kind.GAUGE,
    role=WORKER,
    help="When the worker process started, in Unix seconds; of several, the oldest.",
    smallest=True,
)

# ------------------------------------------------------------------------------------------------------------ a worker

START_LAG = _seconds(
    "oncue_start_lag_seconds",
    WORKER,
    "Time from when a run could start to the start of its attempt, for every attempt.",
    ("queue", "priority"),
    LAG,
)
RUN_SECONDS = _seconds(
    "oncue_run_seconds",
    WORKER,
    "Time that attempts took, from claim to end. outcome: succeeded, failed, timed_out, cancelled, other.",
    ("task", "outcome"),
    RUN,
    MOST_RUN_SERIES,
)
PLACES = _gauge("oncue_places", WORKER, "Slots for runs. kind: loop, thread, process.", ("kind",))
PLACES_USED = _gauge("oncue_places_used", WORKER, "Slots that runs use.", ("kind",))
RESOURCES = _gauge(
    "oncue_resources",
    WORKER,
    "What runs may request. resource: cpu (in processors), memory_bytes.",
    ("resource",),
)
RESOURCES_USED = _gauge("oncue_resources_used", WORKER, "What active runs have requested.", ("resource",))
CLAIMED = _counter("oncue_claimed_total", WORKER, "Runs that a claim returned.")
CLAIM_MISSED = _counter(
    "oncue_claim_missed_total", WORKER, "Runs that a claim asked for and did not get: another worker was faster."
)
FOUND = _counter(
    "oncue_found_total",
    WORKER,
    "Runs that were read ahead. by: window, hint, turn, or sweep (the hint was lost or late).",
    ("by",),
    *("window", "hint", "sweep", "turn"),
)
SETTLE_PENDING = _gauge("oncue_settle_pending", WORKER, "Outcomes that are not written yet.")
IN_DOUBT = _gauge(
    "oncue_claims_in_doubt", WORKER, "Calls that give out runs, without an answer, which may still take effect."
)
ABANDONED = _gauge("oncue_abandoned", WORKER, "Attempts that did not stop when told to, and may still run.")
SETTLED = _counter(
    "oncue_settled_total",
    WORKER,
    "Outcomes that were written. how: final, again (to be retried), handed_back (returned to the queue).",
    ("how",),
    *("final", "again", "handed_back"),
)
RESULTS_REFUSED = _counter(
    "oncue_results_refused_total", WORKER, "Outcomes that came too late: another worker owned the run."
)
PREEMPTED = _counter("oncue_preempted_total", WORKER, "Runs that were stopped for a high-priority run.")
WORKER_UP = _gauge("oncue_worker_up", WORKER, "1 while a worker process is registered and sends heartbeats.")
RESTARTS = _counter(
    "oncue_worker_restarts_total",
    WORKER,
    "Worker processes that another replaced. why: exit, stuck (its loop was blocked), buried (declared dead), "
    "silent (no heartbeat reached the database), asked (too many attempts did not stop), "
    "reload (its files changed).",
    ("why",),
    *("exit", "stuck", "buried", "silent", "asked", "reload"),
)
BEAT_AGE = _gauge("oncue_beat_age_seconds", WORKER, "Age of the last heartbeat that reached the database.")
RUN_LOG_BYTES = _counter("oncue_run_log_bytes_total", WORKER, "Bytes of runs' logs that were written.")
RUN_LOG_CUT = _counter("oncue_run_log_cut_total", WORKER, "Attempts whose log was cut at `max_log_bytes`.")
NOTICES_SENT = _counter(
    "oncue_notices_total",
    WORKER,
    "Notices. outcome: sent, digested (sent together with another), failed (to be retried), dead, muted, in_time "
    "(the run was not late), dropped (too many waited).",
    ("channel", "outcome"),
)

SPOOL_BYTES = _gauge(
    "oncue_storage_spool_bytes", WORKER, "Bytes of results that wait on disk until object storage is available again."
)

# --------------------------------------------------------------------------------------------------------- a scheduler

PLANNED = _counter("oncue_planned_runs_total", SCHEDULER, "Runs that were planned.")
PLANNED_LATE = _counter("oncue_planned_late_total", SCHEDULER, "Runs that were planned after their instant.")
PUT_OFF = _counter(
    "oncue_jobs_put_off_total", SCHEDULER, "Jobs that could not be planned, and were postponed by a minute."
)
GRANTED = _counter("oncue_granted_total", SCHEDULER, "Starts that rate limits gave to runs.")
EXPIRED = _counter("oncue_expired_total", SCHEDULER, "Runs that ended because they did not start in time.")
WITHDRAWN = _counter("oncue_withdrawn_total", SCHEDULER, "Runs that an overlap policy withdrew.")
REAPED_WORKERS = _counter("oncue_reaped_workers_total", SCHEDULER, "Workers that were declared dead.")
REAPED_RUNS = _counter("oncue_reaped_runs_total", SCHEDULER, "Runs that were recovered from dead workers.")
PIECES_DROPPED = _counter("oncue_pieces_dropped_total", SCHEDULER, "Partitions of history that were dropped.")
OUTBOX = _counter(
    "oncue_outbox_rows_total",
    SCHEDULER,
    "Rows of the outbox that became a job, or were refused. outcome: taken, refused.",
    ("outcome",),
    *("taken", "refused"),
)
ARCHIVED_ROWS = _counter("oncue_archived_rows_total", SCHEDULER, "Rows that went to the archive and were read back.")
ARCHIVE_ERRORS = _counter(
    "oncue_archive_errors_total",
    SCHEDULER,
    "Steps of the archive that failed: it was unavailable, or a file had changed.",
)

# ------------------------------------------------------------------------------------------------------------- the API

HTTP_REQUESTS = _counter(
    "oncue_http_requests_total",
    API,
    "Requests, by the pattern of their path and the status of the answer.",
    ("route", "status"),
)
HTTP_SECONDS = _seconds(
    "oncue_http_request_seconds",
    API,
    "Time from a request's head to the end of its answer; event streams are left out.",
    ("route",),
    CALL,
)
EVENT_STREAMS = _gauge("oncue_event_streams", API, "Open event streams.")
REFUSED = _counter(
    "oncue_refused_total",
    API,
    "Requests that were refused. why: rate, quota, key, role.",
    ("why",),
    *("rate", "quota", "key", "role"),
)
ACCEPTED = _counter(
    "oncue_jobs_accepted_total",
    API,
    "Jobs that were created. how: single, batch, apply (by its key).",
    ("how",),
    *("single", "batch", "apply"),
)
COMMIT_JOBS = Metric(
    name="oncue_commit_jobs",
    kind=Kind.HISTOGRAM,
    role=API,
    help="Jobs in one group commit.",
    edges=(1.0, 10.0, 100.0, 1000.0),
)

# ------------------------------------------------------------------------------------------------------- every process

PASSES = _counter(
    "oncue_service_passes_total",
    ALL,
    "Passes of this process's loops. outcome: ok, away (the database was unavailable), failed.",
    ("service", "outcome"),
)
LAST_OK = Metric(
    name="oncue_service_last_ok_timestamp_seconds",
    kind=Kind.GAUGE,
    role=ALL,
    help="When a loop last passed without an error, in Unix seconds; of several, the oldest.",
    labels=("service",),
    smallest=True,
)
LOOP_DELAY = _seconds(
    "oncue_loop_delay_seconds",
    ALL,
    "How late a tick of 250 ms came: a blocked event loop, or too few processors.",
    (),
    CALL,
)
STORE_CALLS = _seconds("oncue_store_call_seconds", ALL, "Time of calls to the database.", ("verb",), CALL)
STORE_ERRORS = _counter(
    "oncue_store_errors_total",
    ALL,
    "Failed calls to the database. kind: away (unavailable), refused (it cannot store this), other.",
    ("verb", "kind"),
)
STORAGE_CALLS = _seconds(
    "oncue_storage_call_seconds",
    ALL,
    "Time of calls to object storage. op: put, get, sign, head, list, delete.",
    ("op",),
    CALL,
)
STORAGE_ERRORS = _counter(
    "oncue_storage_errors_total",
    ALL,
    "Failed calls to object storage. kind: away (unavailable), refused (it does not let us in), lost (the object is "
    "missing or has changed), other.",
    ("op", "kind"),
)
CONNECTIONS = _gauge(
    "oncue_store_connections", ALL, "Open connections to PostgreSQL. pool: hot (claims, settles, heartbeats), other.",
    ("pool",),
)  # fmt: skip
CONNECTIONS_USED = _gauge("oncue_store_connections_used", ALL, "Connections that a call uses now.", ("pool",))
HINTS = _counter(
    "oncue_hints_total",
    ALL,
    "Hints between processes. way: sent, passed_on (no room), heard, failed (not sent),"
    " reconnected (some may be missed).",
    ("topic", "way"),
)
CLOCK_OFFSET = _gauge(
    "oncue_clock_offset_seconds", ALL, "This machine's clock minus the database's, in seconds.", own=True
)
LOG_LINES = _counter(
    "oncue_log_lines_total",
    ALL,
    "Lines of the log that were written. level: debug, info, warning, error, critical.",
    ("level",),
    *("debug", "info", "warning", "error", "critical"),
)
LOG_SUPPRESSED = _counter("oncue_log_suppressed_total", ALL, "Lines of the log that were left out of bursts.")
SPANS_LOST = _counter(
    "oncue_spans_lost_total",
    ALL,
    "Spans that were not exported. why: full (too many waited), failed (they could not be sent).",
    ("why",),
    *("full", "failed"),
)

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
BY_NAME: Final = {metric.name: metric for metric in METRICS}
