"""Rules about the shape of the code that no linter knows. Which module may import which is checked by import-linter."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.house import ceilings, figures

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "oncue"
PACKAGES = (
    SOURCE,
    ROOT / "conformance" / "oncue_conformance",
    ROOT / "bench" / "oncue_bench",
)  # all that the wheel contains
THE_CLOCK = SOURCE / "clock.py"

# Elsewhere in services, executors and engines the injected clock waits, so that a test can drive it. Not for these:
WAIT_FOR_REAL = {
    "engines/patience.py": "a server's socket, and a thread that may hang in the disk",
    "engines/postgres/dialling.py": "a server's socket",
    "engines/postgres/engine.py": "a server's socket",
    "engines/postgres/signals.py": "a server's socket, when it closes",
    "engines/postgres/store.py": "a server's socket",
    "executors/contained.py": "a process that is told to end, and is killed when it does not",
    "executors/dialling.py": "a stranger's socket",
    "executors/http.py": "a stranger's socket",
    "executors/output.py": "a pipe that a process fills",
    "executors/sending.py": "a mail server's socket",
    "executors/warm.py": "a process that is told to end",
    "services/storage_checks.py": "object storage that may not answer",
    "services/supervisor.py": "the pipe of a process that has ended",
}

LONGEST_FUNCTION = 45
LONGEST_FILE = 400
LONG_DOCSTRING = '    """Long.\n' + "\n" * 20 + '    """\n'

USES_OF_TIME = {
    *(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "clock_gettime", "thread_time", "sleep")),
    *(f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter", "clock_gettime", "thread_time")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    *(f"anyio.{name}" for name in ("current_time", "sleep", "sleep_until")),
    "datetime.date.today",
    "asyncio.sleep",
    "loop.time",
}

REAL_WAITS = {
    *(f"asyncio.{name}" for name in ("timeout", "timeout_at", "wait_for")),
    *(f"anyio.{name}" for name in ("fail_after", "move_on_after")),
    "loop.call_later",
    "loop.call_at",
}
TAKE_A_TIMEOUT = {"wait", "acquire", "join", "get", "result", "start_tls"}


def python_files() -> list[Path]:
    return [file for package in PACKAGES for file in sorted(package.rglob("*.py"))]


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `from datetime import datetime as d` makes `d` "datetime.datetime"."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {a.asname: a.name for a in aliases if a.asname}
                names |= {top: top for top in (a.name.split(".")[0] for a in aliases if not a.asname)}
            case ast.ImportFrom(module=str(module), names=aliases):
                names |= {a.asname or a.name: f"{module}.{a.name}" for a in aliases}
            case _:
                pass
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """What an expression refers to, by its full name. Whatever is called a loop is taken for asyncio's."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.strip("_").endswith("loop"):
            return "loop"
        case ast.Name(id=name):
            return names.get(name, "?")
        case ast.Attribute(value=value, attr=name):
            return f"{full_name(value, names)}.{name}"
        case ast.Call(func=function):
            return full_name(function, names)
        case _:
            return "?"


def uses_of_time(source: str) -> Iterator[str]:
    """Every place that reads a clock or sleeps, also without calling it there: `wait = asyncio.sleep`."""
    tree = ast.parse(source)
    names = imported_names(tree)
    lets_others_run = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and [ast.unparse(argument) for argument in node.args] == ["0"]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in lets_others_run:
            name = full_name(node, names)
            if name in USES_OF_TIME:
                yield f"line {node.lineno}: {name}"


def real_waits(source: str) -> Iterator[str]:
    """Every place that waits by the system's time: with a timer, or with an end to its patience."""
    tree = ast.parse(source)
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = full_name(node, names)
            if name in REAL_WAITS:
                yield f"line {node.lineno}: {name}"
        match node:
            case ast.Call(func=ast.Attribute(attr=name), keywords=given) if name in TAKE_A_TIMEOUT:
                if any(keyword.arg == "timeout" for keyword in given):
                    yield f"line {node.lineno}: {name}(timeout=…)"
            case _:
                pass


