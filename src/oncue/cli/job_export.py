"""Jobs as YAML that `oncue apply` accepts: what equals a default is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.cli.output import json_option
from oncue.cli.printing import print_json, say
from oncue.domain.exported import exported, key_for
from oncue.domain.plain_text import showable

if TYPE_CHECKING:
    from oncue.client import Client

JSON = json_option("Print the file as JSON, which apply accepts, too.", plain="yaml")


def export_jobs(client: Client, name: str, found: list[Any], *, as_json: bool) -> None:
    """Print these jobs as the jobs of a set; lists leave out large payloads, which are read here."""
    from oncue.client import jobs

    defaults = {task.name: task.defaults for task in client.tasks.list()}
    whole = [client.ask(jobs.show(job["job_id"]).plain()) if job.get("large") else job for job in found]
    for job in whole:
        if not job.get("key"):
            words = f"Job {job['job_id']} has no key: applying this creates another job with the key {key_for(job)!r}."
            say(words, err=True)
    file = {"set": name, "jobs": [exported(job, defaults.get(job["task"], {})) for job in whole]}
    if as_json:
        print_json(file)
    else:
        print_jobs(file)


def print_jobs(value: object) -> None:
    say(as_yaml(value), nl=False)


def as_yaml(value: object) -> str:
    """Return YAML that the strict reader of `oncue apply` and other readers understand alike."""
    import yaml  # type: ignore[import-untyped]  # it comes without types

    from oncue.cli.job_file import reads_as_text

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # of a class without types
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def quoted(dumper: Any, words: str) -> Any:
        plain = showable(words) == words and reads_as_text(words)
        return dumper.represent_scalar("tag:yaml.org,2002:str", words, style=None if plain else '"')

    Dumper.add_representer(str, quoted)
    said: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return said
