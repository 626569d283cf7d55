"""The cells with known truth, and the run that measures them."""

from pathlib import Path

import pytest
from workflow import PROJECT, Workspace, call, counted, said

from anchorscope.config.readouts import READOUTS
from anchorscope.experiments.registry import EXPERIMENTS
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import config
from validation import cells

FILES = PROJECT / "config.yaml", PROJECT / "validation/calibration.yaml"
RUN = config.read(FILES)
CELLS = cells.read(PROJECT / "validation/cells.yaml", RUN)
PLANTED, ALL = 8, 15  # one null control measures a calibration cell


def test_the_run_measures_all_read_outs_under_the_probes_of_every_run() -> None:
    plain = config.read(FILES[:1])
    assert {*RUN.readouts} == {*READOUTS} and RUN.probe == plain.probe
    assert RUN.conditions.random and RUN.conditions.random.draws == 5
    for name in type(plain.conditions).model_fields:
        assert name == "random" or getattr(RUN.conditions, name) == getattr(plain.conditions, name)
    assert RUN.root == "results/calibration" and plain.validation is None


def test_null_cells_measure_the_experiments_that_follow_the_pair_alone() -> None:
    by_cell: dict[tuple[str, str], set[str]] = {}
    for name, model, dataset in CELLS.measured:
        by_cell.setdefault((model, dataset), set()).add(name)
    assert {*by_cell} == {*CELLS.held}
    assert by_cell["calibration-llama", "world-relation"] == {*EXPERIMENTS}
    nulls = {*CELLS.null} - {*CELLS.calibrated}
    assert len(nulls) > 5 and all(by_cell[cell] == {"patching"} for cell in nulls)
    assert len(CELLS.measured) == len({*CELLS.measured})


def test_the_run_is_planned_by_the_rules_of_every_run(fresh: Workspace) -> None:
    """`fresh` may lack files; targets of the proof exist under its config alone."""
    files = "--configfile", "validation/calibration.yaml"
    names = "calibration", "calibration-experiments", "null-controls"
    planned = counted(said(call(fresh.root, fresh.environment(), "-n", *names, *files)))
    assert planned["scores"] == planned["delta_p"] == ALL and planned["truth"] == PLANTED
    assert planned["experiment_measure"] == len(CELLS.measured)
    refused = call(fresh.root, fresh.environment(), "-n", "calibration")
    assert refused.returncode == 1 and "run `make calibration`" in refused.stderr


LLAMA = "{architecture: llama, datasets: [world-search]}"


@pytest.mark.parametrize(
    ("model", "dataset", "recipe", "said"),
    [
        ("calibration-lama", "world-search", LLAMA, "did you mean `calibration-llama`"),
        ("qwen3-8b", "world-search", LLAMA, "`qwen3-8b` has no planted pathways"),
        ("calibration-llama", "nq", LLAMA, "`nq` has no planted pathways"),
        ("calibration-llama", "world-search", LLAMA.replace("world-search", "nq"), "`nq` has no"),
        ("calibration-llama", "world-search", LLAMA.replace("}", ", heads: 5}"), "5 `heads`"),
        ("calibration-llama", "world-search", "{", "cannot read the cells"),
        ("calibration-llama", "world-search", "{architecture: llama}", "`datasets` is missing"),
    ],
)
def test_a_file_of_cells_without_known_truth_is_refused(
    tmp_path: Path, model: str, dataset: str, recipe: str, said: str
) -> None:
    path = tmp_path / "cells.yaml"
    text = (
        f"models: [{model}]\ndatasets: [{dataset}]\nworlds: {{world-search: {{style: search}}}}\n"
    )
    text += f"recipes: {{calibration-llama: {recipe}}}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AnchorscopeError) as caught:
        cells.read(path, RUN)
    assert said in str(caught.value) and str(path) in str(caught.value.where)
