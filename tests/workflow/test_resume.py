"""`make resume`: what it leaves, what it clears, and what it takes over."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

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
        assert resume.owners(tmp_path) == [runs[0].pid]
        with pytest.raises(AnchorscopeError, match="still going on") as caught:
            resume.main(tmp_path, ["--version"])
        assert str(runs[0].pid) in str(caught.value)
    finally:
        for run in runs:
            run.kill()
            run.wait()
    assert resume.owners(tmp_path) == []


def test_resume_clears_a_stale_lock_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "done"\n    shell: "touch done"\n')
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("done\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode != 0
    assert resume.main(tmp_path, ["--cores", "1"]) == 0
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("deep", ["cell", "a-long-name-" * 15])
def test_resume_takes_over_what_a_job_finished_after_its_snakemake_had_died(
    tmp_path: Path, deep: str
) -> None:
    """Snakemake would delete it before it ran the job again."""
    from snakemake.persistence.file import FilePersistence

    name = f"results/activations/{deep}"
    product, other = tmp_path / name, tmp_path / "results/activations/finished"
    waits = f"results/.partial/activations/{deep}/fit"
    for folder in (product, other):
        folder.mkdir(parents=True)
        (folder / "batch-00000.safetensors").write_bytes(b"x")
        record = {"waits": waits if folder == product else "nowhere"}
        folder.with_name(f"{folder.name}.provenance.json").write_text(json.dumps(record))
    marks = tmp_path / ".snakemake" / "incomplete"
    for marked in (name, "results/scores/cell.parquet"):
        limits = SimpleNamespace(_fetch_max_len=lambda _: 255)
        path = Path(FilePersistence._record_path(limits, str(marks), marked))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (marks / "migration_underway").touch()
    assert resume.give_back(tmp_path) == [name]
    assert (tmp_path / waits / "batch-00000.safetensors").exists()
    assert not product.exists() and other.exists()
    assert resume.give_back(tmp_path) == []
