"""The metrics token: lets a client read metrics, and needs no database."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oncue.domain.errors import Invalid
from oncue.settings import Settings

SHORTEST_TOKEN: Final = 16  # characters


def read_token(settings: Settings) -> str | None:
    """Read the metrics token. None: the settings name no file."""
    if not settings.metrics_token_file:
        return None
    path = Path(settings.metrics_token_file)
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, ValueError) as no:
        why = no.strerror if isinstance(no, OSError) else "it is not a text"
        raise Invalid.of("metrics_token_file", "bad_file", f"cannot read {str(path)!r}: {why}") from None
    if len(token) < SHORTEST_TOKEN:
        message = f"{str(path)!r} has fewer than {SHORTEST_TOKEN} characters; write a longer random token"
        raise Invalid.of("metrics_token_file", "too_short", message)
    return token
