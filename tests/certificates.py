"""A certificate for tests of TLS."""

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(name: str, folder: Path) -> Path:
    """Return a file with a certificate for this name alone, signed by itself, and its key."""
    if not (openssl := shutil.which("openssl")):
        pytest.skip("there is no openssl to make a certificate with")
    file, key = folder / "both.pem", folder / "key.pem"
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    named = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([openssl, *made, *named, "-keyout", key, "-out", file], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file
