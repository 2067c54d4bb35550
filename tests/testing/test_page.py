"""The samples of docs/testing-your-tasks.md are tests that pass."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "testing-your-tasks.md"
SHOPS = Path(__file__).parent / "samples" / "shop.py", ROOT / "examples" / "fastapi_shop.py"

WITHOUT_A_FIXTURE = """
def test_a_test_that_names_no_fixture_reaches_no_server() -> None:
    asyncio.run(sign_up(user=8))
    charge.sync.enqueue(order=8)
"""


@pytest.mark.kills
def test_the_samples_of_the_page_pass(tmp_path: Path) -> None:
    for shop in SHOPS:
        shutil.copy(shop, tmp_path)
    settings = [block for block in blocks(PAGE, "toml") if "pytest" in block]
    (tmp_path / "pyproject.toml").write_text("\n".join(settings) or "[tool.pytest.ini_options]\n")
    samples = blocks(PAGE, "python")
    [conftest] = [block for block in samples if block.startswith("# conftest.py")]
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_samples.py").write_text(
        "\n\n".join([*(one for one in samples if one != conftest), WITHOUT_A_FIXTURE])
    )

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
