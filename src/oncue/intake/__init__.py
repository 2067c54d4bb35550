"""What a job may be, and how one is created: one reading for all that take in jobs.

The API reads requests, the outbox rows of a table, and each hands over the same values: the fields of a job as JSON
values, and the author, a user with a role. Nothing here knows of HTTP.
"""
