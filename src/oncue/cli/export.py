"""`oncue export`: your jobs as YAML that `oncue apply` accepts."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.asking import CONTEXT, URL, asking
from oncue.cli.job_export import JSON, export_jobs
from oncue.cli.roles import options
from oncue.domain.declared import TAG
from oncue.domain.exported import key_for

EXAMPLES = """\b
Examples:
  oncue export --set shop > shop.yaml
  oncue export --tag nightly > nightly.yaml
  oncue export > all.yaml
  oncue export --set shop | oncue apply - --check

Prints your active and paused jobs by key, without fields that have their default. The set of the file is SET or TAG,
else `exported`; applying it to jobs of other sets needs --adopt. A job without a key gets one in the file.
"""


@click.command("export", epilog=EXAMPLES)
@click.option("--set", "set_name", metavar="SET", help="Jobs that `oncue apply` created for this set.")
@click.option("--tag", help="Jobs with this tag.")
@options((URL, CONTEXT, JSON))
def command(url: str | None, set_name: str | None, tag: str | None, as_json: bool) -> None:
    """Print jobs as YAML for `oncue apply`."""
    from oncue.client import jobs
    from oncue.client.call import following

    if set_name is not None and tag is not None:
        raise click.UsageError("give --set or --tag, not both")
    with asking(url) as client:
        me = client.me()
        own = me.user_id if me.role == "admin" else None  # other roles see only their own jobs
        call: Any = jobs.page(tag=tag if set_name is None else TAG + set_name, user_id=own, limit=1_000)
        found: list[Any] = []
        while True:
            page = client.ask(call.plain())
            found += [job for job in page["jobs"] if job["status"] in ("active", "paused")]
            if page.get("next_page_token") is None:
                break
            call = following(call, page["next_page_token"])
        unique = {job["job_id"]: job for job in found}  # one that ends meanwhile may come twice
        export_jobs(client, set_name or tag or "exported", sorted(unique.values(), key=key_for), as_json=as_json)
