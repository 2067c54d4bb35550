"""The options for object storage, which every role shares: all of them read or write it."""

from __future__ import annotations

import click

from oncue.settings import Settings

DEFAULTS = Settings()

SERVICE = (
    click.option(
        "--storage-endpoint",
        envvar="ONCUE_STORAGE_ENDPOINT",
        default=DEFAULTS.storage_endpoint,
        metavar="URL",
        help="The address of an S3 service that is not Amazon's.",
    ),
    click.option(
        "--storage-region",
        envvar="ONCUE_STORAGE_REGION",
        default=DEFAULTS.storage_region,
        metavar="NAME",
        help="The region of an S3 bucket. [default: as the environment says]",
    ),
    click.option(
        "--storage-path-style",
        envvar="ONCUE_STORAGE_PATH_STYLE",
        is_flag=True,
        help="Put the name of an S3 bucket into the path of its addresses, not into the host.",
    ),
)
PLACE = (
    click.option(
        "--storage",
        envvar="ONCUE_STORAGE",
        default=DEFAULTS.storage,
        metavar="URL",
        help="Where large payloads, results and logs go: file:///folder, s3://bucket/prefix, gs://…, az://… "
        "[default: a folder in the data directory]",
    ),
    *SERVICE,
)
STORAGE = (
    *PLACE,
    click.option(
        "--storage-patience",
        envvar="ONCUE_STORAGE_PATIENCE",
        default="5m",
        show_default=True,
        metavar="TIME",
        help="How long a worker tries to store a large result while storage is unavailable.",
    ),
)
