"""`make resume`: what it leaves, and what it clears."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import resume


def test_resume_leaves_the_lock_of_a_live_run(tmp_path: Path) -> None:
    """A process that runs Snakemake in this folder owns the lock; one elsewhere does not."""
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-c", "import time; time.sleep(60)", "snakemake"]
    runs = [subprocess.Popen(command, cwd=tmp_path / part) for part in (".", "elsewhere")]
    try:
        time.sleep(0.2)
        assert [process.pid for process in resume.owners(tmp_path)] == [runs[0].pid]
        with pytest.raises(AnchorscopeError, match="still going on") as caught:
            resume.main(tmp_path, ["--version"])
        assert str(runs[0].pid) in str(caught.value)
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert not resume.owners(tmp_path)


def test_resume_clears_a_stale_lock_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "done"\n    shell: "touch done"\n')
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("done\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode != 0
    assert resume.main(tmp_path, ["--cores", "1"]) == 0
    assert (tmp_path / "done").exists()
