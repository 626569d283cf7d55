"""Runs that are killed, cut off or damaged: a clear end, and the same tables after."""

import os
import shutil
from pathlib import Path

import pytest
from workflow import PROJECT, TOKEN, Workspace, said

from anchorscope.storage import provenance
from anchorscope.storage.files import write_json
from anchorscope.storage.records import MAKE_NUMBERS

CELL = "tiny-llama/tiny-world"
TABLE = "results/tables/tiny.csv"
CHAIN = ("answers", "activations", "scores", "delta_p", "tables")

KILL = """
import os, signal
from anchorscope.storage import partial

_save, _left = partial.save, [3]


def _killed(*given, **more):
    if not _left[0]:
        os.killpg(0, signal.SIGKILL)
    _left[0] -= 1
    _save(*given, **more)


partial.save = _killed
"""
"""Ends the whole run, Snakemake too, as its job is about to write the fourth batch."""
COUNT = """

_uncounted = save


def save(tensors, path, **notes):
    with open("saved", "a") as file:
        file.write(path.name + "\\n")
    _uncounted(tensors, path, **notes)
"""
"""Names each batch that is written from then on, in the run's folder."""


def before(finished: Workspace, root: Path, stage: str) -> Workspace:
    """A copy in which this stage comes next."""
    clone = finished.copy(root)
    for name in (*CHAIN[CHAIN.index(stage) :], "figures"):
        shutil.rmtree(clone.results / name)
    return clone


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "product"),
    [("answers", f"answers/{CELL}.parquet"), ("activations", f"activations/{CELL}")],
)
def test_a_killed_run_ends_with_the_same_tables_and_repeats_no_finished_batch(
    tiny_run, tmp_path, stage, product
):
    clone = before(tiny_run, tmp_path / "clone", stage)
    script = clone.root / f"scripts/{stage}.py"
    whole = script.read_text(encoding="utf-8")
    script.write_text(whole.replace('"""\n', f'"""\n{KILL}', 1), encoding="utf-8")
    assert clone.run(TABLE, alone=True).returncode < 0
    kept = {path.name for path in (clone.results / stage).rglob("batch-*.safetensors")}
    assert len(kept) == 3 and not (clone.results / product).exists()
    assert "Error: Directory cannot be locked." in clone.run(TABLE).stderr
    script.write_text(whole, encoding="utf-8")
    with (clone.root / "anchorscope/storage/partial.py").open("a", encoding="utf-8") as library:
        library.write(COUNT)
    said(clone.run(f"results/{product}", module="anchorscope.workflow.interrupted.resume"))
    saved = (clone.root / "saved").read_text(encoding="utf-8").split()
    assert saved and not kept & {*saved}
    clone.build(TABLE)
    made = sorted(tiny_run.results.glob("tables/tiny*.csv"))
    again = sorted(clone.results.glob("tables/tiny*.csv"))
    assert made and [p.name for p in made] == [p.name for p in again]
    assert [p.read_bytes() for p in made] == [p.read_bytes() for p in again]
    held = [path for path in clone.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in held if TOKEN.encode() in path.read_bytes()] == []


def test_a_damaged_product_is_refused_by_name(tiny_run, tmp_path):
    clone = before(tiny_run, tmp_path / "clone", "scores")
    product = f"activations/{CELL}/batch-00001.safetensors"
    path = clone.results / product
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content[: len(content) // 2])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = clone.run(TABLE)
    assert done.returncode != 0 and "anchorscope failed" not in done.stderr
    for part in ("cannot read the", product, "delete it", "#unreadable-product"):
        assert part in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("stage", "script", "change"),
    [
        ("scores", "scores.py", {"probe": {"scoring": "published"}}),
        ("delta_p", "delta_p.py", {"bootstrap": {"draws": 150}}),
    ],
)
def test_after_a_failed_job_the_same_command_remakes_its_product_and_all_later_ones(
    tiny_run, tmp_path, stage, script, change
):
    clone = tiny_run.copy(tmp_path / "clone")
    script = clone.root / "scripts" / script
    whole, times = script.read_text(encoding="utf-8"), script.stat()
    script.write_text("raise SystemExit(1)", encoding="utf-8")
    assert clone.run("tiny", change=change).returncode != 0
    script.write_text(whole, encoding="utf-8")
    os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
    planned = clone.planned("tiny", change=change)
    assert {stage, "delta_p", "table", "picture", "methods"} <= planned.keys()
    assert clone.planned("all", change=change).keys() == planned.keys()


