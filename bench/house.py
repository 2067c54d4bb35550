"""How large the house is: `make house`. Figures above their ceiling in `bench/house.toml` are marked, and fail it.

`tests/test_architecture.py` holds the figures that need no run to the same ceilings, so that no file, verb or statement
is added unnoticed. Lower a ceiling when a figure has fallen; raise one only for what a user would miss.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.walk import walked as walk

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "oncue"
SHORT = 60  # lines
NAME = re.compile(r"^-- name: \w+$", re.MULTILINE)  # above each statement of a file that has several


def modules() -> list[Path]:
    """Return the Python files of what runs: the suite for engines and the benches have folders of their own."""
    return sorted(SOURCE.rglob("*.py"))


def lines_of(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def public_names(path: Path) -> int:
    """Count the functions, classes and values that a module defines without an underscore."""
    names = 0
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names += not name.startswith("_")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names += not name.startswith("_")
            case _:
                pass
    return names


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and `module.name` for each name, which may be a module as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases):
                yield from (module, *(f"{module}.{alias.name}" for alias in aliases))
            case _:
                pass


def small_with_one_importer(paths: list[Path]) -> list[Path]:
    """Return the files under 60 lines that one file alone imports: they might live there."""
    importers = Counter(name for path in paths for name in set(imported(path)))
    return [path for path in paths if lines_of([path]) < SHORT and importers[dotted(path)] == 1]


def verbs() -> dict[str, int]:
    """Count the verbs of the port, by the file that declares them."""
    found: dict[str, int] = {}
    for path in sorted((SOURCE / "engines" / "port").glob("*.py")):
        protocols = [
            node
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
        ]
        verbs = [
            verb.name
            for protocol in protocols
            for verb in protocol.body
            if isinstance(verb, ast.FunctionDef | ast.AsyncFunctionDef) and not verb.name.startswith("_")
        ]
        if verbs:
            found[path.stem] = len(verbs)
    return found


def sql_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.sql"))


def statements() -> int:
    """Count the statements outside of migrations: one a file, or one a name."""
    files = [path for path in sql_files() if path.parent.name != "migrations"]
    return sum(len(NAME.findall(path.read_text())) or 1 for path in files)


def figures() -> dict[str, int]:
    """Return every figure that needs no run."""
    paths = modules()
    return {
        "files": len(paths),
        "lines": lines_of(paths),
        "small_with_one_importer": len(small_with_one_importer(paths)),
        "verbs": sum(verbs().values()),
        "sql_files": len(sql_files()),
        "statements": statements(),
        "test_lines": lines_of(sorted((ROOT / "tests").rglob("*.py"))),
    }


def walked() -> dict[str, int]:
    """Return the three measures of the walk on PostgreSQL, in functions and files: the least of three walks, because
    what passes by in the background is recorded, too.
    """
    walks = [_walked() for _ in range(3)]
    return {name: min(one[name] for one in walks) for name in walks[0]}


def _walked() -> dict[str, int]:
    created, finished = walk("postgres")
    found = {}
    for part, measures in (("create", created.measures()), ("whole", (created | finished).measures())):
        for name, measured in zip(("spine", "worth_opening", "entered"), measures, strict=True):
            found[f"{part}_{name}"] = measured.functions
            found[f"{part}_{name}_files"] = measured.files
    return found


def ceilings() -> dict[str, int]:
    return tomllib.loads((ROOT / "bench" / "house.toml").read_text())


def packages() -> Iterator[str]:
    """Yield a line for each package: its files, lines and public names."""
    for folder in sorted({path.relative_to(SOURCE).parts[0] for path in modules()}):
        of_it = [path for path in modules() if path.relative_to(SOURCE).parts[0] == folder]
        if len(of_it) > 1:
            names = sum(map(public_names, of_it))
            yield f"  {folder:<26} {len(of_it):>5} files {lines_of(of_it):>7,} lines {names:>6,} public names"


def main() -> int:
    print("\n".join(packages()))
    print("  verbs by file: " + ", ".join(f"{name} {count}" for name, count in verbs().items()))
    allowed = ceilings()
    found = figures() | ({} if "--quick" in sys.argv else walked())
    print(f"\n{'':<28} {'now':>8} {'ceiling':>8}")
    for name, figure in found.items():
        above = "  above" if figure > allowed[name] else ""
        print(f"{name.replace('_', ' '):<28} {figure:>8,} {allowed[name]:>8,}{above}")
    return any(figure > allowed[name] for name, figure in found.items())


if __name__ == "__main__":
    sys.exit(main())
