"""What every registered experiment keeps to, and the one that docs/architecture.md adds."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import documented as page
import numpy as np
import pandas as pd
import pytest
from figure_tables import caption
from handmade import drawn
from small_cell import READOUTS, SmallCell, clean_difference, prompts_of, small_cell
from workflow import SHIPPED, merged

import anchorscope.experiments
from anchorscope.cell.tables import join
from anchorscope.config.sections import Section
from anchorscope.config.settings import Bootstrap
from anchorscope.experiments import measured, registry, scored
from anchorscope.experiments.experiment import Experiment, SampledSettings
from anchorscope.experiments.products import PER_SAMPLE_COLUMNS, of_cell, per_sample
from anchorscope.experiments.scored import Cell
from anchorscope.figures.fit import PX_PER_MM, as_svg, size_of
from anchorscope.figures.view import View
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


ROWS: dict[str, pd.DataFrame] = {}


@pytest.fixture
def rows(experiment: Experiment, small: SmallCell) -> pd.DataFrame:
    """What the experiment measures of the small cell, once."""
    if experiment.name not in ROWS:
        ROWS[experiment.name] = small.rows(experiment)
    return ROWS[experiment.name]


def test_settings_come_back_from_the_config_with_their_defaults(experiment: Experiment) -> None:
    if experiment.settings is Section:
        return
    defaults = experiment.settings().model_dump(mode="json")
    config = load(merged(SHIPPED, {"experiments": {experiment.name: defaults}}))
    assert config.settings_of(experiment.name) == load(SHIPPED).settings_of(experiment.name)
    assert config.settings_of(experiment.name).model_dump(mode="json") == defaults


def test_rows_are_of_the_stored_probes_samples_at_the_read_outs_asked_for(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell
) -> None:
    assert {*measured.COLUMNS} <= {*rows}
    assert {*rows["readout"]} == {*READOUTS} and {*rows["id"]} <= {*small.probes.ids}
    names = {"clean", *(one.name for one in experiment.interventions)}
    assert {"clean"} < {*rows["condition"]} <= names
    assert not rows.duplicated(["id", "condition", "draw", "readout", "layer"]).any()


def test_a_long_experiment_may_measure_some_samples_only(
    experiment: Experiment, small: SmallCell
) -> None:
    if not issubclass(experiment.settings, SampledSettings):
        return
    prompts = prompts_of(small.answers)
    cell = Cell(
        small.loaded, small.answers, small.probes, READOUTS, small.scores.headlines, prompts=prompts
    )
    sampled = cell.sampled(10)
    assert len(sampled.samples) == 10 and {*sampled.samples} == {*cell.sampled(10).samples}
    assert {*sampled.left_out} == {*cell.samples} - {*sampled.samples}
    assert cell.sampled(None) is cell and cell.sampled(1000) is cell
    rows = experiment.measure(replace(sampled, loaded=small.eager), experiment.settings(samples=10))
    assert {*rows["id"]} == {*sampled.samples}
    counts = scored.counts(experiment.controls, small.answers, rows, sampled.left_out)
    assert counts.kept == 10 and counts.dropped == {"outside the sample": 38}
    table = of_cell(experiment, small.products(rows), BOOTSTRAP)
    assert table["n_paired"].max() <= 10 < table["n"].max()


def test_its_own_clean_score_is_the_stored_one(rows: pd.DataFrame, small: SmallCell) -> None:
    assert len(rows) and clean_difference(rows, small.scores) < 1e-4


def test_the_table_has_the_columns_that_the_record_explains(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell
) -> None:
    table = of_cell(experiment, small.products(rows), BOOTSTRAP)
    assert list(table) == list(experiment.columns) and len(table)
    assert {*(table["site"] + "/" + table["position"])} == {*READOUTS}
    assert all(meaning.strip() for meaning in experiment.columns.values())


def test_the_page_of_the_experiments_explains_every_column() -> None:
    text = (write_docs.FOLDER / "experiments.md").read_text(encoding="utf-8")
    for one in registry.EXPERIMENTS.values():
        assert f"<!-- columns: {one.package}.COLUMNS -->\n\n- " in text, "run: make docs"


def test_nothing_depends_on_the_order_of_rows(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell
) -> None:
    products = small.products(rows)
    table = of_cell(experiment, products, BOOTSTRAP)
    order = np.random.default_rng(0).permutation(len(rows))
    mixed = small.products(rows.iloc[order])
    mixed = type(mixed)(mixed.scores, mixed.answers[::-1], mixed.rows)
    pd.testing.assert_frame_equal(of_cell(experiment, mixed, BOOTSTRAP), table)


def test_a_control_with_fewer_tokens_than_the_exact_ones_never_counts(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell
) -> None:
    assert experiment.controls
    of_control = rows["condition"].isin(experiment.controls)
    few = rows.assign(n_tokens=rows["n_tokens"].mask(of_control, 1.0))
    for some, counts in ((rows, True), (few, False)):
        table = of_cell(experiment, small.products(some), BOOTSTRAP)
        values = per_sample(experiment, small.products(some))["value"]
        assert (table["n_paired"] > 0).any() == counts and values.notna().any() == counts
    notes = scored.counts(experiment.controls, small.answers, few, {}).notes
    assert sum(n for what, n in notes.items() if "fewer tokens" in what) > 0


def test_a_control_acts_on_as_many_tokens_as_what_it_controls(
    experiment: Experiment, rows: pd.DataFrame
) -> None:
    n_tokens = rows.groupby(["id", "condition"])["n_tokens"].max().unstack("condition")
    for name, other in experiment.controlled.items():
        if {name, other} <= {*n_tokens}:
            both = n_tokens[[other, name]].dropna()
            control, acted_on = both[other], both[name]
            said = f"{other} acts on as many tokens as {name}, or on all there are"
            assert (control <= acted_on).all() and (control == acted_on).mean() > 0.5, said


def test_rows_a_sample_are_those_of_the_planted_truth(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell
) -> None:
    frame = per_sample(experiment, small.products(rows))
    assert tuple(frame) == PER_SAMPLE_COLUMNS
    assert {*frame["id"]} == {*small.truth["id"]}
    assert not frame.duplicated(["id", "site", "position", "arm", "measure"]).any()
    judged = of_experiment(frame, small.answers, small.truth, draws=5)
    counted = frame[frame["value"].notna() & frame["control"].notna()]
    assert judged["n_q"].sum() + judged["n_a"].sum() == len(counted) > 0


def test_every_view_draws_from_its_own_table_as_wide_as_asked(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell, tmp_path: Path
) -> None:
    table = join([("m", "d")], [of_cell(experiment, small.products(rows), BOOTSTRAP)])
    write_csv(table, tmp_path / "table.csv")
    for view in experiment.pictures.values():
        spec = picture(view, read_csv(tmp_path / "table.csv"), width=600)
        assert view.title.split()[0] in str(spec["title"])
        assert size_of(as_svg(spec))[0] == pytest.approx(600, abs=10)
        assert "not measured" not in caption(spec).lower()


def test_an_empty_cell_gives_an_empty_table_and_a_figure_that_says_so(
    experiment: Experiment, rows: pd.DataFrame, small: SmallCell, tmp_path: Path
) -> None:
    table = of_cell(experiment, small.products(rows[:0]), BOOTSTRAP)
    assert table.empty and list(table) == list(experiment.columns)
    assert per_sample(experiment, small.products(rows[:0])).empty
    write_csv(join([("m", "d")], [table]), tmp_path / "table.csv")
    for view in experiment.pictures.values():
        spec = picture(view, read_csv(tmp_path / "table.csv"))
        assert "not measured" in caption(spec).lower()


def picture(view: View, table: pd.DataFrame, width: int = 0) -> dict[str, Any]:
    """The specification of a view, so many pixels wide; 0: as wide as its panels make it."""
    style = {"width": round(width / PX_PER_MM) or None}
    return drawn(view.chart, table, title=view.title, style=style)
