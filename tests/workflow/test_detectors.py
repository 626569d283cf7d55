"""The target `detectors`: a folder for each cell, and every sample of a figure in a table."""

import numpy as np
import pytest

from anchorscope import Detector
from anchorscope.models import loading
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_parquet

FOLDER = "detectors/tiny-llama/tiny-world/probe"


@pytest.fixture(scope="module")
def built(tiny_run, tmp_path_factory):
    """A finished run with its detector and its table of samples."""
    clone = tiny_run.copy(tmp_path_factory.mktemp("detectors") / "clone")
    assert clone.planned("detectors") == {"detector": 1, "samples": 1}
    clone.build("detectors")
    return clone


def test_a_cells_detector_scores_like_its_figure(built):
    detector = Detector.load(built.results / FOLDER)
    samples = read_csv(built.results / "tables/tiny.samples.csv").set_index("id")
    record = provenance.read(built.results / FOLDER)
    assert record["counts"]["kept"] == detector.n == len(samples) and record["rule"] == "detector"
    assert (samples["layer"] == detector.layer).all()
    loaded = loading.load(built.root / detector.origin.model)
    answers = read_parquet(built.results / "answers/tiny-llama/tiny-world.parquet")
    rows = answers.assign(response=answers["answer"])[["id", "question", "response"]]
    found = detector.score(loaded.model, loaded.tokenizer, rows).set_index("id").loc[samples.index]
    assert np.corrcoef(found["p_balanced"], samples["p"])[0, 1] > 0.9
    assert built.planned("detectors") == {}
