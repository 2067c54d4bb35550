"""Every body and answer of the API, each declared once, here. The server checks, shows and describes them by these
structs, the client decodes into them, the command line and the tables of docs/api.md list their fields.

Unknown fields are ignored; statuses and the like stay text, so that a client keeps an unknown value as it came. Times
are aware datetimes. The text below a field is its description in docs/api.md. Nothing else of oncue is imported here: a
client alone needs no more than msgspec.
"""
