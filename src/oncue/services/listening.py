"""Pass hints from the store to the loops they concern. A lost hint costs a poll's delay, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncue.domain.ids import WorkerId
from oncue.engines.port import Hint, Signals, Topic
from oncue.log import log


class Listening:
    def __init__(
        self, signals: Signals, concerns: Mapping[Topic, Callable[[Hint], None]], worker: WorkerId | None = None
    ) -> None:
        self._signals = signals
        self._concerns = concerns
        self._worker = worker

    async def run(self) -> None:
        """Run until cancelled, or until the engine is closed."""
        async for hint in self._signals.listen(self._concerns.keys(), self._worker):
            self._act(self._concerns[hint.topic], hint)

    def _act(self, act: Callable[[Hint], None], hint: Hint) -> None:
        try:
            act(hint)
        except Exception:
            log.exception("A hint failed; the next poll does its work", kind="hint_failed", topic=hint.topic)
