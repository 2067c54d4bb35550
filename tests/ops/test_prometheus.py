"""Alerts: valid, tested, and each with a page of the runbook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ops.programs import OPS, ROOT, run

FOLDER = OPS / "prometheus"
PAGE = (ROOT / "docs" / "operations.md").read_text()
RULES = yaml.safe_load((FOLDER / "rules.yml").read_text())
CASES = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}


def anchors() -> set[str]:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.ops
def test_rules_are_valid_and_pass_their_tests() -> None:
    run("promtool", "check", "rules", FOLDER / "rules.yml")
    run("promtool", "test", "rules", FOLDER / "rules_test.yml")


@pytest.mark.ops
def test_the_configuration_is_valid(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    text = (FOLDER / "prometheus.yml").read_text().replace("/run/secrets/metrics-token", str(token))
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "rules.yml").write_text((FOLDER / "rules.yml").read_text())

    assert text.count(str(token)) == 2, "both jobs send the token"
    run("promtool", "check", "config", tmp_path / "prometheus.yml")


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_fires_in_one_case_and_not_in_another(name: str) -> None:
    expected = [
        check["exp_alerts"] for case in CASES for check in case["alert_rule_test"] if check["alertname"] == name
    ]

    assert [] in expected
    assert any(expected)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_has_a_page_of_the_runbook(name: str) -> None:
    page, anchor = ALERTS[name]["annotations"]["runbook_url"].split("#")

    assert page == "docs/operations.md"
    assert anchor in anchors()


def test_the_page_lists_every_alert_with_its_severity_and_runbook() -> None:
    listed = re.findall(r"^\| `(Oncue\w+)` \| (\w+) \| \[[^]]+\]\(#([\w-]+)\) \|", PAGE, re.MULTILINE)
    stated = [
        (name, rule["labels"]["severity"], rule["annotations"]["runbook_url"].split("#")[1])
        for name, rule in ALERTS.items()
    ]

    assert sorted(listed) == sorted(stated)


def test_a_page_of_the_runbook_is_short() -> None:
    runbook = PAGE.partition("\n## Runbook\n")[2].partition("\n## ")[0]
    pages = re.split(r"^### ", runbook, flags=re.MULTILINE)[1:]

    assert len(pages) > 15
    assert [page.splitlines()[0] for page in pages if len(page.strip().splitlines()) > 15] == []
