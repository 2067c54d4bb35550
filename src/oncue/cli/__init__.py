"""The command line: `main.py` is the entrance, then one file per command group."""
