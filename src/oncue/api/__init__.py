"""The REST API, a thin layer: calls in application.py, access in auth.py, errors in answers.py, output in views.py."""
