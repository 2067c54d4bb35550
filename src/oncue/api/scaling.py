"""How many workers each queue needs, for autoscalers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import read_query
from oncue.api.shared.context import Api
from oncue.domain.definition import USUAL
from oncue.domain.fields import Reader, text
from oncue.domain.ids import ClassId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.load import DueWork, Load, desired_workers, read_load, utilisation
from oncue.domain.placement import Offer, read_offer
from oncue.engines.gauges import ClassGauge, Gauges

PARAMETERS: Mapping[str, Reader] = {"queue": text(USUAL.queue)}


async def show(api: Api, request: Request, caller: Caller) -> Response:
    """Answer for one queue, also one that nothing uses, or for all queues."""
    queue = read_query(request, PARAMETERS).get("queue")
    scaling = Scaling(await api.engine.history.gauges(api.clock.now()))
    if queue is not None:
        return answer(scaling.of(queue))
    return answer({"queues": [scaling.of(name) for name in scaling.queues]})


class Scaling:
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        offers = ((worker, read_offer(worker.info)) for worker in gauges.live_workers)
        self._workers = [(offer, read_load(worker.load)) for worker, offer in offers if offer is not None]

    @property
    def queues(self) -> list[str]:
        taken = {queue for offer, _ in self._workers for queue in offer.queues}
        return sorted(taken | {one.key.queue for one in self._gauges.classes})

    def of(self, queue: str) -> dict[str, Any]:
        workers = [(offer, load) for offer, load in self._workers if queue in offer.queues]
        loads = [load for _, load in workers]
        classes = [one for one in self._gauges.classes if one.key.queue == queue]
        due = [] if queue in self._gauges.paused else [one for one in classes if one.due]
        work = [self._work(one, workers) for one in due]
        oldest = min((one.oldest_due for one in due if one.oldest_due is not None), default=self._gauges.at)
        return {
            "queue": queue,
            "workers": len(workers),
            "desired": desired_workers(loads, work),
            "utilisation": round(utilisation(loads), 3),
            "due": sum(one.due for one in due),
            "more": any(one.more for one in due),
            "oldest_due_seconds": round(max(0, self._gauges.at - oldest) / SECOND, 3),
            "seconds_of_work": round(sum(one.time for one in work) / SECOND, 3),
        }

    def _work(self, one: ClassGauge, workers: Sequence[tuple[Offer, Load | None]]) -> DueWork:
        able = (offer for offer, _ in workers if one.key.task in offer.tasks)
        slots = max((offer.room_for(one.key.task).slots for offer in able), default=1)
        return DueWork(one.due, self._mean(one.class_id), max(1, one.key.size.slots), slots)

    def _mean(self, class_id: ClassId) -> Duration | None:
        """How long a run of this class takes, as all live workers say."""
        said = [load.mean[class_id] for _, load in self._workers if load is not None and class_id in load.mean]
        return Duration(sum(said) // len(said)) if said else None
