"""From the settings to object storage."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.errors import Invalid
from oncue.metrics.numbers import SILENT, Numbers
from oncue.settings import Settings
from oncue.storage.objects import ObjectStorage
from oncue.storage.port import Storage

SCHEMES = ("file", "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "memory")


def open_storage(settings: Settings, clock: Clock, numbers: Numbers = SILENT, name: str = "storage") -> Storage:
    """Return the storage that `settings.storage` names. Nothing is read or written before the first call.

    `name`: of the setting, for those who wrote a wrong one.
    """
    url = storage_url(settings)
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise Invalid.of(name, "bad_storage", "write file:///folder, s3://bucket/prefix, gs://… or az://…")
    if parts.password:
        raise Invalid.of(name, "bad_storage", "keys do not belong into the URL: set them in the environment")
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise Invalid.of(name, "bad_storage", "a folder has three slashes and its whole path: file:///var/lib/oncue")
    if parts.scheme not in ("file", "memory") and not parts.netloc:
        raise Invalid.of(name, "bad_storage", f"has no bucket: write {parts.scheme}://bucket/prefix")
    options: dict[str, object] = {}
    if parts.scheme in ("s3", "s3a"):
        options["virtual_hosted_style_request"] = not settings.storage_path_style
        options |= {"endpoint": settings.storage_endpoint} if settings.storage_endpoint else {}
        options |= {"region": settings.storage_region} if settings.storage_region else {}
    folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
    return ObjectStorage(url, folder, options, clock, numbers)


def open_archive(settings: Settings, clock: Clock, numbers: Numbers = SILENT) -> Storage:
    """Return the storage that `settings.archive` names, with the endpoint and region of `storage`."""
    return open_storage(replace(settings, storage=settings.archive), clock, numbers, "archive")


def storage_url(settings: Settings) -> str:
    """Return the URL of the storage, also for another current folder: by default a folder in the data folder."""
    return settings.storage or (Path(settings.data_dir).absolute() / "objects").as_uri()
