"""What payloads of new runs are checked by: a part of `Api`, and all that a scheduler needs of it for bulks."""

from __future__ import annotations

from typing import Protocol

from oncue.api.http.auth import Caller
from oncue.clock import Clock
from oncue.domain.ids import UserNumber
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues


class Checking(Protocol):
    @property
    def clock(self) -> Clock: ...
    @property
    def intake(self) -> Intake: ...
    @property
    def large(self) -> LargeValues: ...

    async def owner_of(self, uid: UserNumber, caller: Caller) -> str | None: ...
