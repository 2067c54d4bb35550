"""The options of settings, made from their declarations. Precedence: option, variable, file, default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource

from oncue.cli.config_file import read_config
from oncue.cli.numbers import FiniteRange
from oncue.domain.instants import Duration, show_duration
from oncue.settings import DECLARED, KINDS, Declaration, Roles, Settings

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

DEFAULTS: Final = Settings()
LARGEST: Final = 2**53  # which every database and every reader of JSON can hold
METAVARS: Final = {Duration: "TIME", int: "N", float: "N"}
WHERE: Final = ("engine", "data_dir")
STORAGE_SERVICE: Final = ("storage_endpoint", "storage_region", "storage_path_style")
STORAGE_PLACE: Final = ("storage", *STORAGE_SERVICE)
FILE: Final = "oncue.config_file"  # where a click context keeps the file's name


class SettingOption(click.Option):
    """An option whose errors name what the user wrote: the option, the variable, or the key in the file."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        return f"'{written(self.name or '', ctx)}'"


class _Parts(click.ParamType[list[str]]):
    """Values with commas between them."""

    name = "A,B"
    envvar_list_splitter = ","

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        return [part.strip() for part in str(value).split(",") if part.strip()]


def written(name: str, ctx: click.Context | None) -> str:
    """Return how the user gave this setting."""
    source = ctx.get_parameter_source(name) if ctx is not None else None
    if source is ParameterSource.ENVIRONMENT:
        return variable(name)
    if source is ParameterSource.DEFAULT_MAP and ctx is not None:
        return f"{name} in {ctx.meta[FILE]}"
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    return f"ONCUE_{name.upper()}"


def options_of(roles: Roles, **defaults: Any) -> tuple[Decorator[Any], ...]:
    """The options of all settings that these roles read; `defaults` differ from those of the settings."""
    return options_named((name for name, declared in DECLARED.items() if declared.roles & roles), **defaults)


def options_named(names: Iterable[str], **defaults: Any) -> tuple[Decorator[Any], ...]:
    return (*(_option(name, DECLARED[name], defaults.get(name, getattr(DEFAULTS, name))) for name in names), CONFIG)


def _option(name: str, declared: Declaration, default: Any) -> Decorator[Any]:
    flag, kind = f"--{name.replace('_', '-')}", KINDS[name]
    common: dict[str, Any] = {
        "cls": SettingOption,
        "envvar": variable(name),
        "help": declared.text,
        "hidden": declared.rare,
        "metavar": declared.metavar or METAVARS.get(kind),
    }
    if kind is bool:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=default, **common)
    if get_origin(kind) is tuple:
        shown = ",".join(default) or False
        return click.option(
            flag, multiple=True, type=_Parts(), default=default, show_default=shown, callback=_flat, **common
        )
    if kind is Duration:
        return click.option(flag, default=show_duration(default), show_default=True, **common)
    if name == "engine":
        return click.option(flag, **common)
    return click.option(flag, type=_type(kind, declared), default=default, show_default=bool(default), **common)


def _type(kind: Any, declared: Declaration) -> click.ParamType[Any]:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is int:
        return click.IntRange(declared.least, LARGEST if declared.most is None else declared.most)
    if kind is float:
        return FiniteRange(declared.least, declared.most)
    return click.STRING


def _flat(_: click.Context, __: click.Parameter, lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(part for parts in lists for part in parts)


def _read(ctx: click.Context, _: click.Parameter, file: str | None) -> None:
    """Let values of the file be the defaults of this command."""
    found = read_config(file)
    if found is not None:
        ctx.meta[FILE], ctx.default_map = found.name, found.values


def _show_rare(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    for param in ctx.command.params:
        if isinstance(param, SettingOption):
            param.hidden = False
    click.echo(ctx.get_help())
    ctx.exit()


CONFIG: Final = click.option(
    "--config",
    envvar="ONCUE_CONFIG",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read,
    help="File with settings. [default: oncue.toml, else [tool.oncue] in pyproject.toml]",
)
HELP_ALL: Final = click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_show_rare, help="Show every option."
)
