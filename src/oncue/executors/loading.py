"""Find the user's tasks: `--tasks file.py`, `--tasks package.module`, each with or without `:attribute`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TypeVar

from oncue.domain.errors import Invalid, Problem
from oncue.tasks import Tasks
from oncue.tasks.places import BadDeclaration
from oncue.tasks.schedules import collecting

T = TypeVar("T")

HOW_TO = "write `tasks = oncue.Tasks()` and register functions with `@tasks.task`"


def load_tasks(sources: Sequence[str]) -> Tasks:
    """Load all tasks of all sources. Invalid: sources are missing, fail or have no task; two tasks have one name; or
    schedules are declared wrongly.
    """
    found: dict[int, Tasks] = {}  # by identity: one object may be named twice
    loaded, refused = Tasks(), list[Invalid]()
    with collecting() as wrong:
        for source in sources:
            try:
                found |= {id(tasks): tasks for tasks in _load(source)}
            except Invalid as no:
                refused.append(no)
    for tasks in found.values():
        try:
            loaded.include(tasks)
        except Invalid as no:
            refused.append(no)
    wrong += [one for schedules in loaded._schedules for one in schedules.wrong]  # by an earlier call
    problems = [Problem("tasks", "bad_schedule", str(one)) for one in dict.fromkeys(wrong)]
    if problems or len(refused) > 1:
        raise Invalid(*problems, *(problem for no in refused for problem in no.problems))
    if refused:
        raise refused[0]
    return loaded


def absolute(source: str) -> str:
    """Make a source valid from any folder."""
    where, colon, attribute = source.partition(":")
    return f"{Path(where).resolve()}{colon}{attribute}" if is_file(where) else source


def is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where


def _load(source: str) -> list[Tasks]:
    where, _, attribute = source.partition(":")
    if not where:
        raise _wrong("bad_source", f"{source!r} names neither a file nor a module")
    module = _file(where) if is_file(where) else _module(where)
    if attribute:
        tasks = getattr(module, attribute, None)
        if not isinstance(tasks, Tasks):
            what = "has no" if tasks is None else f"has a {type(tasks).__name__}, not an oncue.Tasks, as"
            raise _wrong("bad_attribute", f"{where} {what} {attribute!r}: {HOW_TO}")
        return [tasks]
    every = [value for value in vars(module).values() if isinstance(value, Tasks)]
    if not every:
        raise _wrong("no_tasks", f"{where} has no tasks: {HOW_TO}")
    return every


def _file(where: str) -> ModuleType:
    """Import a file under its own name, with its folder on the path, so that it can import files next to it."""
    file = Path(where).resolve()
    try:
        there = file.is_file()
    except OSError as no:  # the name is too long
        raise _wrong("no_such_file", f"{where} cannot be read: {no.strerror}") from None
    if not there:
        raise _wrong("no_such_file", f"there is no file {where} (looked in {file.parent})")
    name = file.stem
    if name in sys.stdlib_module_names:
        raise _wrong("name_taken", f"{where} has the name of a standard library module, {name!r}: rename the file")
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__file__", None) and Path(str(loaded.__file__)).resolve() == file:
            return loaded
        raise _wrong(
            "name_taken",
            f"{where} cannot be imported: a module {name!r} is already loaded; rename the file",
        )
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _wrong("no_such_file", f"{where} is not a Python file: its name must end with .py")
    _last_on_path(str(file.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    try:
        _imported(where, lambda: loader.exec_module(module))
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module(name: str) -> ModuleType:
    _last_on_path(str(Path.cwd()))
    try:
        return _imported(name, lambda: importlib.import_module(name))
    except Invalid as wrong:
        missing = wrong.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name and f"{name}.".startswith(f"{missing.name}."):
            raise _wrong("no_such_module", f"there is no module {name!r} in this folder or installed") from missing
        raise


def _imported(where: str, load: Callable[[], T]) -> T:
    """Import user code: whatever it raises is reported, and chained."""
    try:
        return load()
    except BadDeclaration as wrong:  # it names the line itself
        raise _wrong("import_failed", f"{where} cannot be imported: {wrong}") from wrong
    except SyntaxError as error:
        at = f"{error.filename}, line {error.lineno}" + (f": {error.text.strip()}" if error.text else "")
        raise _wrong(
            "import_failed", f"{where} cannot be imported: {type(error).__name__}: {error.msg} ({at})"
        ) from error
    except (Exception, SystemExit) as error:
        lines = extract_tb(error.__traceback__)
        last = f" ({lines[-1].filename}, line {lines[-1].lineno})" if lines else ""
        raise _wrong("import_failed", f"{where} cannot be imported: {type(error).__name__}: {error}{last}") from error


def _last_on_path(folder: str) -> None:
    """Add a folder last, so that no file there replaces a standard or installed module of the same name."""
    if folder not in sys.path:
        sys.path.append(folder)


def _wrong(code: str, message: str) -> Invalid:
    return Invalid.of("tasks", code, message)
