"""The target `detectors`: a folder for each cell, and every sample of a figure in a table."""

import json

import pandas as pd
import pytest

from anchorscope import Detector
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


def test_a_cells_detector_states_what_the_tables_state(built):
    detector = Detector.load(built.results / FOLDER)
    table = read_csv(built.results / "tables/tiny.claims.csv")
    head = table[(table["claim"] == "signal") & (table["position"] == "final")].iloc[0]
    assert detector.report["n"] == head["n"]
    record = provenance.read(built.results / FOLDER)
    assert record["counts"]["kept"] == head["n"] and record["rule"] == "detector"
    config = json.loads((built.results / FOLDER / "config.json").read_text())
    assert config["binding"]["style"] == "plain"
    assert (built.root / config["model"]["name"] / "config.json").is_file()


def test_samples_hold_what_the_curve_averages(built):
    table = read_csv(built.results / "tables/tiny.samples.csv")
    curve = read_csv(built.results / "tables/tiny.csv")
    key = {"site": "mlp", "position": "final", "condition": "knockout", "grouping": "per_layer"}
    rows = curve[curve[list(key)].eq(pd.Series(key)).all(axis=1)].set_index(["anchor", "layer"])
    layer = table["layer"].iloc[0]
    assert (table["layer"] == layer).all()
    for anchor, part in table.groupby("group"):
        assert len(part) == rows["n"][anchor, layer]
        assert part["delta_p"].mean() == pytest.approx(rows["delta_p"][anchor, layer], abs=1e-3)
    answers = read_parquet(built.results / "answers/tiny-llama/tiny-world.parquet")
    labels = answers.set_index("id")["label"]
    assert (labels[table["id"]].to_numpy() == table["label"]).all()
    assert built.planned("detectors") == {}
