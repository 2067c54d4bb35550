"""Which schema a store has, and whose code works on it: see docs/design/0015-upgrades.md.

A store keeps two things: the numbers of the migrations it has had, and its *level*, the oldest schema whose code still
works on it. An additive migration leaves the level alone, so that processes of the version before go on, and start
again. One after which they would be wrong says so in its first line: `-- compatible from: 7`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from oncue.domain.errors import OncueError

Migration = tuple[int, str]  # its number, and what it does

_STATED = re.compile(r"-- compatible from: (\d+)\n")


class Schema(msgspec.Struct, frozen=True):
    applied: frozenset[int] = frozenset()
    level: int = 0  # 0: there is nothing yet

    @property
    def version(self) -> int:
        return max(self.applied, default=0)

    def after(self, number: int, script: str) -> Schema:
        """As this migration leaves it. No code works on less than the first."""
        stated = _STATED.match(script)
        return Schema(self.applied | {number}, max(self.level, 1, int(stated[1]) if stated else 0))


def missing(known: Sequence[Migration], found: Schema, where: str) -> list[Migration]:
    """Those of the known ones that the store has not had, in order. Refused: code that is too old for it."""
    newest = known[-1][0]
    if found.level > newest:
        raise OncueError(
            f"{where} can be used by an oncue that knows schema {found.level}, and this one knows up to {newest}: "
            "install a newer one"
        )
    return [one for one in known if one[0] not in found.applied]
