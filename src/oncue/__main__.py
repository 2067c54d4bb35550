"""`python -m oncue` is the `oncue` command."""

import errno
import os
import sys

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def run() -> None:
    """Run the command. Ctrl-C may come while it is imported."""
    _open_closed()
    try:
        from oncue.cli.main import main

        try:
            main()
        finally:
            sys.stdout.flush()  # a full disk is noticed here, not when Python ends
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as no:
        if no.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else what is buffered fails again when Python ends
        sys.exit(f"cannot write the output: {no.strerror}")


def _open_closed() -> None:
    """Open what the caller closed (`>&-`): else there is nothing to write to, and a file of ours gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "w" if number else "r"))  # noqa: PTH123, SIM115  # for as long as we run


# `python -m` puts the current folder first: remove it, so that no file there shadows a module of Python or oncue.
if __name__ == "__main__":
    from pathlib import Path

    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]
    run()
