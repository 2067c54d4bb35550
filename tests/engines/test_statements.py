"""The files of statements: each name once, and each statement used."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import oncue.engines
from oncue.engines.sql import statements

ENGINES = Path(oncue.engines.__file__).parent


def texts_in(folder: Path) -> Iterator[str]:
    """Every text of the engine's code; what an f-string fills in is `*`."""
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.JoinedStr(values=parts):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
                case ast.Constant(value=str(text)):
                    yield text
                case _:
                    pass


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_every_statement_is_used(engine: str) -> None:
    known = [text for text in set(texts_in(ENGINES / engine)) if len(text.strip("*")) > 2 and " " not in text]
    unused = [
        name for name in statements(f"oncue.engines.{engine}") if not any(fnmatchcase(name, text) for text in known)
    ]
    assert unused == []


def test_a_name_that_two_statements_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "doubled" / "sql"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "jobs.sql").write_text("-- name: find\nselect 1\n\n-- name: find\nselect 2\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ValueError, match="two statements are called find"):
        statements("doubled")
