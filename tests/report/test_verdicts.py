"""What is said of a claim is what the table of claims says, in every text but the report's page."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import verdicts
from figure_tables import pictured, uncounted
from verdicts import VERDICTS, said_of

from anchorscope.claims import CLAIMS, keys
from anchorscope.config.settings import Config
from anchorscope.figures.main import chart
from anchorscope.report import cell_summary, methods
from anchorscope.statements import ends, figures, sentence

MODELS = [(f"m{k}", f"Model {k}") for k in range(5)]
DATASETS = [("d", "Data")]
NAMED: Any = {"title": "T", "panels": MODELS, "datasets": DATASETS}
TABLES = verdicts.tables_of(MODELS, DATASETS)
Tables = dict[str, pd.DataFrame]


def config_of(root: Path, **more: Any) -> Config:
    """Five local models on one dataset."""
    entries: dict[str, Any] = {
        "models": {key: {"local": f"/home/me/{key}", "label": name} for key, name in MODELS},
        "datasets": {"d": {"hub": "owner/d", "label": "Data", "split": "test"}},
        "figures": {"f": {"models": [key for key, _ in MODELS], "datasets": ["d"]}},
        "targets": ["f"],
    }
    fields = {"question": "q", "answers": ["a"]} | more
    entries["datasets"]["d"]["fields"] = fields
    return Config.model_validate(entries | {"results": str(root)})


def plain(text: str) -> str:
    return " ".join(text.replace("\u00a0", " ").split())


def shown(config: Config, model: str) -> str:
    """What `anchorscope show` says of a cell."""
    found = cell_summary.summary(config, model, "d", figure="f", readout="mlp/final")
    return plain(cell_summary.text(found))


def captions(tables: Tables) -> dict[str, str]:
    """Caption and details of the figure, which tells of claims."""
    drawn = (tables[end] for end in ("", ".controls", ".crossing", ".claims"))
    lines, details = pictured(chart, *drawn, **NAMED).words
    return {"figure": plain(" ".join([*lines, *details]))}


def texts(tables: Tables, root: Path, **more: Any) -> dict[str, str]:
    """Every text of a figure, by where it stands."""
    verdicts.write(tables, root, "f")
    config = config_of(root, **more)
    found = {f"show {key}": shown(config, key) for key, _ in MODELS}
    return found | captions(tables) | {"methods": methods.text(config, "f")}


@lru_cache
def claims() -> pd.DataFrame:
    """Every verdict on every claim, each in another cell."""
    return verdicts.mixed(TABLES[".claims"])


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return texts(TABLES | {".claims": claims()}, tmp_path_factory.mktemp("mixed"))


def rows_of(claim: str, *told: str) -> pd.DataFrame:
    rows = claims()[keys(claims()) == claim]
    return rows[rows["verdict"].isin(told)] if told else rows


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_show_says_what_the_verdict_of_a_claim_says_and_nothing_else(
    claim: str, verdict: str, said: dict[str, str]
) -> None:
    rows = rows_of(claim, verdict)
    assert len(rows) == 1 or claim == "signal"
    for row in rows.to_dict("records"):
        text = said[f"show {row['model']}"]
        begins, unsaid = said_of(claim, row)
        assert text.count(begins) == 1 and not any(words in text for words in unsaid)
        if verdict == "yes":
            assert CLAIMS[claim].leaves_open in text
        assert str(row["reason"]) in text


def test_show_says_of_each_depth_the_n_of_its_row(tmp_path: Path) -> None:
    """No two rows of the curve have the same n."""
    curve = TABLES[""].reset_index(drop=True)
    curve["n"] = 2001 + curve.index
    verdicts.write(TABLES | {"": curve}, tmp_path, "f")
    said = shown(config_of(tmp_path), "m1")
    rows = curve.query("model == 'm1' and condition == 'knockout' and headline and anchor != 'all'")
    assert len(rows) == 2
    for row in rows.to_dict("records"):
        three = {"value": row["delta_p"], "low": row["ci_low"], "high": row["ci_high"]}
        depth = plain(ends(three, 1, 1, " points"))
        assert f"{depth}, n = {figures(row['n'])}" in said


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_methods_say_what_the_verdict_of_a_claim_says(
    claim: str, verdict: str, said: dict[str, str]
) -> None:
    lines = said["methods"].replace("\u00a0", " ").splitlines()
    column = 3 + [*CLAIMS].index(claim)
    cells = {
        line.split("|")[1].strip(): line.split("|") for line in lines if line.startswith("| M")
    }
    assert len(cells) == len(MODELS)
    for row in rows_of(claim, verdict).to_dict("records"):
        cell = cells[f"{dict(MODELS)[row['model']]} on Data"][column].strip()
        reason = row["reason"]
        expected = {"yes": "yes: ", "no": f"not shown ({reason}): "}.get(verdict)
        if expected is None:
            named = "cannot be judged, by design" if verdict == "by design" else verdict
            assert cell == f"{named}: {reason}"
        else:
            assert cell.startswith(expected) and f"{row['n']:,} {CLAIMS[claim].unit}" in cell
            assert ("p = 0.001" if verdict == "yes" else "p = 0.400") in cell
            assert verdict == "no" or not reason or reason in cell


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_caption_counts_the_cells_where_a_claim_is_made(claim: str, said: dict[str, str]) -> None:
    text, words = said["figure"], CLAIMS[claim].called
    made, told = rows_of(claim, "yes"), rows_of(claim, "yes", "no")
    assert len(made) and f"{words} in {len(made)} of {len(told)}" in text


def test_a_table_without_numbers_is_told_without_nan(tmp_path: Path) -> None:
    told = claims().copy()
    through = (told["claim"] == "through_eq") & told["verdict"].isin(["yes", "no"])
    told.loc[through, ["estimate", "ci_low", "ci_high"]] = np.nan
    told.loc[told["verdict"] == "yes", "reason"] = np.nan
    blank = {"controls": "prompt_end_auc crossed-knockout_flip_share floor_auc",
             "contrasts": "under beside estimate ci_low ci_high",
             "": "delta_p ci_low ci_high floor floor_auc"}  # fmt: skip
    tables = TABLES | {".claims": told}
    for name, columns in blank.items():
        end = f".{name}" if name else ""
        tables[end] = tables[end].assign(**dict.fromkeys(columns.split(), np.nan))
    for number, crossing in enumerate((uncounted(TABLES[".crossing"]),
                                       TABLES[".crossing"].head(0))):  # fmt: skip
        found = texts(tables | {".crossing": crossing}, tmp_path / str(number))
        for place, text in found.items():
            assert not re.search(r"\b(nan|none|inf)\b", text.replace("'none'", "")), place
        yes = told[through & (told["verdict"] == "yes")]["model"].item()
        if len(crossing):
            begins = f"{sentence(CLAIMS['through_eq'].says)} (170 pairs, p = 0.001)"
            assert begins in found[f"show {yes}"]
