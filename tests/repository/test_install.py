"""Test that an installed wheel holds the catalogue."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from workflow import PROJECT

from anchorscope.config import shipped


def test_a_wheel_holds_the_catalogue(tmp_path: Path):
    """The library is of use without a clone: in a notebook, or included by another workflow."""
    clone = tmp_path / "clone"
    shutil.copytree(PROJECT / "anchorscope", clone / "anchorscope")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, clone)
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as wheel:
        needed = {f"anchorscope/config/{name}" for name in shipped.FILES}
        assert needed <= {*wheel.namelist()}
