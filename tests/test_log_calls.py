"""Every log line of the code has a kind that the documentation lists, and a sentence in common terms."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.test_docs import ROOT, table
from tests.test_words import faults

SOURCE = ROOT / "src" / "oncue"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
WRITTEN_BY_HAND = {"output_dropped"}  # by the outlet, when nothing else can be written


def calls(file: Path) -> Iterator[tuple[str, str, str]]:
    """Where it is, its kind, and its sentence; empty, if these are not written there as they are."""
    source = file.read_text()
    for node in ast.walk(ast.parse(source)) if "log." in source else ():
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("log"), attr=level)) if level in LEVELS:
                kind = next((key.value for key in node.keywords if key.arg == "kind"), None)
                yield f"{file.relative_to(SOURCE)}:{node.lineno}", text_of(kind), text_of(node.args[-1])
            case _:
                pass


def text_of(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@cache
def all_calls() -> list[tuple[str, str, str]]:
    return [call for file in sorted(SOURCE.rglob("*.py")) for call in calls(file)]


def test_every_line_has_a_kind_and_a_sentence_in_common_terms() -> None:
    found = all_calls()

    assert len(found) > 50
    assert [where for where, kind, _ in found if not re.fullmatch(r"[a-z_]+", kind)] == []
    assert [where for where, _, sentence in found if not sentence[:1].isupper()] == []
    assert [f"{where} {fault}" for where, _, sentence in found for fault in faults(sentence)] == []


def test_the_page_lists_every_kind_and_no_other() -> None:
    listed = [kind for row in table(ROOT / "docs" / "running.md", "kind") for kind in re.findall(r"\w+", row[0])]

    assert sorted(listed) == sorted({kind for _, kind, _ in all_calls()} | WRITTEN_BY_HAND)
