"""Every setting, read once, documented only here."""

from __future__ import annotations

import msgspec

from oncue.domain.instants import DAY, MINUTE, SECOND, Duration


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str = "sqlite:///.oncue/oncue.db"
    """Where state lives: `sqlite:///relative.db`, `sqlite:////abs.db` or `postgresql://…`."""

    history_width: Duration = DAY
    """How much time one piece of history spans. Retention drops whole pieces: narrow ones give room back sooner."""

    store_timeout: Duration = Duration(10 * SECOND)
    """How long one call to the store may take before it counts as away."""

    history_timeout: Duration = Duration(5 * MINUTE)
    """How long making and dropping pieces of history may take."""

    pool_size: int = 8
    """PostgreSQL connections for everything but the hot path, which has three of its own."""

    log_cap: int = 256 * 1024
    """Bytes of log kept per run."""

    repeat_for: Duration = DAY
    """How long an idempotency key is remembered."""
