"""What `make setup` installs: the package is found from any folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from workflow import PROJECT


def test_the_package_is_found_beside_its_clone_whose_folder_has_the_same_name(tmp_path: Path):
    clone, installed = tmp_path / "anchorscope", tmp_path / "site-packages"
    shutil.copytree(PROJECT / "anchorscope", clone / "anchorscope")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, clone)
    build = "from setuptools import build_meta; print(build_meta.build_editable('..'))"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as wheel:
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
