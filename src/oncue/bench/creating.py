"""`create`: how many jobs a second the API creates."""

from __future__ import annotations

from oncue.bench.http_load import CONNECTIONS, Load
from oncue.bench.measures import CREATE_BATCH, CREATE_SINGLE, Row, Step
from oncue.bench.options import Options
from oncue.bench.stand import Stand
from oncue.bench.writing import batches, single
from oncue.domain.instants import DAY, Instant, rfc3339

BATCH_CONNECTIONS = 2
WARM_UP = 1_000


async def create(stand: Stand, options: Options, step: Step) -> list[Row]:
    """Create jobs for tomorrow, so that only their creation is measured."""
    tomorrow = Instant(stand.clock.now() + DAY)
    step("creating one by one", 0, None)
    await stand.send([single(stand, tomorrow) for _ in range(WARM_UP)], CONNECTIONS)
    singles = await stand.send([single(stand, tomorrow) for _ in range(options.singles)], CONNECTIONS)
    step("creating in batches", 0, None)
    batched = await stand.send(batches(stand, options.batched, rfc3339(tomorrow)), BATCH_CONNECTIONS)
    stand.later += WARM_UP + options.singles + options.batched
    return [
        Row(CREATE_SINGLE, singles.rate, _answered(singles)),
        Row(CREATE_BATCH, options.batched / batched.seconds, _answered(batched)),
    ]


def _answered(load: Load) -> str:
    return f"answered in p50 {load.percentile(0.5):.1f}, p99 {load.percentile(0.99):.1f} ms"
