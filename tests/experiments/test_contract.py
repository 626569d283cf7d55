"""What every registered experiment keeps to, and the one that docs/architecture.md adds."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import documented as page
import numpy as np
import pandas as pd
import pytest
from figure_tables import caption
from handmade import drawn
from small_cell import READOUTS, SmallCell, clean_difference, small_cell
from workflow import SHIPPED, merged

import anchorscope.experiments
from anchorscope.cell.tables import join
from anchorscope.config.sections import Section
from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import registry
from anchorscope.experiments.experiment import Experiment, SampledSettings
from anchorscope.experiments.measured import PER_SAMPLE, Measurements, of_cell, per_sample
from anchorscope.figures.fit import PX_PER_MM, as_svg, size_of
from anchorscope.figures.view import View
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.workflow.config import load
from tools import write_docs
from validation.experiments import of_experiment

NAMES = [*registry.EXPERIMENTS, page.NAME]
BOOTSTRAP = Bootstrap(draws=20, min_n=1, min_clusters=1)


@pytest.fixture(scope="session")
def small(load: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> SmallCell:
    return small_cell(load("llama"), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiment]:
    """The experiment of the page, in a folder from which it can be imported."""
    folder = tmp_path_factory.mktemp("experiments")
    page.write(folder)
    package = anchorscope.experiments.__path__
    package.append(str(folder))
    yield importlib.import_module(f"anchorscope.experiments.{page.NAME}").EXPERIMENT
    package.remove(str(folder))


@pytest.fixture(params=NAMES)
def experiment(request: pytest.FixtureRequest, documented: Experiment) -> Experiment:
    return documented if request.param == page.NAME else registry.EXPERIMENTS[request.param]


MEASURED: dict[str, Measurements] = {}


@pytest.fixture
def measured(experiment: Experiment, small: SmallCell) -> Measurements:
    """What the experiment measures of the small cell, once."""
    if experiment.name not in MEASURED:
        MEASURED[experiment.name] = small.measured(experiment)
    return MEASURED[experiment.name]


def table_of(
    experiment: Experiment, measured: Measurements, small: SmallCell, **changes: Any
) -> pd.DataFrame:
    """The experiment's table of the small cell."""
    answers = small.answers.assign(**changes)
    return of_cell(experiment, measured, small.scores, answers, BOOTSTRAP)


def test_settings_come_back_from_the_config_with_their_defaults(experiment: Experiment) -> None:
    if experiment.settings is Section:
        return
    defaults = experiment.settings().model_dump(mode="json")
    config = load(merged(SHIPPED, {"experiments": {experiment.name: defaults}}))
    assert config.settings_of(experiment.name) == load(SHIPPED).settings_of(experiment.name)
    assert config.settings_of(experiment.name).model_dump(mode="json") == defaults


def test_arrays_are_in_the_order_of_the_scores_and_come_back_from_their_file(
    measured: Measurements, small: SmallCell, tmp_path: Path
) -> None:
    assert measured.ids.tolist() == small.scores.ids.tolist() == sorted(small.answers["id"])
    for readout in READOUTS:
        (clean,) = measured.at(readout)["clean"]
        assert clean.shape == small.scores.readout(readout).clean.shape
    measured.write(tmp_path / "measured.safetensors")
    read = Measurements.read(tmp_path / "measured.safetensors")
    assert read.ids.tolist() == measured.ids.tolist()
    assert read.arrays.keys() == measured.arrays.keys()
    for name, array in measured.arrays.items():
        assert read.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(read.arrays[name], array)


def test_a_long_experiment_may_measure_some_samples_only(
    experiment: Experiment, small: SmallCell
) -> None:
    if not issubclass(experiment.settings, SampledSettings):
        return
    cell = small.cell(loaded=small.eager)
    sampled = cell.sampled(10)
    assert len(sampled.samples) == 10 and {*sampled.samples} == {*cell.sampled(10).samples}
    assert cell.sampled(None) is cell and cell.sampled(1000) is cell
    found = experiment.module("measure").measure(sampled, experiment.settings(samples=10))
    (clean,) = found.at(READOUTS[0])["clean"]
    assert {*found.ids[~np.isnan(clean).any(0)]} == {*sampled.samples}
    counts = sampled.counts(found)
    assert counts.kept == 10 and counts.dropped == {"outside the sample": 38}
    table = table_of(experiment, found, small)
    assert table["n_paired"].max() <= 10 < table["n"].max()


