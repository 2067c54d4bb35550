"""The roles: each file is one service with a `run_once`; `loop.py` runs them all."""
