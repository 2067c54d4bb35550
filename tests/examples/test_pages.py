"""What the pages tell a reader to type works, and what they list is what there is."""

import ast
import inspect
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.examples.server import PATIENCE, ROOT, Up

from oncue.cli.up import command as up
from oncue.domain.instants import Duration, show_duration
from oncue.settings import Settings

# What the last commands show, sooner or later: the run may still be going when the first look comes.
TYPED = {"README.md": '"result":"Hello, you!"', "examples/README.md": '"status":"cancelled"'}


@pytest.mark.skipif(shutil.which("curl") is None, reason="the pages use curl")
@pytest.mark.parametrize(("page", "seen"), TYPED.items())
def test_commands_of_a_page_can_be_typed_as_they_are(oncue: Up, tmp_path: Path, page: str, seen: str) -> None:
    [block] = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    here = {"http://127.0.0.1:8470": oncue.address, ".oncue/admin.key": str(oncue.key_file)}
    for written, meant in here.items():
        assert written in block
        block = block.replace(written, meant)
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    before, making, looking = block.strip().split("\n\n")
    script = f"{before}\n{making}\nuntil {{\n{looking}\n}} > seen.txt; grep -qF '{seen}' seen.txt; do :; done"
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, check=True, timeout=PATIENCE)


class TestRunning:
    def test_the_page_has_every_setting_as_the_code_has_it(self) -> None:
        page = (ROOT / "docs" / "running.md").read_text()

        assert settings_table() in page, f"put this into docs/running.md:\n\n{settings_table()}"


def settings_table() -> str:
    options = {option.name: option.opts[0] for option in up.params}
    rows = [
        f"| `{name}` | {default_of(name)} | {f'`{options[name]}`' if name in options else ''} | {meaning} |"
        for name, meaning in meanings().items()
    ]
    return "\n".join(["| setting | default | option | |", "|---|---|---|---|", *rows])


def meanings() -> dict[str, str]:
    """The words below each setting."""
    [body] = [node.body for node in ast.walk(ast.parse(inspect.getsource(Settings))) if isinstance(node, ast.ClassDef)]
    words = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                words[name] = said
    assert tuple(words) == Settings.__struct_fields__
    return words


def default_of(name: str) -> str:
    value = getattr(Settings(), name)
    if get_type_hints(Settings)[name] is Duration:
        return show_duration(value)
    match value:
        case bool():
            return "on" if value else "off"
        case int():
            return f"{value:,}"
        case tuple():
            return ", ".join(f"`{one}`" for one in value)
        case _:
            return f"`{value}`" if value else ""