def test_its_own_clean_score_is_the_stored_one(measured: Measurements, small: SmallCell) -> None:
    assert clean_difference(measured, small.scores) < 1e-4


def test_the_table_has_the_columns_that_the_record_explains(
    experiment: Experiment, measured: Measurements, small: SmallCell
) -> None:
    table = table_of(experiment, measured, small)
    assert list(table) == list(experiment.columns) and len(table)
    assert {*(table["site"] + "/" + table["position"])} == {*READOUTS}
    assert all(meaning.strip() for meaning in experiment.columns.values())


def test_the_page_of_the_experiments_explains_every_column() -> None:
    text = (write_docs.FOLDER / "experiments.md").read_text(encoding="utf-8")
    for one in registry.EXPERIMENTS.values():
        assert f"<!-- columns: {one.package}.COLUMNS -->\n\n- " in text, "run: make docs"


def test_nothing_depends_on_the_order_of_the_answers(
    experiment: Experiment, measured: Measurements, small: SmallCell
) -> None:
    table = table_of(experiment, measured, small)
    mixed = of_cell(experiment, measured, small.scores, small.answers[::-1], BOOTSTRAP)
    pd.testing.assert_frame_equal(mixed, table)


def test_measurements_of_other_samples_than_the_scores_are_refused(
    experiment: Experiment, measured: Measurements, small: SmallCell
) -> None:
    other = Measurements(measured.ids[::-1], measured.arrays)
    with pytest.raises(AnchorscopeError, match="do not match"):
        table_of(experiment, other, small)


def test_a_control_with_fewer_tokens_than_the_exact_ones_never_counts(
    experiment: Experiment, measured: Measurements, small: SmallCell
) -> None:
    if experiment.name == "answer-only":  # its control blocks the whole question
        return
    few = {"question_tokens": small.answers["eq_tokens"]}
    for changes, counts in (({}, True), (few, False)):
        table = table_of(experiment, measured, small, **changes)
        answers = small.answers.assign(**changes)
        values = per_sample(experiment, measured, small.scores, answers)["value"]
        assert (table["n_paired"] > 0).any() == counts and values.notna().any() == counts


def test_rows_a_sample_are_those_of_the_planted_truth(
    experiment: Experiment, measured: Measurements, small: SmallCell
) -> None:
    frame = per_sample(experiment, measured, small.scores, small.answers)
    assert tuple(frame) == PER_SAMPLE
    assert {*frame["id"]} == {*small.truth["id"]}
    assert not frame.duplicated(["id", "site", "position", "arm", "measure"]).any()
    judged = of_experiment(frame, small.answers, small.truth, draws=5)
    counted = frame[frame["value"].notna() & frame["control"].notna()]
    assert judged["n_q"].sum() + judged["n_a"].sum() == len(counted) > 0


def test_every_view_draws_from_its_own_table_as_wide_as_asked(
    experiment: Experiment, measured: Measurements, small: SmallCell, tmp_path: Path
) -> None:
    table = join([("m", "d")], [table_of(experiment, measured, small)])
    write_csv(table, tmp_path / "table.csv")
    for view in experiment.pictures.values():
        spec = picture(view, read_csv(tmp_path / "table.csv"), width=600)
        assert view.title.split()[0] in str(spec["title"])
        assert size_of(as_svg(spec))[0] == pytest.approx(600, abs=10)
        assert "not measured" not in caption(spec).lower()


def test_an_empty_cell_gives_an_empty_table_and_a_figure_that_says_so(
    experiment: Experiment, small: SmallCell, tmp_path: Path
) -> None:
    nothing = Measurements(small.scores.ids)
    table = table_of(experiment, nothing, small)
    assert table.empty and list(table) == list(experiment.columns)
    assert per_sample(experiment, nothing, small.scores, small.answers).empty
    write_csv(join([("m", "d")], [table]), tmp_path / "table.csv")
    for view in experiment.pictures.values():
        spec = picture(view, read_csv(tmp_path / "table.csv"))
        assert "not measured" in caption(spec).lower()


def picture(view: View, table: pd.DataFrame, width: int = 0) -> dict[str, Any]:
    """The specification of a view, so many pixels wide; 0: as wide as its panels make it."""
    style = {"width": round(width / PX_PER_MM) or None}
    return drawn(view.chart, table, title=view.title, style=style)
