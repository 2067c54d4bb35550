"""The options for what is kept and for how long, of the roles that drop what is old."""

from __future__ import annotations

import click

from oncue.settings import Settings

DEFAULTS = Settings()
ARCHIVE = click.option(
    "--archive",
    envvar="ONCUE_ARCHIVE",
    default=DEFAULTS.archive,
    metavar="URL",
    help="Where history goes before it is dropped: s3://bucket/prefix, file:///folder, … [default: nowhere]",
)
KEEPING = (
    click.option(
        "--keep-dead-letters",
        envvar="ONCUE_KEEP_DEAD_LETTERS",
        default="400d",
        show_default=True,
        metavar="TIME",
        help="How long to keep a dead letter; then it is discarded, with an entry in the audit log.",
    ),
    click.option(
        "--most-dead-letters",
        envvar="ONCUE_MOST_DEAD_LETTERS",
        type=click.IntRange(1),
        default=DEFAULTS.most_dead_letters,
        metavar="N",
        help="Dead letters to keep per user; beyond that the oldest are discarded. [default: 100,000]",
    ),
    click.option(
        "--keep-audit",
        envvar="ONCUE_KEEP_AUDIT",
        default="400d",
        show_default=True,
        metavar="TIME",
        help="How long to keep the audit log.",
    ),
    click.option(
        "--keep-keys",
        envvar="ONCUE_KEEP_KEYS",
        default="400d",
        show_default=True,
        metavar="TIME",
        help="How long to keep API keys that were revoked or have expired.",
    ),
    ARCHIVE,
)
