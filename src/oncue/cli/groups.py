"""Groups of commands, which suggest the command that was probably meant."""

from __future__ import annotations

from difflib import get_close_matches

import click


class Group(click.Group):
    """Lists its commands in the order they were written in, and suggests the nearest for an unknown one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(unknown(name, self.list_commands(ctx), ctx.command_path), ctx)
        return super().resolve_command(ctx, args)


def unknown(name: str, known: list[str], where: str) -> str:
    """Say that there is no such command, and which one is meant, or which there are."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"No command {name!r}; did you mean `{where} {near[0]}`?"
    return f"No command {name!r}; `{where}` has {', '.join(known)}."
