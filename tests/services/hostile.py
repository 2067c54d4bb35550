"""Tasks that say what nobody should say: every channel that a task has, and every value that has broken something.

The same file is loaded by the test, whose worker runs it in its loop and in threads, and by processes of their own.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import msgspec

from oncue import Context, NoRetry, RetryAfter, Tasks
from oncue.context import LARGEST_CHECKPOINT
from oncue.executors import child
from oncue.executors.port import encoded as REAL_ENCODED  # noqa: N812

MEGABYTE = "x" * 1_000_000


class Untellable:
    """An object that raises whatever is asked of it."""

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __str__(self) -> str:
        raise ValueError("no str")

    def __reduce__(self) -> Any:
        raise ValueError("no reduce")

    def __float__(self) -> float:
        raise ValueError("no float")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no str")

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __reduce__(self) -> Any:
        raise ValueError("no reduce")


class Leaves(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Own(BaseException):
    pass


class Liar(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @property
    def __traceback__(self) -> Any:
        raise RuntimeError("no traceback")


class Text(str):
    """A str that is none."""

    def __getitem__(self, *_: Any) -> Any:
        raise IndexError("no part of it")

    def __len__(self) -> int:
        return -1

    def encode(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no bytes")


class SaysText(Exception):
    def __str__(self) -> str:
        return Text("a\0b")


class Renamed(type):
    @property
    def __name__(cls) -> Any:
        return "a\0b\ud800"


class Nameless(type):
    @property
    def __name__(cls) -> Any:
        raise RuntimeError("no name")


class OfRenamed(Exception, metaclass=Renamed):
    pass


class OfNameless(Exception, metaclass=Nameless):
    pass


def syntax_error(**fields: Any) -> SyntaxError:
    error = SyntaxError("odd")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


def chain(length: int) -> Exception:
    first = last = RuntimeError("the first of a chain")
    for number in range(length):
        last.__cause__ = RuntimeError(f"number {number}")
        last = last.__cause__
    last.__cause__ = first
    return first


def group(levels: int, width: int = 1) -> Exception:
    inner: Exception = ValueError("innermost\0")
    for _ in range(levels):
        inner = ExceptionGroup("a group\0", [inner] * width)
    return inner


def recursive() -> Exception:
    error = KeyError()
    error.args = (error,)
    return error


def noted() -> Exception:
    error = ValueError("with notes")
    error.__notes__ = [Untellable(), "a\0b"]
    return error


# What is raised, and the kind of error that the run ends with.
ERRORS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "nul": (lambda: RuntimeError("a\0b"), "RuntimeError"),
    "surrogate": (lambda: RuntimeError("a\ud800b"), "RuntimeError"),
    "control": (lambda: RuntimeError("".join(map(chr, range(1, 160)))), "RuntimeError"),
    "megabyte": (lambda: RuntimeError(MEGABYTE), "RuntimeError"),
    "megabyte_of_nul": (lambda: RuntimeError("\0" * 1_000_000), "RuntimeError"),
    "mute": (Mute, "Mute"),
    "leaves": (Leaves, "Leaves"),
    "repr": (lambda: KeyError(Untellable()), "KeyError"),
    "object": (lambda: RuntimeError(Untellable()), "RuntimeError"),
    "text": (SaysText, "SaysText"),
    "liar": (Liar, "Liar"),
    "renamed": (OfRenamed, "OfRenamed"),
    "nameless": (OfNameless, "OfNameless"),
    "long_name": (lambda: type("N" * 1_000_000, (Exception,), {})("x"), "N" * 100 + "…"),
    "recursive": (recursive, "KeyError"),
    "notes": (noted, "ValueError"),
    "chain": (lambda: chain(20), "RuntimeError"),
    "long_chain": (lambda: chain(5_000), "RuntimeError"),
    "group": (lambda: group(3, 3), "ExceptionGroup"),
    "billions": (lambda: group(30, 2), "ExceptionGroup"),
    "deep_group": (lambda: group(5_000), "ExceptionGroup"),
    "base_group": (lambda: BaseExceptionGroup("all", [KeyboardInterrupt(), Own("\0")]), "BaseExceptionGroup"),
    "exit": (lambda: SystemExit("a\0b"), "SystemExit"),
    "interrupt": (lambda: KeyboardInterrupt(Untellable()), "KeyboardInterrupt"),
    "cancelled": (lambda: asyncio.CancelledError("a\ud800b"), "CancelledError"),
    "own": (lambda: Own("a\0b"), "Own"),
    "generator_exit": (GeneratorExit, "GeneratorExit"),
    "stop_async_iteration": (lambda: StopAsyncIteration("a\0b"), "StopAsyncIteration"),
    "memory": (lambda: MemoryError("a\0b"), "MemoryError"),
    "retry_after_number": (lambda: RetryAfter(5), "RetryAfter"),  # type: ignore[arg-type]
    "retry_after_timedelta": (lambda: RetryAfter(timedelta(seconds=-5)), "RetryAfter"),
    "retry_after_nul": (lambda: RetryAfter("5\0s", "a\0b"), "RetryAfter"),
    "no_retry_object": (lambda: NoRetry(Untellable()), "NoRetry"),
    "syntax_fields": (lambda: syntax_error(filename=5, lineno="x", offset=object(), text=7), "SyntaxError"),
    "syntax_text": (lambda: syntax_error(filename="a\0b", lineno=1, offset=10**30, text="\ud800"), "SyntaxError"),
    "unicode": (lambda: UnicodeDecodeError("a\0b", b"\xff", 0, 1, "b\ud800"), "UnicodeDecodeError"),
}


def random_text(seed: int) -> str:
    chance = Random(seed)
    odd = [*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000, 64), 0xFFFE, 0x1F600, 0x10FFFF]
    return "".join(chr(chance.choice(odd)) for _ in range(chance.randrange(1, 200)))


for seed in range(10):
    ERRORS[f"random_{seed}"] = (lambda seed=seed: ValueError(random_text(seed)), "ValueError")  # type: ignore[misc]


def cycle() -> list[Any]:
    inner: list[Any] = []
    inner.append({"again": inner})
    return inner


def nested(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


# What is returned or kept as a checkpoint, and whether it can be.
VALUES: dict[str, tuple[Callable[[], Any], bool]] = {
    "nul": (lambda: {"a\0b": "c\0d"}, True),
    "control": (lambda: "".join(map(chr, range(1, 160))), True),
    "null": (lambda: {"a": None, "b": [None, 1.5]}, True),
    "ready_made": (lambda: {"a": msgspec.Raw(b'{"b": null}')}, True),
    "surrogate": (lambda: ["a\ud800b"], False),
    "surrogate_key": (lambda: {"a\ud800b": 1}, False),
    "nan": (lambda: {"a": [float("nan")]}, False),
    "infinity": (lambda: (1, float("-inf")), False),
    "cycle": (cycle, False),
    "as_deep_as_can_be": (lambda: nested(63), True),
    "too_deep": (lambda: nested(64), False),
    "nested": (lambda: nested(5_000), False),
    "object": (Untellable, False),
    "objects": (lambda: [Untellable()] * 3, False),
    "error": (Mute, False),
    "text": (lambda: Text("a"), False),
    "not_json": (lambda: msgspec.Raw(b'{"a":'), False),
    "not_utf8": (lambda: msgspec.Raw(b'"\xff"'), False),
    "raw_nan": (lambda: msgspec.Raw(b"[NaN]"), False),
    "raw_deep": (lambda: msgspec.Raw(b"[" * 10_000 + b"]" * 10_000), False),
    "decimals": (lambda: [Decimal("NaN"), Decimal("1e400")], True),
    "huge_number": (lambda: 10**400, True),
    "huger_number": (lambda: 10**5_000, False),
    "raw_infinity": (lambda: [msgspec.Raw(b"1e999")], False),
    "raw_huge": (lambda: msgspec.Raw(b"-" + b"9" * 5_000), False),
}

# What is printed and logged.
WORDS: dict[str, Callable[[], Any]] = {
    "nul": lambda: "a\0b",
    "surrogate": lambda: "a\ud800b",
    "control": lambda: "".join(map(chr, range(1, 160))),
    "megabyte": lambda: MEGABYTE,
    "text": lambda: Text("a\0b"),
    "random": lambda: random_text(99),
    "nuls": lambda: "\0" * 1_000_000,
}

# What is reported as progress, and whether it can be.
NUMBERS: dict[str, tuple[Callable[[], Any], bool]] = {
    "decimal": (lambda: Decimal("1.5"), True),
    "bool": (lambda: True, True),
    "nan": (lambda: float("nan"), False),
    "infinity": (lambda: float("inf"), False),
    "huge": (lambda: 10**400, False),
    "text": (lambda: "3\0", False),
    "megabyte": (lambda: MEGABYTE, False),
    "object": (Untellable, False),
    "cycle": (cycle, False),
    "huge_decimal": (lambda: Decimal("1e400"), False),
    "thirty_megabytes": (lambda: MEGABYTE * 30, False),
}


# What code that knows its way around says in the run's name, past `ctx`: progress, and whether it can be kept.
FORGED: dict[str, tuple[bytes, bool]] = {
    "numbers": (b'{"done":1,"total":null}', True),
    "text": (b'{"done":"3","total":1}', False),
    "megabyte": (b'{"done":"' + MEGABYTE.encode() + b'"}', False),
    "list": (b"[1,2]", False),
    "more": (b'{"done":1,"total":2,"extra":[1]}', False),
    "huge": (b'{"done":' + b"9" * 100 + b"}", False),
    "infinity": (b'{"done":1e999}', False),
}


def forged_result(result: object, cap: int) -> bytes:
    """Once in place of ours, in a process of its own."""
    child.encoded = REAL_ENCODED
    return b'"' + b"x" * 2_000_000 + b'"'


def say(ctx: Context, channel: str, what: str) -> Any:
    """What all tasks do, up to what only one kind of them can await."""
    match channel:
        case "error":
            raise ERRORS[what][0]()
        case "result":
            return VALUES[what][0]()
        case "print":
            print(WORDS[what]())
            print(WORDS[what](), file=sys.stderr)
        case "log":
            ctx.log.warning("%s", WORDS[what]())
            ctx.log.warning("%s %d", Untellable(), "no number")
        case "progress":
            ctx.progress(NUMBERS[what][0](), 3)
        case "forged":
            ctx._reports.progress(FORGED[what][0])
        case "forged_result":
            child.encoded = forged_result
            return 1
        case "forged_checkpoint":
            ctx._reports.save(b'"' + b"x" * LARGEST_CHECKPOINT + b'"')
        case "raw":
            os.write(1, b"a\0b\xff\n")
    return None


tasks = Tasks()


@tasks.task("thread")
def in_a_thread(ctx: Context, channel: str, what: str) -> Any:
    if channel == "checkpoint":
        ctx.save_checkpoint(VALUES[what][0]())
    return say(ctx, channel, what)


@tasks.task("loop")
async def in_the_loop(ctx: Context, channel: str, what: str) -> Any:
    if channel == "checkpoint":
        await ctx.save_checkpoint(VALUES[what][0]())
    return say(ctx, channel, what)


tasks.task("process", isolation="process")(in_a_thread)
tasks.task("process_async", isolation="process")(in_the_loop)


@tasks.task("neighbour")
async def neighbour(ctx: Context) -> str:
    return "as usual"
