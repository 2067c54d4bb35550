"""The files of statements: each name once, and each statement used."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import oncue.engines
import oncue_bench
from oncue.engines.sql import statements

ENGINES = Path(oncue.engines.__file__).parent
FOLDERS = {
    "oncue.engines.sqlite": ENGINES / "sqlite",
    "oncue.engines.postgres": ENGINES / "postgres",
    "oncue_bench": Path(oncue_bench.__file__).parent,
}


def texts_in(folder: Path) -> Iterator[str]:
    """Every text of the code; what an f-string fills in is `*`."""
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.JoinedStr(values=parts):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
                case ast.Constant(value=str(text)):
                    yield text
                case _:
                    pass


@pytest.mark.parametrize("package", FOLDERS)
def test_every_statement_is_used(package: str) -> None:
    known = [text for text in set(texts_in(FOLDERS[package])) if len(text.strip("*")) > 2 and " " not in text]
    there_are = statements(package)

    assert there_are
    assert [name for name in there_are if not any(fnmatchcase(name, text) for text in known)] == []


@pytest.mark.parametrize(
    ("package", "text", "refusal"),
    [
        ("doubled", "-- name: find\nselect 1\n\n-- name: find\nselect 2\n", "two statements are called find"),
        ("nameless", "select 1\n\n-- name: find\nselect 2\n", "a statement in jobs.sql has no name"),
    ],
)
def test_two_statements_of_one_name_and_one_of_none_are_refused(
    package: str, text: str, refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / package / "sql"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "jobs.sql").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ValueError, match=refusal):
        statements(package)
