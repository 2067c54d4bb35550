"""The Django project of the examples, set up in this process. It is set up once, with databases that change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from urllib.parse import unquote, urlsplit

PROJECT = Path(__file__).parents[1] / "examples" / "django_shop"
SETTINGS = "bookshop.settings"
NOWHERE = "postgresql://127.0.0.1:9/nowhere"


def set_up() -> None:
    import django
    from django.conf import settings

    if str(PROJECT) not in sys.path:
        sys.path.append(str(PROJECT))
    with mock.patch.dict(os.environ, {"DJANGO_SETTINGS_MODULE": SETTINGS, "DATABASE_URL": NOWHERE}):
        assert settings.USE_TZ  # read here, with these variables
        django.setup()


@contextmanager
def database(url: str) -> Iterator[None]:
    """The project's database, for all threads that connect within the block. They close their connections."""
    set_up()
    from asgiref.local import Local
    from django.db import connections

    parts = urlsplit(url)
    where = {
        "NAME": parts.path.strip("/"),
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
    }
    fresh = mock.patch.object(connections, "_connections", Local(connections.thread_critical))
    with mock.patch.dict(connections.settings["default"], where), fresh:
        yield
