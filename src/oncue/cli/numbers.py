"""Numbers that options take."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range that holds numbers only: click's lets `nan` pass, since that is outside of nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a number in the range {self._describe_range()}.", param, ctx)
        return number
