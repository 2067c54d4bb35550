"""Help pages, messages and served descriptions use common terms: each word below has a standard one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from oncue.cli.main import main

SOURCE = Path(__file__).parent.parent / "src" / "oncue"
WATCHED = ("api", "cli", "client", "domain", "engines", "executors", "services", "shapes", "tasks", "*.py")
LOGGING = ("engines", "executors", "services")  # folders whose log lines are not messages to users
SERVED = ("shapes",)  # folders whose docstrings are descriptions of the API

INSTEAD = {
    r"mak(e|es|ing)|made": "create",
    r"lets? (a job |it |them |nothing |be)": "resume, discard",
    r"anew|try again": "retry",
    r"not ended": "active or paused",
    r"bec(ame|omes?) of": "outcome, status",
    r"announc\w+": "register",
    r"(no|has|have|for|give|leaves?) room|places": "free slot, capacity",
    r"(gave|gives?|giving) way": "preempted",
    r"silent|heard|beats?": "no heartbeat, heartbeat",
    r"pieces? of history": "partition",
    r"ledger": "occurrence history",
    r"its spelling": "check the spelling",
    r"the store (is|has|was)": "the database",
    r"(shown|told) this once": "shown only once",
    r"good for nothing": "revoked",
    r"of yours|somebody|whoever|anybody|nobody": "your, another client, a named subject",
    r"as is usual": "default",
    r"how it stands": "status",
    r"tak(e|es|en) over": "adopt",
    r"holds? up|in (its|the) way": "block, blocked by",
    r"hand(s|ed)? (it |them |the rest )?back": "return to the queue",
    r"stretch(es)?": "time range",
    r"so (many|long)": "at most N, N seconds",
    r"beside (its|the) schedule": "in addition to its schedule",
    r"ask again|comes? back|can be repeated": "retry",
    r"came to|made out": "outcome",
    r"is away": "unavailable",
    r"(was|were) said|told|cannot keep": "log, message, shown, store",
    r"requeue[ds]|requeueing|requeue (it|its|them|the|or|what|dead)|retry an? (ended|finished) run": "run again",
    r"whose it is|fate|one of ours": "the user it belongs to, outcome, valid",
}
FORBIDDEN = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): standard for words, standard in INSTEAD.items()}
ANY = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)  # most texts have none: one search instead of many


def faults(text: str) -> list[str]:
    """The words of a text that have a standard term, each with that term."""
    if ANY.search(text) is None:
        return []
    found = ((words.search(text), standard) for words, standard in FORBIDDEN.items())
    return [f"{match[0]!r} in {text!r}: write {standard}" for match, standard in found if match]


def helps(command: click.Command, name: str = "oncue") -> Iterator[tuple[str, str]]:
    """Every text of a command's help page, and of the commands below it."""
    yield name, f"{command.help or ''}\n{command.epilog or ''}"
    for parameter in command.params:
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for below in command.list_commands(context):
                found = command.get_command(context, below)
                assert found is not None
                yield from helps(found, f"{name} {below}")


def said(source: str, *, logs: bool = True, docstrings: bool = False) -> Iterator[tuple[int, str]]:
    """Every text of three words or more in some code: what it can say to people."""
    tree = ast.parse(source)
    left_out = [
        node
        for node in ast.walk(tree)
        if (not docstrings and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr))
        or (not logs and isinstance(node, ast.Call) and is_of_log(node.func))
    ]
    apart = {id(inside) for node in left_out for inside in ast.walk(node)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart
        if is_text and len(node.value.split()) > 2:
            yield node.lineno, node.value


def is_of_log(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "log"


def files() -> list[Path]:
    inside = [SOURCE.glob(one) if one.endswith(".py") else (SOURCE / one).rglob("*.py") for one in WATCHED]
    return sorted(file for found in inside for file in found)


def test_help_pages_use_common_terms() -> None:
    pages = list(helps(main))

    assert len(pages) > 200, "the whole tree of commands"
    assert [f"{name}: {fault}" for name, text in pages for fault in faults(text)] == []


@pytest.mark.long
def test_messages_use_common_terms() -> None:
    found = []
    for file in files():
        name = file.relative_to(SOURCE)
        texts = said(file.read_text(), logs=name.parts[0] not in LOGGING, docstrings=name.parts[0] in SERVED)
        found += [f"{name}:{line}: {fault}" for line, text in texts for fault in faults(text)]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'raise Invalid.of("x", "y", "make another one of it")',
        'raise Conflict(f"run {run_id} has not ended by now")',
        'message = "the store is away now"',
        'log.warning("a worker fell silent again")',
        'remedy = "Read the errors, then requeue or discard them."',
    ],
)
def test_a_planted_word_is_found(source: str) -> None:
    assert [fault for _, text in said(source) for fault in faults(text)]


def test_docstrings_are_messages_only_where_they_are_served() -> None:
    source = 'class Job:\n    key: str\n    """whoever makes a job"""'

    assert list(said(source)) == []
    assert list(said(source, docstrings=True)) == [(3, "whoever makes a job")]


def test_log_lines_can_be_left_out() -> None:
    source = 'log.warning("the store is away")\nraise Lost("the store is away")'

    assert list(said(source, logs=False)) == [(2, "the store is away")]
