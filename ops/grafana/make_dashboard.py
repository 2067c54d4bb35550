"""Print the table of panels as a Grafana dashboard; `make grafana` keeps it in oncue.json."""

from __future__ import annotations

import json
from typing import Any

from panels import ROWS, Panel

COLUMNS, HEIGHT, ACROSS = 24, 8, 3
SOURCE = {"type": "prometheus", "uid": "$datasource"}
STANDS_FOR = {"PROCESS": 'job=~"$job", instance=~"$instance"', "RATE": "$__rate_interval"}
VARIABLES = {
    "job": "label_values(oncue_build_info, job)",
    "instance": 'label_values(oncue_build_info{job=~"$job"}, instance)',
    "queue": "label_values(oncue_cluster_queue_open, queue)",
    "task": "label_values(oncue_cluster_runs_created_total, task)",
}

Json = dict[str, Any]


def dashboard() -> Json:
    return {
        "uid": "oncue",
        "title": "oncue",
        "description": "Made by ops/grafana/make_dashboard.py from panels.py. Not seen in Grafana.",
        "tags": ["oncue"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), *(_variable(name, query) for name, query in VARIABLES.items())]},
        "panels": _panels(),
    }


def _panels() -> list[Json]:
    made: list[Json] = []
    top = 0
    for title, panels in ROWS.items():
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
                "panels": [],
            }
        )
        width = COLUMNS // ACROSS
        for n, panel in enumerate(panels):
            at = {"x": n % ACROSS * width, "y": top + 1 + n // ACROSS * HEIGHT, "w": width, "h": HEIGHT}
            made.append({"id": len(made) + 1, "gridPos": at, **_panel(panel)})
        top += 1 + -(-len(panels) // ACROSS) * HEIGHT
    return made


def _panel(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    heat = panel.kind == "heatmap"
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "targets": [_target(*query, letter=chr(65 + n), heat=heat) for n, query in enumerate(panel.queries.items())],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
    }


def _target(legend: str, expression: str, *, letter: str, heat: bool) -> Json:
    for name, meaning in STANDS_FOR.items():
        expression = expression.replace(name, meaning)
    return {
        "refId": letter,
        "datasource": SOURCE,
        "expr": expression,
        "legendFormat": legend,
        "format": "heatmap" if heat else "time_series",
    }


def _source() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=2))
