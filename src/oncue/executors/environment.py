"""The environment of user code: ours, without our own variables."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from oncue.settings import Settings

OURS = "ONCUE_"  # the address of the store, keys, where secrets are
SECRET = "ONCUE_SECRET_"
EXPORTER = "OTEL_"  # where our spans go, and with which key
# With these PostgreSQL's clients authenticate where an address has no password in it.
LETS_IN = {"PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE"}


# With these a program could speak to systemd in our name.
SPEAKS_FOR_US = {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}


def only_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are secrets; the setting `secret_roles` looks like one."""
    return {name: value for name, value in environment.items() if name.startswith(SECRET) and name != SECRET + "ROLES"}


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if not name.startswith(OURS) and name not in SPEAKS_FOR_US
    }


def for_tasks(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The environment for a process that runs user code and must not reach the store."""
    engine = urlsplit(settings.engine)
    hidden = LETS_IN if engine.scheme in ("postgresql", "postgres") and not engine.password else set[str]()
    ours = without_ours(environment)
    return {name: value for name, value in ours.items() if name not in hidden and not name.startswith(EXPORTER)}
