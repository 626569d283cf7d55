"""After a crash: clear Snakemake's lock if no live process owns it, then go on.

The lock itself does not say who made it, so owners are looked for among the processes of this
machine: any Snakemake, or job of one, that works in the same folder.
"""

import subprocess
import sys
from pathlib import Path

import psutil

from anchorscope.errors import AnchorscopeError


def owners(folder: Path) -> list[int]:
    """Ids of the live processes that run Snakemake or one of its jobs in `folder`."""
    found = []
    ours = {process.pid for process in [psutil.Process(), *psutil.Process().parents()]}
    for process in psutil.process_iter():
        try:
            if process.pid not in ours and _runs_snakemake(process) and _works_in(process, folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return sorted(found)


def _runs_snakemake(process: psutil.Process) -> bool:
    words = process.cmdline()
    return process.status() != psutil.STATUS_ZOMBIE and (
        any(Path(word).name == "snakemake" for word in words)
        or any("/.snakemake/scripts/" in word for word in words)
    )


def _works_in(process: psutil.Process, folder: Path) -> bool:
    return Path(process.cwd()).resolve() == folder.resolve()


def main(folder: Path, arguments: list[str]) -> int:
    """Unlock `folder` and run Snakemake there.

    Raises:
        AnchorscopeError: a run is still going on.
    """
    alive = owners(folder)
    if alive:
        raise AnchorscopeError(
            "a run is still going on here, so its lock stays",
            f"{folder}, process {', '.join(map(str, alive))}",
            "wait for it, or stop it, then run `make resume` again",
        )
    command = [sys.executable, "-m", "snakemake", *(arguments or ["--cores", "all"])]
    subprocess.run([*command, "--unlock"], cwd=folder, check=True)
    return subprocess.run([*command, "--rerun-incomplete"], cwd=folder).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(Path.cwd(), sys.argv[1:]))
    except AnchorscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
