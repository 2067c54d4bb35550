"""The dashboard: what the script makes of the table, and valid as far as can be told without Grafana."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ops.programs import OPS, run
from tests.ops.test_prometheus import RULES

from oncue.metrics.cluster_table import CLUSTER_METRICS
from oncue.metrics.metric import Kind
from oncue.metrics.table import METRICS

FOLDER = OPS / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "oncue.json").read_text())
ROWS = ["Promise", "Work", "Queues", "Workers", "Scheduler", "Database", "API", "Outside", "Processes"]
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def test_the_file_is_what_the_script_makes() -> None:
    made = subprocess.run([sys.executable, FOLDER / "make_dashboard.py"], capture_output=True, check=True)

    assert made.stdout == (FOLDER / "oncue.json").read_bytes(), "run `make grafana`"


def test_rows_and_variables() -> None:
    assert [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"] == ROWS
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == [
        "datasource",
        "job",
        "instance",
        "queue",
        "task",
    ]


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_every_metric_of_a_panel_or_an_alert_exists() -> None:
    """What has another name is drawn as nothing, and never fires."""
    parts = ("_bucket", "_sum", "_count")
    ours = {
        metric.name + part
        for metric in (*METRICS, *CLUSTER_METRICS)
        for part in (parts if metric.kind is Kind.HISTOGRAM else ("",))
    }
    rules = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    named = set(re.findall(r"\b(?:oncue|process)_\w+", " ".join([*EXPRESSIONS, *rules])))

    assert len(named) > 40
    assert named - ours == set()


@pytest.mark.ops
def test_expressions_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{n}", "expr": expression.replace("$__rate_interval", "5m")}
        for n, expression in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    assert len(rules) > 40
    assert f"{len(rules)} rules found" in run("promtool", "check", "rules", file)


@pytest.mark.ops
def test_every_field_is_one_of_grafanas() -> None:
    """What its SDK does not know is lost on the way through it."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    back = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))

    assert without(DASHBOARD, back) == []


def without(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where something of ours is missing or different in theirs; what they add does not count."""
    match ours, theirs:
        case dict(), dict():
            return [lost for key, value in ours.items() for lost in without(value, theirs.get(key), f"{path}.{key}")]
        case list(), list() if len(ours) == len(theirs):
            return [
                lost for n, pair in enumerate(zip(ours, theirs, strict=True)) for lost in without(*pair, f"{path}.{n}")
            ]
        case _:
            return [] if ours == theirs else [f"{path}: {ours!r} is {theirs!r}"]
