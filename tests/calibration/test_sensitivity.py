"""Sensitivity: which variants a config has, and what the table makes of them."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from workflow import SHIPPED

from anchorscope.calibration import sensitivity
from anchorscope.experiments.knockout import cell_tables
from anchorscope.experiments.knockout.contrasts import PUBLISHED
from anchorscope.probes import floors, scores
from anchorscope.probes.bands import Draws
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.config import load

CONFIG = load(SHIPPED).model_dump()
NAMES = (
    "penalty-0.1", "penalty-10", "prior-natural", "scoring-published", "disjoint-subject-answer",
    "anchors-subject", "finder-offline",
)  # fmt: skip


def test_every_variant_of_the_shipped_config_changes_one_key_and_says_so() -> None:
    found = sensitivity.variants(CONFIG)
    assert tuple(found) == NAMES
    for name, overrides in found.items():
        ((section, value),) = overrides.items()
        assert value != CONFIG[section] and sensitivity.WORDS[name]
        assert not isinstance(value, dict) or len(value) == 1
    assert found["penalty-0.1"] == {"probe": {"penalty": 0.1}}
    assert sensitivity.WORDS["finder-offline"] == "question anchors found by offline"


def test_what_a_config_has_already_is_no_variant_and_what_it_left_is_one() -> None:
    found = sensitivity.variants(CONFIG | {"anchors": "subject", "finder": "offline"})
    assert found["anchors-subject-property"] == {"anchors": "subject+property"}
    assert found["finder-metadata"] == {"finder": "metadata"}
    assert not {"anchors-subject", "finder-offline"} & set(found)
    probe = CONFIG["probe"] | {"scoring": "published"}
    published = sensitivity.variants(CONFIG | {"probe": probe})
    assert tuple(published) == ("scoring-calibrated", *NAMES[4:])


def study(seed: int, datasets: str = "xy") -> dict[str, pd.DataFrame]:
    """Random tables of two read-outs and three layers, headline 1; and rows of no concern."""
    random = np.random.default_rng(seed)
    key = {"model": ["m"], "dataset": [*datasets], "site": ["attn", "mlp"], "position": ["final"]}
    key |= {"layer": [0, 1, 2]}
    more: dict[str, dict[str, list[Any]]] = {
        "curve": {"condition": ["knockout", "random"], "anchor": ["Q", "all"]}
        | {"grouping": ["per_layer", "reference_layer"]},
        "contrasts": {"contrast": ["another", PUBLISHED], "quantity": ["share", "delta_p"]},
        "controls": {},
    }
    numbers = {
        "curve": ["n", "delta_p", "n_blocked", "n_paired", "signal"],
        "contrasts": ["estimate", "ci_low", "ci_high"],
    }
    numbers |= {"controls": sensitivity.CONTROLS}
    tables = {}
    for name, columns in numbers.items():
        keys = key | more[name]
        table = pd.DataFrame(product(*keys.values()), columns=list(keys))
        tables[name] = table.assign(**{one: random.normal(size=len(table)) for one in columns})
    tables["controls"]["headline"] = tables["controls"]["layer"] == 1
    return tables


def compared(base: Any, variants: dict[str, Any], **settings: Any) -> pd.DataFrame:
    studies = {name: sensitivity.values(**one) for name, one in ({"base": base} | variants).items()}
    return sensitivity.table(studies, **settings)


def slow(tables: dict[str, pd.DataFrame], dataset: str) -> dict[str, float]:
    """What is compared of a study, by looking up one row after the other."""
    here = f"site == 'mlp' and layer == 1 and dataset == '{dataset}'"
    found = tables["controls"].query(here).iloc[0][sensitivity.CONTROLS].to_dict()
    own = "condition == 'knockout' and anchor == 'all' and grouping == 'per_layer'"
    curve = tables["curve"].query(f"{here} and {own}").iloc[0]
    paired = f"contrast == '{PUBLISHED}' and quantity == 'share'"
    share = tables["contrasts"].query(f"{here} and {paired}").iloc[0]
    ends = {"contrast_low": share["ci_low"], "contrast_high": share["ci_high"]}
    found |= {"contrast": share["estimate"], "n": curve["n"], "delta_p_all": curve["delta_p"]}
    found |= {"n_exact": curve["n_blocked"], "n_paired": curve["n_paired"]}
    return found | ends


def test_every_cell_and_variant_is_read_at_the_base_s_headline_layer() -> None:
    studies = {"base": study(0), "prior-natural": study(1)}
    controls = studies["prior-natural"]["controls"]
    controls["headline"] = controls["layer"] == 2
    table = compared(studies["base"], {"prior-natural": studies["prior-natural"]})
    assert list(table.columns) == list(sensitivity.COLUMNS)
    keys = table[["dataset", "variant", "site", "layer"]].to_numpy().tolist()
    assert keys == [[dataset, name, "mlp", 1] for dataset in "xy" for name in studies]
    for row in table.to_dict("records"):
        own = slow(studies[row["variant"]], row["dataset"])
        assert {name: row[name] for name in own} == pytest.approx(own)


def test_what_was_not_measured_is_blank_and_a_read_out_without_headline_is_named() -> None:
    base = study(0)
    found = compared(base | {"contrasts": base["contrasts"][:0]}, {})
    assert found[["contrast", "contrast_low"]].isna().all(axis=None)
    assert found["delta_p_all"].notna().all()
    found = compared(base, {"finder-offline": study(1, "x")})
    here, missing = (row for _, row in found[found["variant"] == "finder-offline"].iterrows())
    assert missing["changed"] == "question anchors found by offline (cannot be measured)"
    assert missing[["n", "probe_auc", "contrast", "flip_share"]].isna().all()
    assert pd.notna(here["flip_share"])
    with pytest.raises(AnchorscopeError, match="no headline layer of the read-out resid/final"):
        compared(base, {}, readout="resid/final")


def test_without_scores_every_table_of_a_cell_is_empty_and_keeps_its_columns(
    tmp_path: Path,
) -> None:
    ids = [f"{i}" for i in range(20)]
    answers = pd.DataFrame({"id": ids, "question": ids, "label": [0, 1] * 10})
    for name, columns in (("scores", scores.COLUMNS), ("floors", floors.COLUMNS)):
        write_parquet(pd.DataFrame(columns=list(columns)), tmp_path / f"{name}.parquet")
    none, text = (read_parquet(tmp_path / f"{name}.parquet") for name in ("scores", "floors"))
    made = cell_tables.tables(none, text, answers, Draws.none(), bootstrap={"draws": 5}, seed=0)
    for name, table in made.items():
        assert table.empty and list(table.columns) == list(cell_tables.columns()[name])
