"""What the dashboard shows: one table of rows and panels. `make grafana` writes oncue.json from it.

In expressions PROCESS stands for the chosen processes, and RATE for the range of a rate.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Panel(NamedTuple):
    title: str
    unit: str
    queries: dict[str, str]  # legend to expression
    kind: str = "timeseries"
    bad_from: float | None = None  # red from this value on


def quantiles(metric: str, by: str, *quantiles: float, where: str = "PROCESS") -> dict[str, str]:
    """The quantiles of a histogram, a line for each value of the label `by`."""
    shown = f" {{{{{by}}}}}" if by else ""
    grouped = f"le, {by}" if by else "le"
    return {
        f"p{quantile * 100:g}{shown}": (
            f"histogram_quantile({quantile:g}, sum by ({grouped}) (rate({metric}_bucket{{{where}}}[RATE])))"
        )
        for quantile in quantiles
    }


LAG = 'PROCESS, queue=~"$queue"'
RUN = 'PROCESS, task=~"$task"'
IN_TIME = 'sum(increase(oncue_start_lag_seconds_bucket{le="2.0"}[30d]))'
ALL_STARTS = "sum(increase(oncue_start_lag_seconds_count[30d]))"

ROWS: Final[dict[str, list[Panel]]] = {
    "Promise": [
        Panel(
            "Error budget left (30 days)",
            "percentunit",
            {"left": f"1 - (1 - {IN_TIME} / {ALL_STARTS}) / 0.001"},
            "stat",
        ),
        Panel(
            "Burn rate",
            "none",
            {w: f"oncue:late_starts:ratio_rate{w} / 0.001" for w in ("5m", "1h", "6h", "1d")},
            bad_from=14.4,
        ),
        Panel("Start lag", "s", quantiles("oncue_start_lag_seconds", "", 0.5, 0.95, 0.99, where=LAG), bad_from=2),
        Panel(
            "Start lag, all starts",
            "s",
            {"{{le}}": f"sum by (le) (increase(oncue_start_lag_seconds_bucket{{{LAG}}}[RATE]))"},
            "heatmap",
        ),
        Panel(
            "Self-audit findings",
            "none",
            {"{{check}}": "max by (check) (oncue_cluster_selfaudit_findings)"},
            "stat",
            bad_from=1,
        ),
    ],
    "Work": [
        Panel(
            "Created",
            "ops",
            {"{{task}}": 'max by (task) (rate(oncue_cluster_runs_created_total{task=~"$task"}[RATE]))'},
        ),
        Panel(
            "Ended",
            "ops",
            {
                "{{outcome}}": "sum by (outcome) (max by (task, outcome) "
                '(rate(oncue_cluster_runs_ended_total{task=~"$task"}[RATE])))'
            },
        ),
        Panel(
            "Retries and losses",
            "ops",
            {
                "retried {{task}}": 'max by (task) (rate(oncue_cluster_attempts_retried_total{task=~"$task"}[RATE]))',
                "lost {{task}}": 'max by (task) (rate(oncue_cluster_attempts_lost_total{task=~"$task"}[RATE]))',
            },
        ),
        Panel("Dead letters", "none", {"{{task}}": 'max by (task) (oncue_cluster_dead_letters{task=~"$task"})'}),
        Panel(
            "Occurrences without a run",
            "none",
            {"{{outcome}}": "max by (outcome) (increase(oncue_cluster_occurrences_total[1h]))"},
        ),
    ],
    "Queues": [
        Panel("Open runs", "none", {"{{queue}}": 'max by (queue) (oncue_cluster_queue_open{queue=~"$queue"})'}),
        Panel("Due runs", "none", {"{{queue}}": 'max by (queue) (oncue_cluster_queue_due{queue=~"$queue"})'}),
        Panel(
            "Oldest due run",
            "s",
            {"{{queue}}": 'max by (queue) (oncue_cluster_queue_oldest_due_seconds{queue=~"$queue"})'},
            bad_from=60,
        ),
        Panel("Paused", "none", {"{{queue}}": 'max by (queue) (oncue_cluster_queue_paused{queue=~"$queue"})'}),
        Panel(
            "Workers",
            "none",
            {
                "desired {{queue}}": 'max by (queue) (oncue_cluster_desired_workers{queue=~"$queue"})',
                "{{state}}": "max by (state) (oncue_cluster_workers)",
            },
        ),
    ],
    "Workers": [
        Panel(
            "Slots in use",
            "percentunit",
            {"{{kind}}": "sum by (kind) (oncue_places_used{PROCESS}) / sum by (kind) (oncue_places{PROCESS})"},
            bad_from=0.9,
        ),
        Panel("Run time", "s", quantiles("oncue_run_seconds", "task", 0.5, 0.99, where=RUN)),
        Panel(
            "Restarts",
            "none",
            {"{{instance}} {{why}}": "sum by (instance, why) (increase(oncue_worker_restarts_total{PROCESS}[1h]))"},
        ),
        Panel("Loop delay", "s", quantiles("oncue_loop_delay_seconds", "instance", 0.99), bad_from=0.5),
        Panel(
            "Claims",
            "ops",
            {
                "claimed": "sum(rate(oncue_claimed_total{PROCESS}[RATE]))",
                "missed": "sum(rate(oncue_claim_missed_total{PROCESS}[RATE]))",
            },
        ),
        Panel("Found by", "ops", {"{{by}}": "sum by (by) (rate(oncue_found_total{PROCESS}[RATE]))"}),
    ],
    "Scheduler": [
        Panel("Planner lag", "s", {"lag": "max(oncue_cluster_planner_lag_seconds)"}, bad_from=5),
        Panel(
            "Planned runs",
            "ops",
            {
                "planned": "sum(rate(oncue_planned_runs_total{PROCESS}[RATE]))",
                "late": "sum(rate(oncue_planned_late_total{PROCESS}[RATE]))",
            },
        ),
        Panel("Jobs put off", "none", {"jobs": "sum(increase(oncue_jobs_put_off_total{PROCESS}[1h]))"}, bad_from=1),
        Panel(
            "Passes",
            "ops",
            {"{{service}} {{outcome}}": "sum by (service, outcome) (rate(oncue_service_passes_total{PROCESS}[RATE]))"},
        ),
    ],
    "Database": [
        Panel("Calls", "s", quantiles("oncue_store_call_seconds", "verb", 0.99), bad_from=1),
        Panel(
            "Errors",
            "ops",
            {"{{verb}} {{kind}}": "sum by (verb, kind) (rate(oncue_store_errors_total{PROCESS}[RATE]))"},
        ),
        Panel(
            "Connections",
            "none",
            {
                "used {{pool}}": "sum by (pool) (oncue_store_connections_used{PROCESS})",
                "open {{pool}}": "sum by (pool) (oncue_store_connections{PROCESS})",
            },
        ),
        Panel("Size", "bytes", {"{{table}}": "max by (table) (oncue_cluster_store_bytes)"}),
        Panel("Oldest transaction", "s", {"oldest": "max(oncue_cluster_oldest_transaction_seconds)"}, bad_from=1800),
        Panel("Hints", "ops", {"{{topic}} {{way}}": "sum by (topic, way) (rate(oncue_hints_total{PROCESS}[RATE]))"}),
    ],
    "API": [
        Panel("Requests", "reqps", {"{{route}}": "sum by (route) (rate(oncue_http_requests_total{PROCESS}[RATE]))"}),
        Panel("Answers", "s", quantiles("oncue_http_request_seconds", "route", 0.99)),
        Panel(
            "Refused and failed",
            "reqps",
            {"{{status}}": 'sum by (status) (rate(oncue_http_requests_total{PROCESS, status=~"4..|5.."}[RATE]))'},
        ),
        Panel("Event streams", "none", {"{{instance}}": "sum by (instance) (oncue_event_streams{PROCESS})"}),
    ],
    "Outside": [
        Panel("Object storage calls", "s", quantiles("oncue_storage_call_seconds", "op", 0.99)),
        Panel(
            "Object storage errors",
            "ops",
            {"{{op}} {{kind}}": "sum by (op, kind) (rate(oncue_storage_errors_total{PROCESS}[RATE]))"},
        ),
        Panel(
            "Results in spools",
            "bytes",
            {"{{instance}}": "oncue_storage_spool_bytes{PROCESS}"},
            bad_from=1,
        ),
        Panel(
            "Notices",
            "ops",
            {"{{channel}} {{outcome}}": "sum by (channel, outcome) (rate(oncue_notices_total{PROCESS}[RATE]))"},
        ),
    ],
    "Processes": [
        Panel("CPU", "percentunit", {"{{instance}}": "rate(process_cpu_seconds_total{PROCESS}[RATE])"}),
        Panel(
            "Worker process CPU",
            "percentunit",
            {"{{instance}}": "rate(oncue_worker_process_cpu_seconds_total{PROCESS}[RATE])"},
        ),
        Panel("Memory", "bytes", {"{{instance}}": "process_resident_memory_bytes{PROCESS}"}),
        Panel(
            "Worker process memory", "bytes", {"{{instance}}": "oncue_worker_process_resident_memory_bytes{PROCESS}"}
        ),
        Panel("Open files", "none", {"{{instance}}": "process_open_fds{PROCESS}"}),
        Panel(
            "Log lines",
            "none",
            {
                "{{level}}": "sum by (level) (increase(oncue_log_lines_total{PROCESS}[RATE]))",
                "left out": "sum(increase(oncue_log_suppressed_total{PROCESS}[RATE]))",
            },
        ),
        Panel("Spans lost", "none", {"{{why}}": "sum by (why) (increase(oncue_spans_lost_total{PROCESS}[RATE]))"}),
        Panel("Versions", "none", {"{{role}} {{version}}": "max by (role, version) (oncue_cluster_processes)"}),
    ],
}