def long_functions(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = lines_of(node) - lines_of_docstrings(node)
            if length > LONGEST_FUNCTION:
                yield f"line {node.lineno}: {node.name} has {length} lines"


def long_file(source: str) -> Iterator[str]:
    length = len(source.splitlines()) - lines_of_docstrings(ast.parse(source))
    if length > LONGEST_FILE:
        yield f"has {length} lines"


def lines_of_docstrings(tree: ast.AST) -> int:
    """Prose is not counted: a contract may be told at length."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
    return sum(lines_of(node.body[0]) for node in nodes)


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def found_in(files: list[Path], check: Callable[[str], Iterator[str]]) -> list[str]:
    return [f"{file.relative_to(ROOT)} {found}" for file in files for found in check(file.read_text())]


def test_only_the_clock_reads_time_or_sleeps() -> None:
    assert found_in([file for file in python_files() if file != THE_CLOCK], uses_of_time) == []


def test_services_and_engines_wait_by_the_injected_clock() -> None:
    waiting = {
        str(file.relative_to(SOURCE))
        for part in ("services", "engines", "executors")
        for file in (SOURCE / part).rglob("*.py")
        if list(real_waits(file.read_text()))
    }

    assert waiting == set(WAIT_FOR_REAL)


def test_functions_are_short() -> None:
    assert found_in(python_files(), long_functions) == []


def test_files_are_short() -> None:
    assert found_in(python_files(), long_file) == []


def test_engines_have_the_same_files() -> None:
    sqlite, postgres = SOURCE / "engines" / "sqlite", SOURCE / "engines" / "postgres"
    if not (sqlite.is_dir() and postgres.is_dir()):
        pytest.skip("there are not two engines yet")

    # SQLite has no server to connect to
    apart = {"pooling.py", "silence.py", "standstill.py", "dialling.py", "hosts.py", "race.py", "lookout.py"}
    apart.add("programs.py")  # nor pg_dump to be run
    assert names_under(postgres) - apart == names_under(sqlite)


def test_the_house_has_not_grown() -> None:
    """Files, lines, verbs and statements beyond the ceilings of bench/house.toml: `make house` shows them all."""
    allowed = ceilings()
    assert {name: figure for name, figure in figures().items() if figure > allowed[name]} == {}


def names_under(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.py")}


class TestTheChecksThemselves:
    """A check that cannot fail checks nothing."""

    def test_there_is_code_to_check(self) -> None:
        assert THE_CLOCK in python_files()
        assert all(package / "__init__.py" in python_files() for package in PACKAGES)
        assert list(uses_of_time(THE_CLOCK.read_text())) != []

    @pytest.mark.parametrize(
        "source",
        [
            "import time\ntime.time()",
            "import time as t\nt.monotonic_ns()",
            "from time import perf_counter as tick\ntick()",
            "def late():\n    import time\n    time.sleep(1)",
            "from datetime import UTC, datetime\ndatetime.now(UTC)",
            "import datetime as dt\ndt.datetime.utcnow()",
            "from datetime import date\ndate.today()",
            "import asyncio\nasync def f(): await asyncio.sleep(0.1)",
            "import asyncio\nasync def f(): await asyncio.sleep(delay)",
            "from asyncio import sleep\nwait = sleep",
            "import asyncio\nasyncio.get_running_loop().time()",
            "def f(self, loop): return loop.time() + self._loop.time()",
        ],
    )
    def test_a_use_of_time_is_found(self, source: str) -> None:
        assert list(uses_of_time(source)) != []

    @pytest.mark.parametrize(
        "source",
        [
            "import asyncio\nasync def f(): await asyncio.sleep(0)",
            "import asyncio\nasync def f():\n    async with asyncio.timeout(1): pass",
            "from datetime import datetime\ndatetime.fromtimestamp(0).time()",
            "async def f(clock): await clock.sleep(1); return clock.now(), clock.monotonic()",
            "import time\ntime.gmtime(0)",
        ],
    )
    def test_what_only_looks_like_one_is_not(self, source: str) -> None:
        assert list(uses_of_time(source)) == []

    @pytest.mark.parametrize(
        "source",
        [
            "import asyncio\nasync def f():\n    async with asyncio.timeout(1): pass",
            "from asyncio import wait_for\nasync def f(): await wait_for(g(), 1)",
            "import asyncio\nasyncio.get_running_loop().call_later(1, print)",
            "def f(self): self._loop.call_at(1, print)",
            "import asyncio\nasync def f(tasks): await asyncio.wait(tasks, timeout=1)",
            "def f(done): done.wait(timeout=1)",
        ],
    )
    def test_a_wait_by_real_time_is_found(self, source: str) -> None:
        assert list(real_waits(source)) != []

    @pytest.mark.parametrize(
        "source",
        [
            "import asyncio\nasync def f(tasks): await asyncio.wait(tasks)",
            "async def f(clock):\n    async with clock.timeout(1): clock.call_later(1, print)",
            "async def f(store): await store.write(1, timeout=2)",
        ],
    )
    def test_a_wait_by_the_injected_one_is_not(self, source: str) -> None:
        assert list(real_waits(source)) == []

    def test_a_long_function_is_found_and_a_long_docstring_forgiven(self) -> None:
        body = "    pass\n" * (LONGEST_FUNCTION - 1)

        assert list(long_functions(f"def f():\n{body}")) == []
        assert list(long_functions(f"def f():\n{LONG_DOCSTRING}{body}")) == []
        assert list(long_functions(f"async def f():\n{body}    pass\n")) == ["line 1: f has 46 lines"]

    def test_a_long_file_is_found_and_a_long_docstring_forgiven(self) -> None:
        body = "pass\n" * (LONGEST_FILE - 1)

        assert list(long_file(f"class C:\n{LONG_DOCSTRING}{body}")) == []
        assert list(long_file(f"class C:\n{LONG_DOCSTRING}{body}pass\n")) == ["has 401 lines"]
