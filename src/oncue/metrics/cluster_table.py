"""Every metric of the whole cluster, read from the database when somebody asks."""

from __future__ import annotations

from typing import Final

from oncue.metrics.metric import Kind, Metric, Roles


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"oncue_cluster_{name}", kind=Kind.COUNTER, role=Roles.CLUSTER, help=text, labels=labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=f"oncue_cluster_{name}", kind=Kind.GAUGE, role=Roles.CLUSTER, help=text, labels=labels)


UP = _gauge("up", "1 if the database answered; else this is the only metric.")
READ_AT = _gauge("read_timestamp_seconds", "When the database was read, in Unix seconds.")
CREATED = _counter("runs_created_total", "Runs that were created, ever.", "task")
ENDED = _counter(
    "runs_ended_total",
    "Runs that ended, ever. outcome: succeeded, dead, cancelled, expired, withdrawn.",
    *("task", "outcome"),
)
RETRIED = _counter("attempts_retried_total", "Attempts that failed and were retried, ever.", "task")
LOST = _counter("attempts_lost_total", "Attempts whose worker was lost, ever.", "task")
OCCURRENCES = _counter(
    "occurrences_total", "Occurrences without a run, ever. outcome: skipped, coalesced, missed.", "outcome"
)
DEAD_LETTERS = _gauge("dead_letters", "Dead letters that were neither run again nor discarded.", "task")
QUEUE_OPEN = _gauge("queue_open", "Runs that have not ended.", "queue")
QUEUE_DUE = _gauge("queue_due", "Runs that are due and blocked by nothing; all queues together up to 10,000.", "queue")
QUEUE_DUE_MORE = _gauge("queue_due_more", "1 if more runs are due than were counted.", "queue")
QUEUE_OLDEST = _gauge("queue_oldest_due_seconds", "How long the first of these has been due.", "queue")
QUEUE_PAUSED = _gauge("queue_paused", "1 if the queue is paused.", "queue")
DESIRED = _gauge("desired_workers", "How many workers the queue needs, as `GET /v1/scaling` says.", "queue")
PLANNER_LAG = _gauge("planner_lag_seconds", "How late planning is; 0 when all is well, because it is ahead.")
HELD_OLDEST = _gauge("held_oldest_seconds", "How long the first run past its instant has been held by a lane.")
ORPHANS = _gauge("orphans", "Running runs whose worker is not registered.")
WITHOUT_WORKER = _gauge("tasks_without_worker", "Tasks with open runs that no live worker has.")
PROCESSES = _gauge("processes", "Processes with a heartbeat within 30 s.", "role", "version")
WORKERS = _gauge("workers", "Workers with a heartbeat within their lease. state: live, draining.", "state")
FINDINGS = _gauge("selfaudit_findings", "Open findings of the self-audit. There should be none.", "check")
AUDIT_PASS = _gauge(
    "selfaudit_pass_timestamp_seconds", "When the self-audit last completed a pass over all jobs, in Unix seconds."
)
AUDIT_CHECKED = _counter("selfaudit_checked_total", "Objects that the self-audit has checked, ever.", "check")
OLDEST_TRANSACTION = _gauge(
    "oldest_transaction_seconds",
    "PostgreSQL: age of the oldest open transaction; it keeps dead rows from being removed.",
)
OUTBOX_ROWS = _gauge(
    "outbox_rows", "PostgreSQL: rows of the outbox, up to 10,000 of each state. state: waiting, refused.", "state"
)
OUTBOX_OLDEST = _gauge("outbox_oldest_seconds", "PostgreSQL: age of the oldest row of the outbox that waits.")
NOTICES_WAITING = _gauge("notices_waiting", "Notices that have not ended.")
NOTICES_OLDEST = _gauge("notices_oldest_seconds", "How long the first notice has waited that was not tried yet.")
HISTORY_OLDEST = _gauge(
    "history_oldest_timestamp_seconds", "When the oldest partition of history begins, in Unix seconds."
)
HISTORY_KEEP = _gauge("history_keep_seconds", "How long history is kept (`retention`).")
HISTORY_WIDTH = _gauge(
    "history_width_seconds", "Time range of one partition of history (`partition_span`), which is dropped as a whole."
)
STORE_BYTES = _gauge("store_bytes", "Bytes of the database, by table; read every 5 minutes.", "table")

CLUSTER_METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
