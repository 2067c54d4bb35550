"""What all checks of jobs share: limits, policies and caches."""

from __future__ import annotations

from typing import Protocol

import msgspec

from oncue.clock import Clock
from oncue.domain.addresses import parse_networks
from oncue.domain.definition import Limits
from oncue.domain.ids import NO_CLASS, ClassId, UserNumber
from oncue.domain.instants import MILLISECOND, Duration, Instant
from oncue.domain.notify import Policy
from oncue.domain.placement import ClassKey
from oncue.engines.classing import GOOD_FOR
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Creation, Engine, Quota, Role
from oncue.intake.large_values import LargeValues
from oncue.intake.task_registry import TaskRegistry
from oncue.settings import Settings

MOST_CLASSES = 100_000  # in the cache
TURN = Duration(5 * MILLISECOND)  # other work of the process waits at most this long for a large batch


class Author(Protocol):
    """The user who wants a job, and the role by which the user may have it."""

    @property
    def uid(self) -> UserNumber: ...
    @property
    def user_id(self) -> str: ...
    @property
    def role(self) -> Role: ...


class UserWithRole(msgspec.Struct, frozen=True):
    """An author as plain values."""

    uid: UserNumber
    user_id: str
    role: Role


class Intake:
    """Limits, policies and caches of one process."""

    def __init__(self, engine: Engine, clock: Clock, settings: Settings, large: LargeValues) -> None:
        self.engine = engine
        self.clock = clock
        self.large = large
        self.task_registry = TaskRegistry(engine.fleet, clock)
        self.defaults = KnownDefaults(engine.notices, clock, settings.notify_rate)
        self.limits = Limits(payload=settings.max_payload_bytes)
        self.secret_roles = frozenset(settings.secret_roles)
        self.plain_secrets = settings.plain_secrets
        self.reachable = parse_networks(settings.http_allow)
        self.notify_policy = Policy(
            self.reachable, settings.webhook_plain, bool(settings.smtp and settings.smtp_from), settings.smtp_allow_to
        )
        self.quota = Quota(settings.max_jobs_per_user, settings.max_payload_bytes_per_user)
        self._numbers: dict[ClassKey, tuple[ClassId, Instant]] = {}  # each with the time of its last lookup

    def quota_of(self, author: Author) -> Quota | None:
        """The quota. None: no user has one. An administrator's has no limits; what they add counts for its owner."""
        if self.quota == Quota():
            return None
        return Quota() if author.role is Role.ADMIN else self.quota

    def class_id(self, key: ClassKey) -> ClassId:
        """The number of a class, if it is cached; 0: the database finds or creates the class with the job.

        Once an hour one caller gets 0 for a cached class, too: this records that the class is in use.
        """
        now = self.clock.now()
        class_id, asked_at = self._numbers.get(key, (NO_CLASS, now))
        if abs(now - asked_at) < GOOD_FOR:
            return class_id
        self._numbers[key] = (class_id, now)
        return NO_CLASS

    def learn(self, key: ClassKey, created: Creation) -> None:
        """Cache the class number that the database returned for a job stored without it."""
        if created.class_id:
            if len(self._numbers) >= MOST_CLASSES:
                self._numbers.clear()
            self._numbers[key] = (created.class_id, self.clock.now())
