"""Bring jobs to oncue from an outbox in an application's own database, which oncue's tables are not in.

The application writes rows in its transactions (`oncue.enqueue`), a relay creates a job for each by the API, with the
row's own idempotency key, and deletes the row after the answer. Killed in between it sends the row again, and the
server answers with the same job. Nothing of oncue's server is imported.
"""
