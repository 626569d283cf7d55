"""Make the lock file from an installed environment, and the conda environments from the lock file.

pip freeze --all | python -m tools.envs --lock   writes requirements.lock
python -m tools.envs                             writes envs/*.yaml from it
python -m tools.envs --check                     exits 1 if one is out of date
"""

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from anchorscope.storage.errors import AnchorscopeError

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
NOT_LOCKED = re.compile(r"anchorscope|pip|nvidia-.*|cuda-.*|triton")
"""Names left out of the lock file: anchorscope, pip, and torch's GPU packages, which differ
between machines."""

COMMON = (
    "datasets numpy pandas psutil pyarrow pydantic pyyaml scikit-learn tqdm transformers"
).split()
ENVIRONMENTS = {
    "base": (
        "questions, prompts, ΔP, tables and figures",
        [*COMMON, "altair", "vl-convert-python"],
    ),
    "gpu": ("models, answers, activations and scores", [*COMMON, "accelerate", "torch"]),
}


def lock(frozen: str) -> str:
    """Return the content of the lock file, given the output of `pip freeze --all`.

    The local part of a version (`+cpu`) is left out, since it depends on the machine.

    Raises:
        AnchorscopeError: A package has no version, for example one installed from a local folder.
    """
    lines = []
    for line in frozen.split("\n"):
        name, equals, version = line.strip().partition("==")
        if line.startswith("-e ") or NOT_LOCKED.fullmatch(canonicalize_name(name.split(" ")[0])):
            continue
        if name and not equals:
            what = "a package has no version to pin"
            raise AnchorscopeError(what, line, "install a release", see="setup")
        if name:
            lines.append(f"{name}=={version.split('+')[0]}\n")
    return "# Every version, pinned. Made by `make lock`.\n" + "".join(sorted(lines, key=str.lower))


def pins(text: str) -> dict[str, str]:
    """Return package → pinned line of the lock file."""
    lines = [line.strip() for line in text.split("\n")]
    packages = [line for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(line.partition("==")[0]): line for line in packages}


def closure(roots: Iterable[str], pinned: Mapping[str, str]) -> set[str]:
    """Return `roots` and the packages that they need, as far as the lock file pins them."""
    visited: set[tuple[str, str]] = set()  # package and extra
    waiting = [(canonicalize_name(root), "") for root in roots]
    while waiting:
        package, extra = waiting.pop()
        if (package, extra) in visited or package not in pinned:
            continue
        visited.add((package, extra))
        for requirement in _requirements(package):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                name = canonicalize_name(requirement.name)
                waiting += [(name, wanted) for wanted in ("", *requirement.extras)]
    return {package for package, _ in visited}


def _requirements(package: str) -> list[Requirement]:
    try:
        return [Requirement(text) for text in requires(package) or []]
    except PackageNotFoundError:
        what = f"the package {package} is pinned but not installed"
        raise AnchorscopeError(what, LOCK, "run `make setup`", see="setup") from None


def contents() -> dict[Path, str]:
    """Return path → the content that each environment file must have."""
    pinned = pins(LOCK.read_text(encoding="utf-8"))
    return {
        ROOT / "envs" / f"{name}.yaml": _environment(purpose, closure(roots, pinned), pinned)
        for name, (purpose, roots) in ENVIRONMENTS.items()
    }


def _environment(purpose: str, packages: Iterable[str], pinned: Mapping[str, str]) -> str:
    head = f"""\
# For {purpose}. Made from requirements.lock by `make lock`.
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python =3.11
  - pip
  - pip:
"""
    return head + "".join(f"      - {pinned[package]}\n" for package in sorted(packages))


def main(arguments: list[str]) -> int:
    """Write or check the files, and return the exit status."""
    if arguments == ["--lock"]:
        LOCK.write_text(lock(sys.stdin.read()), encoding="utf-8")
        return 0
    made = contents()
    stale = [path for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        if arguments == ["--check"]:
            print(f"{path.relative_to(ROOT)} is out of date; run: make lock")
        else:
            path.write_text(made[path], encoding="utf-8")
    return int(bool(stale) and arguments == ["--check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
