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
    ((apsw.BusyError, apsw.LockedError, TimeoutError), "another program has locked the file"),
    (apsw.InterruptError, "no answer in time"),
    (Moved, "the file was deleted, moved or replaced while in use: restore it, or restart oncue"),
    (apsw.FullError, "the disk is full"),
    ((apsw.ReadOnlyError, apsw.PermissionsError, PermissionError), "the file is not writable"),
    (apsw.CantOpenError, "the file cannot be opened"),
    (apsw.IOError, "the disk has a read or write error"),
    ((apsw.CorruptError, apsw.NotADBError), "the file is damaged, or is not a SQLite database"),
)


def reason(away: BaseException) -> str:
    """Return what an operator can act on."""
    return worded(away, _WORDS, "the file cannot be read or written", "SQLite says")


def refusal(error: BaseException) -> BaseException:
    """Return the error that says so, if this is one of those; else the error itself."""
    if not isinstance(error, REFUSED):
        return error
    return StoreRefused(f"SQLite cannot store this ({type(error).__name__}: {str(error)[:200]})")
