"""A seed, told from its beginning to its end, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.checker import Checker
from tests.simulation.user import Memory, User
from tests.simulation.world import World, new_store

from oncue.engines.port import Engine
from oncue.testing.logs import capture_logs

LAST_LINES = 60


@dataclass(frozen=True)
class Story:
    seed: int
    lines: list[str]
    problems: list[str]

    def __str__(self) -> str:
        wrong = "\n".join(self.problems[:20])
        last = "\n".join(self.lines[-LAST_LINES:])
        again = f"ONCUE_SIMULATION_SEED={self.seed} pytest tests/simulation"
        return f"seed {self.seed}:\n{wrong}\n\nthe last of {len(self.lines)} events:\n{last}\n\nagain: {again}"


async def tell(seed: int, plant: Callable[[Engine], Engine] = lambda engine: engine) -> Story:
    world = World(seed, await new_store(seed), plant)
    memory = Memory()
    users = [User(world, memory, "user", seed * 2 + n) for n in range(2)]
    try:
        with capture_logs():
            await world.run(lambda: not all(user.tidied for user in users))
            problems = Checker(world, memory).problems()
    finally:
        await world.close()
    return Story(seed, world.journal.lines, problems)
