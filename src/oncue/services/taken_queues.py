"""The queues that a worker takes runs from, and those that it does not take although its tasks name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from oncue.domain.placement import DEFAULT_QUEUE
from oncue.log import log
from oncue.settings import Settings
from oncue.tasks import Tasks

SHOWN = 3  # of the queues, and of the tasks of each


class TakenQueues(msgspec.Struct, frozen=True):
    taken: tuple[str, ...] = ()
    not_taken: dict[str, tuple[str, ...]] = {}
    """Other queues, with the tasks that name them."""


def taken_queues(settings: Settings, tasks: Tasks) -> TakenQueues:
    """Decide what a worker with these tasks takes: the queues of the settings, else `default` and those that its
    tasks name. Invalid: two schedules have one key."""
    named = _named(tasks)
    taken = settings.queues or tuple(dict.fromkeys((DEFAULT_QUEUE, *named)))
    return TakenQueues(taken, {queue: who for queue, who in named.items() if queue not in taken})


def _named(tasks: Tasks) -> dict[str, tuple[str, ...]]:
    """Return the queues of tasks and of the schedules that code declares, each with the tasks whose runs go there."""
    jobs = [fields for one in tasks.declared() for fields in one.jobs]
    named = [(task.defaults.get("queue"), task.name) for task in tasks]
    named += [(fields.get("queue"), fields["task"]) for fields in jobs]
    found: dict[str, dict[str, None]] = {}
    for queue, task in named:
        if queue is not None:
            found.setdefault(queue, {})[task] = None
    return {queue: tuple(who) for queue, who in found.items()}


def not_taken_in_words(taken: Sequence[str], not_taken: Mapping[str, Sequence[str]]) -> str:
    """Return what to tell of the queues that a worker does not take. Empty: it takes all."""
    if not not_taken:
        return ""
    queues = _some([f"{queue} ({_some(tasks)})" for queue, tasks in not_taken.items()])
    write = ",".join((*taken, *not_taken))
    return f"this worker does not take the queue{'s' * (len(not_taken) > 1)} {queues}: write --queues {write}"


def _some(words: Sequence[str]) -> str:
    rest = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def log_not_taken(taken: Sequence[str], not_taken: Mapping[str, Sequence[str]]) -> None:
    if words := not_taken_in_words(taken, not_taken):
        log.info(
            "A worker does not take all queues that its tasks name",
            kind="queues_not_taken",
            queues=list(not_taken),
            note=words,
        )
