"""Bugs that are planted into the processes of a story, and the rule that finds each of them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("bugs")  # its sitecustomize.py plants them
BUGS = {
    "early": "never early",
    "forgotten occurrences": "occurrences",
    "no lanes": "exclusion",
    "replaced at once": "exclusion",
    "cancelled and started": "final is final",
    "retried at once": "attempts apart",
    "lost notices": "notices",
}

OF_CLOCKS = {"own clock": "never early"}


def planted(bug: str) -> dict[str, str]:
    """The environment of processes with this bug."""
    return {"PYTHONPATH": str(FOLDER), "HARNESS_BUG": bug}
