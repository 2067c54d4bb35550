"""Where state lives. `port.py` is the contract, `open.py` turns a URL into an engine; each engine is a folder."""
