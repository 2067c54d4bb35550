"""The REST API, thin: calls in application.py, who may in auth.py, errors in problems.py, what is shown in views.py."""
