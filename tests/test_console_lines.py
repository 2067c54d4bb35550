"""Log lines as a time and a sentence."""

from typing import Any

import pytest

from oncue.domain.instants import parse_instant
from oncue.logs.terminal import as_short

NOW = parse_instant("2026-11-18T09:41:07Z")
RUN = {"task": "charge", "run_id": "01a1ec94-d625-7791-b549-7d4e80e220e7"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            {"kind": "run_ended", **RUN, "attempt": 1, "status": "succeeded", "seconds": 0.0123},
            "charge (80e220e7): succeeded in 12 ms",
        ),
        (
            {"kind": "run_ended", **RUN, "name": "nightly", "attempt": 3, "status": "succeeded", "seconds": 12.34},
            "charge (nightly, 80e220e7): succeeded in 12.3 s, attempt 3",
        ),
        (
            {
                "kind": "attempt_failed",
                **RUN,
                "attempt": 1,
                "error_type": "Refused",
                "error": "no\nmoney",
                "retry_in": 90,
            },
            r"charge (80e220e7): attempt 1 failed: Refused: no\nmoney; retry in 1.5 min",
        ),
        (
            {"kind": "run_dead", **RUN, "attempt": 2, "error_type": "Refused"},
            "charge (80e220e7): attempt 2 failed permanently: Refused; see `oncue dead show 80e220e7`",
        ),
        (
            {"kind": "run_output", **RUN, "output": "2026-11-18T09:41:06.999Z INFO a\tb \033[31mred\033[0m \u202e"},
            r"charge (80e220e7): INFO a  b \x1b[31mred\x1b[0m \u202e",
        ),
        (
            {"kind": "run_output_cut", **RUN, "lines": 12_345},
            "charge (80e220e7): … 12,345 more lines, see `oncue runs logs 80e220e7`",
        ),
        ({"kind": "stopping", "event": "Stopping", "at_once": True}, "Stopping at once"),
        (
            {"kind": "waiting_for_runs", "active": 7, "at_most": "25s", "runs": ["a (1)", "b (2)"]},
            "Waiting at most 25s for a (1), b (2) and 5 more",
        ),
        ({"kind": "reload", "files": ["a.py", "b.py"]}, "reload: a.py, b.py changed; the worker restarts"),
        ({"kind": "reloaded", "seconds": 0.61, "tasks": 5}, "reload: the worker has restarted in 610 ms with 5 tasks"),
        (
            {"kind": "reloaded", "seconds": 0.61, "tasks": 5, "queues": ["default", "mail"]},
            "reload: the worker has restarted in 610 ms with 5 tasks and takes the queues default, mail",
        ),
        (
            {"kind": "schedule_applied", "key": "digest", "action": "change", "changes": {"schedule": {}}},
            "schedule digest: changed (schedule)",
        ),
        (
            {"kind": "drained", "finished": 1, "returned": 2},
            "The worker ends: 1 finished, 2 returned to the queue",
        ),
        ({"kind": "x", "event": "No worker can start", "why": "line 3"}, "No worker can start: line 3"),
        ({"kind": "run_dead", "event": "More lines were left out", "more": 7}, "More lines were left out: 7 run_dead"),
    ],
)
def test_a_line_is_a_sentence(line: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = as_short(line, NOW, colours=False)

    assert shown[2] + shown[5] + shown[8:10] == "::  "
    assert shown[10:] == said


def test_colours_mark_what_went_wrong_only() -> None:
    assert "\033[31m" in as_short({"level": "error", "kind": "x", "event": "Bad"}, NOW, colours=True)
    assert "\033" not in as_short({"level": "info", "kind": "x", "event": "Good"}, NOW, colours=True)
