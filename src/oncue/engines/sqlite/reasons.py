"""Why a file cannot be used, in words for whoever runs oncue: not the driver's names for it."""

from __future__ import annotations

import apsw

from oncue.domain.errors import StoreRefused
from oncue.engines.reasons import Kinds, worded

# It can be used, and will not have what it was given: half a surrogate pair, a number that does not fit.
REFUSED = (apsw.TooBigError, UnicodeEncodeError, OverflowError)


class Moved(OSError):
    """There is no file of this name any more, or it is another one."""


# The first that fits.
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
    """What an operator can do something about."""
    return worded(away, _WORDS, "it does not read or write", "SQLite says")


def refusal(error: BaseException) -> BaseException:
    """The error that says so, if this is one of those; else itself."""
    if not isinstance(error, REFUSED):
        return error
    return StoreRefused(f"SQLite cannot keep this ({type(error).__name__}: {str(error)[:200]})")
