"""An app without models, for INSTALLED_APPS: with it, `manage.py check --database default` looks for oncue there."""

from django.apps import AppConfig
from django.core import checks


class OncueConfig(AppConfig):
    name = "oncue.contrib.django"
    label = "oncue"
    verbose_name = "oncue"

    def ready(self) -> None:
        from oncue.contrib.django.checks import check_databases

        checks.register(check_databases, checks.Tags.database)
