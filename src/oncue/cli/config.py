"""`oncue config`: show what every setting is and where it was set."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from oncue.cli.asking import tell_data
from oncue.cli.groups import Group
from oncue.cli.output import ONE, Output
from oncue.cli.printing import print_table, say
from oncue.cli.refusing import WRONG_USAGE, refusals
from oncue.cli.roles import options, settings_of
from oncue.cli.settings_options import FILE, options_of, variable, written
from oncue.domain.instants import Duration, show_duration
from oncue.domain.shown_url import shown_url
from oncue.settings import ALL, DECLARED, KINDS, Settings

EXAMPLES = """\b
Examples:
  oncue config show
  oncue config show --json | jq '.[] | select(.source != "default")'
  oncue config check

A setting is taken from its option (--port), else its variable (ONCUE_PORT), else the file, else its default. The file
is --config or ONCUE_CONFIG, else oncue.toml in this folder, else [tool.oncue] in pyproject.toml:

\b
  engine = "${DATABASE_URL}"
  tasks = ["shop.tasks"]
  queues = ["default", "mail"]
"""
SHOW = """\b
Examples:
  oncue config show
  ONCUE_PORT=9000 oncue config show --json

Passwords in URLs are not shown, nor parameters of URLs that may be secret.
"""
CHECK = """\b
Examples:
  oncue config check
  oncue config check --config /etc/oncue.toml

The exit code is 0 if every setting is valid. Nothing is opened or started.
"""
DEFAULTS: Final = Settings()


@click.group("config", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Show and check settings."""


@command.command("show", epilog=SHOW)
@options(options_of(ALL), ONE)
def show(output: Output, **given: Any) -> None:
    """Show each setting, its source and default."""
    settings = _settings(given, as_json=output.as_json)
    found = [
        {
            "setting": name,
            "value": _shown(name, getattr(settings, name)),
            "source": _source(name),
            "default": _shown(name, getattr(DEFAULTS, name)),
        }
        for name in DECLARED
    ]
    if output.as_data:
        tell_data(found, output)
    else:
        rows = [(one["setting"], _text(one["value"]), one["source"], _text(one["default"])) for one in found]
        print_table(f"{len(found)} settings", ("setting", "value", "from", "default"), rows)


@command.command("check", epilog=CHECK)
@options(options_of(ALL), ONE)
def check(output: Output, **given: Any) -> None:
    """Check settings of file and environment."""
    _settings(given, as_json=output.as_json)
    file = click.get_current_context().meta.get(FILE)
    changed = [name for name in DECLARED if _source(name) != "default"]
    if output.as_data:
        tell_data({"file": file, "set": changed}, output)
    else:
        count = "1 setting is" if len(changed) == 1 else f"{len(changed)} settings are"
        say(f"{count} set, all valid; " + (f"the file is {file}" if file else "there is no file"))


def _settings(given: dict[str, Any], *, as_json: bool) -> Settings:
    ctx = click.get_current_context()
    with refusals({name: written(name, ctx) for name in DECLARED}, as_json=as_json, code=WRONG_USAGE):
        return settings_of(**given)


def _source(name: str) -> str:
    ctx = click.get_current_context()
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.ENVIRONMENT:
        return variable(name)
    if source is ParameterSource.DEFAULT_MAP:
        return str(ctx.meta[FILE])
    return f"--{name.replace('_', '-')}" if source is ParameterSource.COMMANDLINE else "default"


def _shown(name: str, value: Any) -> Any:
    if KINDS[name] is Duration:
        return show_duration(value)
    is_url = DECLARED[name].metavar == "URL" or (isinstance(value, str) and "://" in value)
    return shown_url(value) if is_url else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else str(value)
