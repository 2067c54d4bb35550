"""Which live workers can take a kind of run; and if none can, what the closest of them lacks."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import join
from typing import assert_never

import msgspec
from msgspec.structs import replace

from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant
from oncue.domain.placement import BUILT_IN, ClassKey, Mismatch, Offer, Resources, mismatch


class Offered(msgspec.Struct, frozen=True):
    """A registered worker, as far as explaining needs it."""

    classes: tuple[ClassId, ...]  # those it takes now
    live_until: Instant  # when its lease ends without another heartbeat
    draining: bool = False
    offer: Offer | None = None  # None: unknown, so its classes decide


def closest_worker(
    class_id: ClassId, key: ClassKey, workers: Iterable[Offered], now: Instant
) -> tuple[Mismatch, list[Offer]] | None:
    """Return what the closest live workers lack for runs of this class, and what they offer. None: one can take them.

    Without any live worker the task is lacking.
    """
    live = [worker for worker in workers if not worker.draining and worker.live_until >= now]
    if any(worker.offer is None and class_id in worker.classes for worker in live):
        return None
    offers = [worker.offer for worker in live if worker.offer is not None]
    lacking = [mismatch(key, offer) for offer in offers]
    if None in lacking:
        return None
    closest = max((lack for lack in lacking if lack is not None), default=Mismatch.NO_TASK)
    return closest, [offer for offer, lack in zip(offers, lacking, strict=True) if lack is closest]


def no_worker_for(
    class_id: ClassId, key: ClassKey, workers: Iterable[Offered], now: Instant, asks: Resources | None = None
) -> tuple[Mismatch, str] | None:
    """Say why no live worker can take runs of this class, and what to do. None: one can, when it has a free slot.

    `asks`: what a run requests; its class has that rounded up.
    """
    workers = list(workers)
    found = closest_worker(class_id, key, workers, now)
    if found is None:
        return None
    closest, nearly = found
    if closest_worker(class_id, key, [replace(worker, draining=False) for worker in workers], now) is None:
        drained = f"Every worker that could take runs of the task {key.task!r} is draining, and takes no new ones."
        return closest, f"{drained} Resume one, or start another."
    match closest:
        case Mismatch.NO_TASK:
            detail = f"No live worker has the task {key.task!r}. Start a worker that has it, with --tasks."
            return closest, detail
        case Mismatch.NO_QUEUE:
            detail = f"No live worker with the task {key.task!r} takes runs from the queue {key.queue!r}."
            return closest, f"{detail} Start a worker with {join(options_of_a_worker(key))}."
        case Mismatch.NO_LABELS:
            return closest, _missing_labels(key, nearly)
        case Mismatch.TOO_BIG:
            return closest, _too_big(asks or key.size, key, nearly)
        case _:
            assert_never(closest)


def _too_big(asks: Resources, key: ClassKey, offers: Iterable[Offer]) -> str:
    """Compare with the worker that lacks the least."""
    closest = max((offer.room_for(key.task) for offer in offers), key=lambda has: _closeness(key.size, has))
    return (
        f"The run requests {_amounts(asks, asks)}; the closest live worker with its task, queue and labels has "
        f"{_amounts(closest, asks)} in total. Request less, or start a larger worker."
    )


def _closeness(size: Resources, has: Resources) -> tuple[int, int, int, int]:
    enough = (size.cpu_milli <= has.cpu_milli, size.memory_mb <= has.memory_mb, size.slots <= has.slots)
    return sum(enough), has.cpu_milli, has.memory_mb, has.slots


def _amounts(of: Resources, asked: Resources) -> str:
    """Format the amounts of the resources in `asked`."""
    cpu = [f"{of.cpu_milli / 1_000:g} cpu"] if asked.cpu_milli else []
    memory = [f"{of.memory_mb} MB"] if asked.memory_mb else []
    slots = f"{of.slots} slot{'s' * (of.slots != 1)}"
    return f"{', '.join(cpu + memory)} and {slots}" if cpu or memory else slots


def _missing_labels(key: ClassKey, offers: Iterable[Offer]) -> str:
    fewest = min((sorted(set(key.labels) - offer.labels) for offer in offers), key=len)
    return (
        f"No live worker with the task {key.task!r} and the queue {key.queue!r} has all required labels; "
        f"the closest lacks {', '.join(fewest)}. Start a worker with {join(options_of_a_worker(key))}."
    )


def options_of_a_worker(key: ClassKey) -> list[str]:
    """Return the options with which `oncue worker` takes runs of this class."""
    tasks = [] if key.task in BUILT_IN else ["--tasks", "FILE.py"]
    return [*tasks, "--queues", key.queue, *(["--labels", ",".join(key.labels)] if key.labels else [])]
