"""Builds the dashboard whenever oncue is packed or installed from its sources, also as an editable install."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _build_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_dashboard", Path(__file__).with_name("build.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DashboardHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """Name what pip has to install before a build: Node, if it is needed and missing."""
        build = _build_file()
        return [] if build.is_skipped() or build.is_current() or build.has_node() else [build.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build = _build_file()
        if not build.is_skipped() and not build.is_current():
            build.build()
