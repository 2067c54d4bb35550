"""Options about notices."""

from __future__ import annotations

from typing import Any

import click

from oncue.settings import Settings

DEFAULTS = Settings()

NOTICES = (
    click.option(
        "--public-url",
        default=DEFAULTS.public_url,
        envvar="ONCUE_PUBLIC_URL",
        metavar="URL",
        help="The API's address as users reach it, for links in notices.",
    ),
    click.option(
        "--notify-rate",
        type=click.IntRange(1, 1_000),
        default=DEFAULTS.notify_rate,
        show_default=True,
        envvar="ONCUE_NOTIFY_RATE",
        metavar="N",
        help="Notices per minute to one target; the others go together in a digest.",
    ),
    click.option(
        "--webhook-plain",
        is_flag=True,
        envvar="ONCUE_WEBHOOK_PLAIN",
        help="Let notices be sent by http instead of https.",
    ),
    click.option(
        "--smtp",
        default=DEFAULTS.smtp,
        envvar="ONCUE_SMTP",
        metavar="URL",
        help="The mail server for notices, like smtp://user@host:587?secret=NAME. [default: no e-mail]",
    ),
    click.option(
        "--smtp-from",
        default=DEFAULTS.smtp_from,
        envvar="ONCUE_SMTP_FROM",
        metavar="ADDRESS",
        help="The sender of notices by e-mail.",
    ),
    click.option(
        "--smtp-allow-to",
        multiple=True,
        envvar="ONCUE_SMTP_ALLOW_TO",
        metavar="ADDRESS",
        help="Address or @domain that members may have notices mailed to; repeatable. [default: administrators only]",
    ),
    click.option(
        "--master-key-file",
        default=DEFAULTS.master_key_file,
        envvar="ONCUE_MASTER_KEY_FILE",
        metavar="FILE",
        help="The key from which secrets of webhooks are derived. [default: master.key in the data folder]",
    ),
)
WHO_SENDS = (
    click.option("--no-notify", is_flag=True, help="Leave notices to other workers."),
    click.option("--only-notify", is_flag=True, help="Send notices, and run nothing else."),
)


def who_sends(given: dict[str, Any]) -> None:
    """Turn the two flags into one setting."""
    no, only = given.pop("no_notify", False), given.pop("only_notify", False)
    if no and only:
        raise click.UsageError("--no-notify and --only-notify exclude each other.")
    if no or only:
        given["notify"] = "off" if no else "only"
