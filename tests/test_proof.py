"""docs/proof.md has a row for every guarantee of the documentation, and what its rows name exists."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PROOF = DOCS / "proof.md"

# How the documentation words what it promises, and not what uses the same words otherwise: a time that comes twice.
PROMISE = re.compile(
    r"""
      at\ least\ once(?!\ a\ ) | exactly\ once | all\ or\ nothing | final\ is\ final | final\ states\ are\ final
    | never\ (starts\ early|executes?|counts?|leaves|changes|hold|skipped)\b
    | (nothing|no\ run\ and\ no\ occurrence|none)\b[\w\ ,]*\b(lost|missed|early|forgotten)\b
    | \b(nothing|none|never|no\ run|must\ not)\b[\w\ ,]*\btwice\b
    | \b(is|are)\ (planned|counted|recorded)\ once\b
    | as\ if\ they\ did\ not\ exist | \bsame\ ids?\b
    """,
    re.IGNORECASE | re.VERBOSE,
)

# What says how oncue is tested, how fast it is, and why it was decided so, promises nothing of its own.
SPEAKS_OF_OTHERS = {"testing.md", "benchmarks.md", "terminal-session.md", PROOF.name}
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.glob("*.md")) if page.name not in SPEAKS_OF_OTHERS)]

ROW = re.compile(r'^\| "(?P<words>[^|]+)" \(\[[^\]]+\]\((?P<page>[^)#]+)[^)]*\)\) \| (?P<evidence>[^|]+) \|')


def rows() -> Iterator[tuple[str, Path, str]]:
    """The words of a guarantee, the page they stand on, and the evidence."""
    for line in PROOF.read_text().splitlines():
        if line.startswith('| "'):
            found = ROW.match(line)
            assert found, f'docs/proof.md: a row is not `| "words" ([page](page.md)) | evidence | …`: {line[:120]}'
            yield found["words"], (DOCS / found["page"]).resolve(), found["evidence"]


@cache
def sentences(page: Path) -> list[str]:
    """The prose of a page: no code, no headings, no tables, each line of Markdown cut into sentences."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if line and line[0] not in "#|"]
    return list(chain.from_iterable(re.split(r"(?<=[.!?]) +(?=[A-Z`*\[])", line) for line in prose))


def promises() -> list[tuple[str, str]]:
    return [(page.name, sentence) for page in PAGES for sentence in sentences(page) if PROMISE.search(sentence)]


@pytest.mark.parametrize(("page", "sentence"), promises())
def test_a_guarantee_has_a_row(page: str, sentence: str) -> None:
    quoted = [words for words, of, _ in rows() if of.name == page]

    assert any(words in sentence for words in quoted), f"docs/proof.md has no row for what {page} says: {sentence}"


def test_the_words_of_a_row_stand_on_its_page() -> None:
    gone = [(page.name, words) for words, page, _ in rows() if not any(words in said for said in sentences(page))]

    assert gone == []


def test_each_row_names_a_test() -> None:
    bare = [words for words, _, evidence in rows() if not re.search(r"`tests/|`conformance/", evidence)]

    assert bare == []


def test_the_tests_that_are_named_exist() -> None:
    named = set(re.findall(r"`((?:tests|conformance|bench)/[\w/.]+)(?:::(\w+))?`", PROOF.read_text()))

    assert [name for name in sorted(named) if not exists(*name)] == []


def exists(path: str, name: str) -> bool:
    file = ROOT / path
    if not name:
        return file.exists()
    return file.is_file() and bool(re.search(rf"^ *(async )?(def|class) {name}\b", file.read_text(), re.MULTILINE))


def test_the_page_promises_something_and_says_what_it_does_not() -> None:
    assert len(promises()) > 20
    assert "\n## Not claimed\n" in PROOF.read_text()
