"""A process of oncue, and what its roles (`api`, `scheduler`, `worker`, `up`) are made of. `app.py` puts them together.

- `parts.py` is what runs during a role: its engine, services, loops, worker process and server.
- `health.py` is what a role tells those who watch it: its metrics, and whether it is alive and ready.
- `started.py` is what it says once it has started.
- `systemd.py` reports to systemd.
- `tuning.py` tunes the garbage collector, and raises the limit of open files.
"""