def test_a_product_deleted_by_hand_is_made_again_but_activations_may_be_deleted(tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")
    shutil.rmtree(clone.results / "activations")
    shutil.rmtree(clone.results / "models")
    assert clone.planned("tiny") == {}
    (clone.results / TABLE.removeprefix("results/")).unlink()
    assert clone.planned("tiny").keys() == {"table", "picture", "methods"}
    (clone.results / f"scores/{CELL}.safetensors").unlink()
    assert {"activations", "scores", "table"} <= clone.planned("tiny").keys()


@pytest.mark.parametrize("name", ["claims", "crossing"])
def test_every_table_of_a_figure_is_made_again_after_it_was_deleted(name, tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")
    (clone.results / f"tables/tiny.{name}.csv").unlink()
    assert {"table", "picture"} <= clone.planned("tiny").keys()


def test_a_run_says_why_copied_results_are_made_again_and_touch_keeps_them(tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")
    shutil.rmtree(clone.root / ".snakemake")
    (clone.results / f"prompts/{CELL}.parquet").touch()
    made = clone.planned("tiny")
    assert {"answers", "table"} <= made.keys()
    stopped = clone.run("tiny", "--until", "answers")
    assert stopped.stderr.count("#copied-results") == 1 and "`--touch`" in stopped.stderr
    said(clone.run("tiny", "--touch"))
    assert clone.planned("tiny") == {}


def test_products_of_an_older_method_are_made_again(tiny_run, tmp_path):
    clone = tiny_run.copy(tmp_path / "clone")
    rules = clone.root / "rules/scores.smk"
    files = [*rules.parent.glob("*.smk"), PROJECT / "validation/rules.smk"]
    every = "".join(path.read_text(encoding="utf-8") for path in files)
    for rule in (*MAKE_NUMBERS, "table", "experiment_table", "detection_cell", "detector"):
        _, _, after = every.partition(f"\nrule {rule}:\n")
        assert "method=METHOD," in after.partition("\nrule ")[0]
    text = rules.read_text(encoding="utf-8")
    rules.write_text(text.replace("method=METHOD", "method=0"), encoding="utf-8")
    planned = clone.planned("tiny").keys()
    assert {"scores", "delta_p", "table", "picture"} <= planned
    assert not planned & {"dataset", "answers", "activations"}


OTHERWISE = {
    "--forcerun activations dataset delta_p prompts scores`": {"seed": 1},
    "--forcerun scores`": {"probe": {"scoring": "published"}},
    "--forcerun answers`": {"no_answer": "wrong"},
    "--forcerun delta_p table`": {"bootstrap": {"draws": 150, "level": 0.9}},
    "--forcerun model`": {"models": {"tiny-llama": {"parts": {"blocks": "layers"}}}},
    "--forcerun table`": {"most_dropped": 0.005},
}
"""Part of the error message → settings that do not fit the products of the tiny run."""


def test_products_that_do_not_fit_the_config_are_refused_if_snakemake_finds_nothing_to_do(
    tiny_run, tmp_path
):
    clone = tiny_run.copy(tmp_path / "clone")
    questions = clone.results / "data/tiny-world.parquet"
    lost = {"counts": {"in": 113, "kept": 112, "dropped": {"no answers": 1}}}
    write_json(provenance.read(questions) | lost, provenance.beside(questions))
    by_time = ("tiny", "--rerun-triggers", "mtime", "--quiet", "all")
    for says, change in OTHERWISE.items():
        done = clone.run(*by_time, change=change)
        assert done.returncode == 1 and says in done.stderr, done.stderr
    assert clone.run("-n", *by_time, change=change).returncode == 1
    said(clone.run(*by_time))


def test_products_of_other_settings_are_not_touched_and_a_touched_run_is_done_again(
    tiny_run, tmp_path
):
    clone, change = tiny_run.copy(tmp_path / "clone"), {"bootstrap": {"draws": 150}}
    before = (clone.root / TABLE).read_bytes()
    touched = clone.run("tiny", "--touch", change=change)
    assert touched.returncode == 1 and "--forcerun delta_p" in touched.stderr
    said(clone.run("tiny", "--touch"))
    by_time = ("tiny", "--rerun-triggers", "mtime", "--forcerun", "delta_p")
    said(clone.run(*by_time, change=change))
    assert (clone.root / TABLE).read_bytes() != before
    assert clone.planned("tiny", change=change) == {}


def test_products_of_other_settings_are_refused_if_snakemakes_own_records_are_missing(
    tiny_run, tmp_path
):
    clone = tiny_run.copy(tmp_path / "clone")
    shutil.rmtree(clone.root / ".snakemake")
    (clone.results / "figures/tiny.methods.md").unlink()
    done = clone.run("tiny", change={"probe": {"scoring": "published"}})
    assert done.returncode != 0 and not (clone.results / "figures/tiny.methods.md").exists()
    for part in (f"scores/{CELL}.safetensors", "other settings", "#stale-product"):
        assert part in done.stderr
    clone.build("tiny")
    assert (clone.results / "figures/tiny.methods.md").exists()
