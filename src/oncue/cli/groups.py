"""Groups of commands, which suggest the command that was probably meant."""

from __future__ import annotations

import click

from oncue.domain.meanings import command_meant


class Group(click.Group):
    """Lists its commands in the order they were written in, and suggests the nearest for an unknown one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(unknown(name, self.list_commands(ctx), ctx), ctx)
        return super().resolve_command(ctx, args)


def unknown(name: str, known: list[str], ctx: click.Context) -> str:
    """Say that there is no such command, and which one is meant, or which there are if they are few."""
    program = ctx.find_root().command_path
    group = ctx.command_path.removeprefix(program).strip()
    if meant := command_meant(name, known, group):
        *others, last = [f"`{program} {one}`" for one in meant]
        return f"No command {name!r}; did you mean {' or '.join([', '.join(others), last] if others else [last])}?"
    return f"No command {name!r}; `{program} {group}` has {', '.join(known)}." if group else f"No command {name!r}."
