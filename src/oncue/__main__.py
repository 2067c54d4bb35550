"""`python -m oncue` is the `oncue` command."""

import sys

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended


def run() -> None:
    """Run the command. Ctrl-C may come while it is imported."""
    try:
        from oncue.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


# `python -m` puts the current folder first: remove it, so that no file there shadows a module of Python or oncue.
if __name__ == "__main__":
    from pathlib import Path

    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
        del sys.path[0]
    run()
