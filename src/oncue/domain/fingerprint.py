"""Tell which failures are the same: by task, type of the error, its message without what varies, and where it rose."""

from __future__ import annotations

import hashlib
import re

import msgspec

READ = 1_000  # characters of a message that count
LONGEST_SAMPLE = 500  # characters
OTHER = 0  # the group of what has no group of its own: no failure has this fingerprint

# Each takes time in proportion to the text, whatever a task raises.
_VARYING = (
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://\S+"), "<url>"),
    (re.compile(r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`"), "<text>"),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}"), "<address>"),
    (re.compile(r"(?:\b[A-Za-z]:)?(?:[\\/][\w.@~+-]+)+[\\/]?"), "<path>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?:0x[0-9a-fA-F]+|(?=[a-fA-F]*\d)[0-9a-fA-F]{8,})\b"), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)
_FRAME = re.compile(r'^  File "([^"\n]+)", line \d+, in (\S+)$', re.MULTILINE)


class Fault(msgspec.Struct, frozen=True, gc=False):
    """A failure as it is counted with others like it. The sample is the text of the error, as it is stored."""

    fingerprint: int
    task: str
    sample: str


def fault(task: str, error_type: str, error: str, frame: str | None = None) -> Fault:
    """Describe a failure. Its texts must be masked: the sample is shown for as long as its group is kept."""
    seed = "\x1f".join((task, error_type, normalised(error), frame or ""))
    digest = hashlib.blake2b(seed.encode(errors="surrogatepass"), digest_size=8).digest()
    return Fault(int.from_bytes(digest, "big", signed=True) or 1, task, error[:LONGEST_SAMPLE])


def normalised(error: str) -> str:
    """Replace what varies between two failures of one kind: numbers, ids, quoted texts, addresses and paths."""
    found = error[:READ]
    for varying, word in _VARYING:
        found = varying.sub(word, found)
    return " ".join(found.split())


def top_frame(trace: str) -> str | None:
    """Return the file and function in which an error rose, from a traceback of the task's own code. Lines may move."""
    frames = _FRAME.findall(trace)
    if not frames:
        return None
    file, function = frames[-1]
    return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{function}"


def show_fingerprint(fingerprint: int) -> str:
    return f"{fingerprint & (1 << 64) - 1:016x}"


def read_fingerprint(text: str) -> int | None:
    """None: it is none. The group of the rest has no letters of its own, and so no fingerprint to look for."""
    if re.fullmatch("[0-9a-f]{16}", text) is None:
        return None
    return int.from_bytes(bytes.fromhex(text), "big", signed=True) or None
