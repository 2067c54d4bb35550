"""From a URL to an engine, its schema up to date."""

from __future__ import annotations

from oncue.domain.errors import Invalid
from oncue.engines.port import Engine
from oncue.settings import Settings


async def open_engine(settings: Settings) -> Engine:
    """Open the store that `settings.engine` names. Any number of processes may do so at once."""
    url = settings.engine
    if url.startswith("sqlite:///"):
        from oncue.engines.sqlite.engine import SqliteEngine

        return await SqliteEngine.open(settings)
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from oncue.engines.postgres.engine import PostgresEngine
        except ModuleNotFoundError as missing:
            raise Invalid.of("engine", "missing_driver", "PostgreSQL needs: pip install 'oncue[postgres]'") from missing
        return await PostgresEngine.open(settings)
    raise Invalid.of(
        "engine",
        "bad_engine",
        f"{url.split(':')[0][:20]!r} is no engine: write sqlite:///file.db or postgresql://user@host/database",
    )
