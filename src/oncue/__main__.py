"""`python -m oncue` is the `oncue` command."""

import sys
from pathlib import Path

# As with every `python -m`, the current folder came first: no file there stands for one of Python's own, or of ours.
if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())]:
    del sys.path[0]

from oncue.cli.main import main

if __name__ == "__main__":
    main()
