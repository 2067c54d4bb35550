"""The samples of docs/testing-your-tasks.md are tests that pass."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "testing-your-tasks.md"
SHOPS = Path(__file__).parent / "samples" / "shop.py", ROOT / "examples" / "fastapi_shop.py"


@pytest.mark.kills
def test_the_samples_of_the_page_pass(tmp_path: Path) -> None:
    for shop in SHOPS:
        shutil.copy(shop, tmp_path)
    settings = [block for block in blocks(PAGE, "toml") if "pytest" in block]
    (tmp_path / "pyproject.toml").write_text("\n".join(settings) or "[tool.pytest.ini_options]\n")
    (tmp_path / "test_samples.py").write_text("\n\n".join(blocks(PAGE, "python")))

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:schemathesis", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{(tmp_path / 'test_samples.py').read_text().count('def test_')} passed" in ran.stdout
