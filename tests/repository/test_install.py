"""What is installed: the package is found from any folder, and a wheel holds the catalogue."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from workflow import PROJECT

from anchorscope.config import shipped


def wheel_of(clone: Path, kind: str) -> zipfile.ZipFile:
    """A wheel of the package in `clone`, of the kind `wheel` or `editable`, beside it."""
    shutil.copytree(PROJECT / "anchorscope", clone / "anchorscope")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, clone)
    build = f"from setuptools import build_meta; build_meta.build_{kind}('..')"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    return zipfile.ZipFile(*clone.parent.glob("*.whl"))


def test_the_package_is_found_beside_its_clone_whose_folder_has_the_same_name(tmp_path: Path):
    clone, installed = tmp_path / "anchorscope", tmp_path / "site-packages"
    with wheel_of(clone, "editable") as wheel:
        wheel.extractall(installed)
    # Without the site-packages of these tests, from which the package could be found, too.
    load = f"import site; site.addsitedir({str(installed)!r}); "
    load += "import anchorscope; print(anchorscope.__file__)"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [sys.executable, "-S", "-c", load],
        cwd=tmp_path, env=bare, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(found.stdout.strip()) == clone / "anchorscope/__init__.py"


def test_a_wheel_holds_the_catalogue(tmp_path: Path):
    """The library is of use without a clone: in a notebook, or included by another workflow."""
    with wheel_of(tmp_path / "clone", "wheel") as wheel:
        needed = {f"anchorscope/config/{name}" for name in shipped.FILES}
        assert needed <= {*wheel.namelist()}
