"""Pass hints from the store to the loops they concern. A lost hint costs a poll's delay, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncue.engines.port import Hint, Signals, Topic
from oncue.log import log


class Listening:
    def __init__(self, signals: Signals, concerns: Mapping[Topic, Callable[[Hint], None]]) -> None:
        self._signals = signals
        self._concerns = concerns

    async def run(self) -> None:
        """Run until cancelled, or until the engine is closed."""
        async for hint in self._signals.listen():
            act = self._concerns.get(hint.topic)
            if act is not None:
                self._act(act, hint)

    def _act(self, act: Callable[[Hint], None], hint: Hint) -> None:
        try:
            act(hint)
        except Exception:
            log.exception("A hint failed; the next poll does its work", kind="hint_failed", topic=hint.topic)
