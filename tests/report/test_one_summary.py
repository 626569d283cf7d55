"""All texts about a cell give the same numbers of how well its probe detects."""

from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from own_rows import SETTINGS, rows
from workflow import Workspace

import anchorscope
from anchorscope.cell import summary
from anchorscope.claims import CLAIMS, keys
from anchorscope.config.shipped import complete
from anchorscope.detectors import card
from anchorscope.experiments.registry import RunConfig
from anchorscope.passes import activations
from anchorscope.report import cell_summary, methods, report
from anchorscope.statements import detection
from anchorscope.statistics.analysis import analyses
from anchorscope.statistics.intervals import auc
from anchorscope.statistics.scores import Scores
from anchorscope.storage.files import read_csv, read_parquet

CELL = ("tiny-llama", "tiny-world")


@pytest.fixture(scope="module")
def config(tiny_run: Workspace) -> RunConfig:
    return RunConfig.model_validate(
        complete(tiny_run.catalogue() | {"results": str(tiny_run.results)})
    )


@pytest.fixture(scope="module")
def table(config: RunConfig) -> pd.DataFrame:
    return read_csv(Path(config.root, "delta_p", CELL[0], f"{CELL[1]}.summary.csv"))


def tells(told: dict[str, str], text: str) -> None:
    """Check that a text holds all numbers of a summary in words, in their order."""
    at = 0
    for number in told.values():
        at = text.index(number, at) + len(number)


def test_methods_report_show_and_detector_tell_the_row_of_the_table(
    config: RunConfig, table: pd.DataFrame
) -> None:
    told = detection(table.query("position == 'final'").to_dict("records")[0])
    assert "not measured" not in told.values() and len({*told.values()}) > 5
    tells(told, methods.text(config, config.targets[0]))
    tells(told, unescape(report.build(config)).partition('id="detection"')[2])
    tells(told, cell_summary.text(cell_summary.summary(config, *CELL)))
    assert detection(card.numbers(table, "mlp/final")) == told


def test_measure_tells_the_same_in_its_summary_its_methods_and_its_detector(load: Any) -> None:
    model, read = load("llama"), ["mlp/final", "mlp/prompt_end"]
    found = anchorscope.measure(model.model, model.tokenizer, rows(), readouts=read, **SETTINGS)
    told = detection(found.summary.to_dict("records")[0])
    for text in (found.methods(), found._detection["mlp/final"].str.cat(sep="\n")):
        tells(told, text)
    assert detection(found.detector().table) == told


def test_its_numbers_are_those_of_the_claims_and_of_the_scores_at_the_layers_of_the_folds(
    config: RunConfig, table: pd.DataFrame
) -> None:
    root, (model, dataset) = Path(config.root), CELL
    claims = read_csv(root / f"delta_p/{model}/{dataset}.claims.csv")
    claims = claims.assign(key=keys(claims)).set_index(["position", "key"])
    answers = read_parquet(root / f"answers/{model}/{dataset}.parquet")
    answers = activations.measured(answers, root / f"activations/{model}/{dataset}")
    scored = Scores.read(root / f"scores/{model}/{dataset}.safetensors")
    for one, row in zip(analyses(scored, answers), table.to_dict("records"), strict=True):
        assert row["position"] == one.readout.position
        assert row["auc"] == pytest.approx(auc(one.readout.own, one.z), abs=1e-6)
        rank = -one.answers["logprob_clean"].to_numpy()
        assert row["token_auc"] == pytest.approx(auc(rank, one.z), abs=1e-6)
        assert (row["right"], row["wrong"]) == ((one.z == 0).sum(), one.z.sum())
        for key, column in (("signal", "text_gain"), ("answer_adds", "prompt_end_gain")):
            claim = claims.loc[(row["position"], key)]
            assert row[key] == claim["verdict"] and CLAIMS[key].unit == "samples"
            if claim["verdict"] in ("yes", "no"):
                wanted = claim[["estimate", "ci_low", "ci_high"]].to_numpy(dtype=float)
                ends = [row[f"{column}{end}"] for end in ("", "_low", "_high")]
                assert ends == pytest.approx(wanted, abs=1e-6)
        if row["position"] == "final":
            gain = row["auc"] - max(0.5, row["prompt_end_auc"])
            assert row["prompt_end_gain"] == pytest.approx(gain, abs=2e-6)
            gain = row["auc"] - max(0.5, row["text_auc"])
            assert row["text_gain"] == pytest.approx(min(gain, row["auc"] - 0.6), abs=2e-6)


def test_right_answers_that_are_needed_shrink_with_those_that_are_there() -> None:
    balanced = [summary.right_needed(n, n) for n in (100, 400, 800, 2000)]
    assert balanced == sorted(balanced, reverse=True) and balanced[0] > 300 and balanced[-1] == 0
    assert summary.right_needed(100, 200) < summary.right_needed(100, 100)


def test_answers_whose_probability_was_not_measured_have_no_auc_of_it() -> None:
    assert np.isnan(summary.improbable(pd.DataFrame({"id": ["a", "b"]}))).all()
