"""Files of ops/ that start oncue: with commands and options that exist, and with what they need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.ops.programs import OPS

from oncue.cli.main import main


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every start of oncue: where it is written, and the words after `oncue`."""
    for file in (OPS / "systemd").rglob("*.*"):
        for line in re.findall(r"^ExecStart=\S*/oncue (.+)$", file.read_text(), re.MULTILINE) if file.is_file() else ():
            yield file.name, line.split()
    for name, service in yaml.safe_load((OPS / "compose.yaml").read_text())["services"].items():
        if service["image"] == "oncue":
            yield f"compose {name}", service["command"]
    for file in (OPS / "kubernetes").rglob("*.yaml"):
        for resource in yaml.safe_load_all(file.read_text()):
            for container in containers(resource):
                yield f"kubernetes {container['name']}", container["args"]
    dockerfile = (OPS / "docker" / "Dockerfile").read_text()
    yield "Dockerfile", yaml.safe_load(re.findall(r"^CMD (\[.+\])$", dockerfile, re.MULTILINE)[0])


def containers(resource: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = resource.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return found


LINES = list(command_lines())


def test_every_kind_of_file_was_read() -> None:
    assert len(LINES) == 5 + 4 + 6 + 1


@pytest.mark.parametrize(("where", "words"), LINES, ids=[where for where, _ in LINES])
def test_commands_and_options_exist(where: str, words: list[str]) -> None:
    command = main.get_command(click.Context(main), words[0])
    assert command is not None
    known = {name for parameter in command.params for name in parameter.opts}

    assert {word for word in words if word.startswith("--")} - known == set()


@pytest.mark.parametrize(("where", "words"), LINES, ids=[where for where, _ in LINES])
def test_metrics_that_others_may_read_have_a_token(where: str, words: list[str]) -> None:
    """Such a role does not start without one; all files set the variable that names its file."""
    if "--metrics-host" in words and "compose" in where:
        assert "ONCUE_METRICS_TOKEN_FILE" in (OPS / "compose.yaml").read_text()
    if "--metrics-host" in words and "kubernetes" in where:
        variables = [
            variable["name"]
            for file in (OPS / "kubernetes").rglob("*.yaml")
            for resource in yaml.safe_load_all(file.read_text())
            for container in containers(resource)
            if container["args"] == words
            for variable in container["env"]
        ]
        assert "ONCUE_METRICS_TOKEN_FILE" in variables


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(OPS.rglob("*")) if file.suffix in {".yaml", ".yml", ".conf", ".service", ".sql", ".sh"}]
    + [OPS / "Caddyfile", OPS / "docker" / "Dockerfile"],
    ids=lambda file: str(file.relative_to(OPS)),
)
def test_a_file_says_first_how_it_is_checked(file: Path) -> None:
    first = " ".join(file.read_text().splitlines()[:2])

    assert re.search(r"[Cc]hecked|[Bb]uilt by|Run by a test|[Ff]ires", first), first
