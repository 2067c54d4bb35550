"""PostgreSQL 15 and later: many API, scheduler and worker processes on many machines."""
