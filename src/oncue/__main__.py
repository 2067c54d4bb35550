"""`python -m oncue` is the `oncue` command."""

import sys
from pathlib import Path

# `python -m` puts the current folder first: remove it, so that no file there shadows a module of Python or oncue.
if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
    del sys.path[0]

from oncue.cli.main import main

if __name__ == "__main__":
    main()
