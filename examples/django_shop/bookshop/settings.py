"""A shop on PostgreSQL, where oncue has a schema of its own. docs/django.md says how to start it."""

import os
from urllib.parse import unquote, urlsplit

import django

_database = urlsplit(os.environ.get("DATABASE_URL", "postgresql://127.0.0.1/shop"))

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path.strip("/"),
        "HOST": _database.hostname,
        "PORT": _database.port or 5432,
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
    }
}

TASKS = {
    "default": {
        "BACKEND": "oncue.contrib.django.OncueBackend",
        "QUEUES": ["default", "mail"],
    }
}

INSTALLED_APPS = ["oncue.contrib.django", "bookshop"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "bookshop.urls"
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
SECRET_KEY = os.environ.get("SECRET_KEY", "only-for-this-example")
USE_TZ = True
