"""The pinned dependencies held against the list of known weaknesses, where there is a network.

pip-audit gets an environment of its own, `build/audit`: what a run needs does not depend on it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "audit"
LOCK = ROOT / "requirements.lock"


def main(lock: Path = LOCK, home: Path = HOME) -> int:
    """Print what is known of the pinned versions.

    Returns:
        1 where one has a known weakness, 0 where none has or nobody could be asked.
    """
    program = home / "bin" / "pip-audit"
    if not program.exists() and not _installed(home):
        return _not_run("pip-audit cannot be installed here")
    words = [str(program), "--no-deps", "--disable-pip", "--progress-spinner", "off"]
    done = subprocess.run(
        [*words, "--format", "json", "--requirement", str(lock)],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return _not_run(f"the list of known weaknesses was not reached ({last})")
    if all("skip_reason" in package for package in packages):
        return _not_run("none of the packages could be looked up")
    return _told(packages, lock)


def _installed(home: Path) -> bool:
    """Set up pip-audit; False where that does not work."""
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    steps = [
        [sys.executable, "-m", "venv", str(home)],
        [*pip, "--retries", "1", "--timeout", "10", "pip-audit"],
    ]
    return all(subprocess.run(step, check=False).returncode == 0 for step in steps)


def _not_run(why: str) -> int:
    print(f"audit NOT RUN: {why}; is there a network?", file=sys.stderr)
    return 0


def _told(packages: list[dict[str, Any]], lock: Path) -> int:
    weak = [package for package in packages if package.get("vulns")]
    for package in weak:
        for one in package["vulns"]:
            mended = ", ".join(one.get("fix_versions") or ["no version yet"])
            print(f"{package['name']} {package['version']}: {one['id']}, mended in {mended}")
    for package in packages:
        if reason := package.get("skip_reason"):
            print(f"{package['name']}: not looked up, {reason}")
    print(f"{lock.name}: {len(packages)} packages, {len(weak)} with known weaknesses")
    return int(bool(weak))


if __name__ == "__main__":
    sys.exit(main())
