"""The site of docs/ has every page, and the reference describes what it lists. `make docs` builds the site itself."""

from collections.abc import Iterator
from typing import Any

import yaml
from tests.test_docs import ROOT
from website import reference

SITE: dict[str, Any] = yaml.safe_load((ROOT / "website" / "mkdocs.yml").read_text())


def pages_of(nav: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation, in order."""
    match nav:
        case str():
            yield nav
        case list():
            for one in nav:
                yield from pages_of(one)
        case dict():
            yield from pages_of(list(nav.values()))


def test_the_navigation_has_every_page_once() -> None:
    docs = ROOT / "docs"
    there_are = [str(page.relative_to(docs)) for page in docs.rglob("*.md")]

    assert sorted(pages_of(SITE["nav"])) == sorted([*there_are, *SITE["extra"]["elsewhere"], *reference.PAGES])


def test_pages_from_elsewhere_exist() -> None:
    assert [path for path in SITE["extra"]["elsewhere"].values() if not (ROOT / path).is_file()] == []


def test_everything_in_the_reference_has_a_docstring() -> None:
    entries = [entry for _, _, entries in reference.PAGES.values() for entry in entries]
    described = {entry.name: entry.what for entry in entries}
    described |= {f"{entry.name}.{name}": one for entry in entries for name, one in reference.members(entry)}

    assert len(described) > 150, "classes, functions and their members"
    assert [of for of, what in described.items() if not reference.doc(what)] == []


def test_the_reference_has_what_is_exported() -> None:
    text = "\n".join(reference.pages().values())

    for module in (reference.oncue, reference.testing):
        exported = [name for name in module.__all__ if name != "__version__"]
        assert [name for name in exported if f"\n## {name}\n" not in text] == []
    assert "create(\n    *,\n    idempotency_key: str | None = None,\n" in text, "the calls of a client are written out"
