"""The runs that a bulk creates with a `payload_patch`: a scheduler builds and checks them as a requeue does."""

from __future__ import annotations

from msgspec.structs import replace

from oncue.api.dead_letters import followed
from oncue.api.http.auth import Caller
from oncue.api.shared.payloads import Replacement
from oncue.clock import Clock
from oncue.domain.ids import RunId, UserNumber
from oncue.domain.run import NewRun, RunView
from oncue.engines.bulk_values import Bulk, PatchRules
from oncue.engines.port import Engine
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues
from oncue.settings import Settings
from oncue.storage.port import Storage


class BulkFollowing:
    def __init__(self, engine: Engine, storage: Storage, clock: Clock, settings: Settings) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._large = LargeValues(engine, storage, clock, settings.inline_cap)
        self._intake: tuple[PatchRules, Intake] | None = None  # of the last bulk

    async def __call__(self, bulk: Bulk, run: RunView, run_id: RunId) -> NewRun:
        """Build the run that follows a dead letter. OncueError: why the patch does not fit it."""
        patch = bulk.order.letters.patch if bulk.order.letters else None
        assert patch is not None, "it has a patch"
        names = await self._engine.accounts.names([bulk.uid, run.uid])
        caller = Caller(bulk.uid, names.get(bulk.uid, ""), bulk.role, bulk.key_id)
        checking = _AsAsked(self._clock, self._by(patch.rules), names.get(run.uid))
        return await followed(checking, caller, run, run_id, Replacement(patch=patch.patch))

    def _by(self, rules: PatchRules) -> Intake:
        """Check by the settings of the API that took the bulk: a scheduler has its own, or none."""
        if self._intake is None or self._intake[0] != rules:
            asked = {name: getattr(rules, name) for name in PatchRules.__struct_fields__}
            settings = replace(self._settings, **asked)
            self._intake = rules, Intake(self._engine, self._clock, settings, self._large)
        return self._intake[1]


class _AsAsked:
    def __init__(self, clock: Clock, intake: Intake, owner: str | None) -> None:
        self.clock = clock
        self.intake = intake
        self.large = intake.large
        self._owner = owner

    async def owner_of(self, uid: UserNumber, caller: Caller) -> str | None:
        return caller.user_id if uid == caller.uid else self._owner
