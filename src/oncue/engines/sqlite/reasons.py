"""Why a file cannot be used, in words for operators instead of the driver's names."""

from __future__ import annotations

import apsw

from oncue.domain.errors import StoreRefused
from oncue.engines.reasons import Kinds, worded

# The file is usable, but refuses the data: half a surrogate pair, a number out of range.
REFUSED = (apsw.TooBigError, UnicodeEncodeError, OverflowError)


class Moved(OSError):
    """The file with this name no longer exists, or is another file."""


# The first match counts.
_WORDS: tuple[tuple[Kinds, str], ...] = (
    ((apsw.BusyError, apsw.LockedError, TimeoutError), "another program has it locked"),
    (apsw.InterruptError, "no answer in time"),
    (Moved, "it was deleted, moved or replaced while it was in use: put it back, or start oncue anew"),
    (apsw.FullError, "the disk is full"),
    ((apsw.ReadOnlyError, apsw.PermissionsError, PermissionError), "it may not be written to"),
    (apsw.CantOpenError, "it cannot be opened"),
    (apsw.IOError, "the disk does not read or write"),
    ((apsw.CorruptError, apsw.NotADBError), "it is damaged, or no SQLite database"),
)


def reason(away: BaseException) -> str:
    """Return what an operator can act on."""
    return worded(away, _WORDS, "it does not read or write", "SQLite says")


def refusal(error: BaseException) -> BaseException:
    """Return the error that says so, if this is one of those; else the error itself."""
    if not isinstance(error, REFUSED):
        return error
    return StoreRefused(f"SQLite cannot keep this ({type(error).__name__}: {str(error)[:200]})")
