"""The roles: each file one service with a `run_once`; `loop.py` runs them all."""
