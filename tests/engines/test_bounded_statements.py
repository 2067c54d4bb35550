"""No statement changes more rows than a bite, however many there are: it names them, or it has a limit."""

from __future__ import annotations

import re

import pytest

from oncue.engines.sql import statements

# One of these, compared for equality, leaves at most a handful of rows.
ONE = (
    "run_id|worker_id|member_id|key_id|bulk_id|session_hash|task|queue|name|key|key_hash|uid|db_role|version|job_id|"
    "object_id|meter"
)
MANY_OF_A_JOB = {"runs", "waiting", "running", "history", "ledger", "dead", "audit", "run_logs"}
MANY_OF_A_USER = MANY_OF_A_JOB | {
    "jobs",
    "agenda",
    "job_keys",
    "job_tags",
    "objects",
    "repeats_0",
    "repeats_1",
    "tally",
}
NAMED = re.compile(r"\blimit\b|\bany\s*\(|\bunnest\s*\(|\bcarray\s*\(|\bwidth_bucket\b", re.IGNORECASE)
CHANGED = re.compile(r"(?:\bupdate|\bdelete\s+from)\s+(\w+)", re.IGNORECASE)
ALL = {
    "tended": "the table has one row",
    "forget_findings": "keeps the newest; each pass of the self-audit adds a bite at most",
}


def changing() -> list[tuple[str, str, str]]:
    found = []
    for engine in ("postgres", "sqlite"):
        for name, commented in statements(f"oncue.engines.{engine}").items():
            text = re.sub(r"--.*", "", commented)
            if CHANGED.search(text):
                found.append((engine, name, text))
    return sorted(found)


def is_bounded(text: str) -> bool:
    if NAMED.search(text):
        return True
    keys = set(re.findall(rf"\b({ONE})\s*=\s*[$?:]", text))
    for table in CHANGED.findall(text):
        useless = {"job_id"} if table in MANY_OF_A_JOB else set()
        useless |= {"uid"} if table in MANY_OF_A_USER else set()
        if table != "set" and not keys - useless:
            return False
    return True


def test_there_are_statements_to_look_at() -> None:
    assert len(changing()) > 100


@pytest.mark.parametrize(
    "text", ["delete from keys where expires_at < $1", "update waiting set held = 1 where job_id = $1"]
)
def test_a_statement_without_a_bound_is_found(text: str) -> None:
    assert not is_bounded(text)


def test_every_statement_that_changes_rows_is_bounded() -> None:
    assert [(engine, name) for engine, name, text in changing() if not is_bounded(text) and name not in ALL] == []
