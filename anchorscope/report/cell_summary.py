"""What the tables of one cell say, as plain data: for the report and for `anchorscope show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.config.settings import Config
from anchorscope.experiments.interchange.table import DIFFERENCE
from anchorscope.passes.interventions import ARMS
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

TABLES = {
    "curve": ".csv",
    "contrasts": ".contrasts.csv",
    "controls": ".controls.csv",
    "interchange": ".interchange.csv",
}
ENDS = ("auc", "low", "high")
STAGES = ("data", "prompts", "answers", "activations")


def summary(
    config: Config,
    model: str,
    dataset: str,
    *,
    readout: str | None = None,
    files: Sequence[str] = (),
) -> dict[str, Any]:
    """What a cell's tables say; shares are fractions, ΔP percentage points.

    `signal`, `probe_auc`, `floor` and `gain` are those of the cell, each sample scored at its own
    fold's layer; `layer_signal` and all contrasts are those of the headline layer.

    Args:
        config: the checked config, which says where the tables lie, and the grouping.
        model, dataset: catalogue keys.
        readout: `<site>/<position>`; by default the first one measured.
        files: config files that the command to build the cell must name.

    Raises:
        AnchorscopeError: the cell is not built, or not with this read-out or grouping.
    """
    stem = f"{config.root}/delta_p/{model}/{dataset}"
    tables = {name: _table(f"{stem}{end}", files) for name, end in TABLES.items()}
    measured = list(dict.fromkeys(tables["curve"]["site"] + "/" + tables["curve"]["position"]))
    chosen = readout or next((r for r in config.readouts if r in measured), measured[0])
    if chosen not in measured:
        do = f"choose one of: {', '.join(measured)}"
        raise AnchorscopeError(
            f"the read-out `{chosen}` is not measured", f"{stem}.csv", do, see="not-measured"
        )
    site, position = chosen.split("/")
    at = {n: t[(t["site"] == site) & (t["position"] == position)] for n, t in tables.items()}
    beside = at["controls"]
    headline = beside[beside["headline"].astype(bool)].to_dict("records")[0]
    layer = int(headline["layer"])
    here = {name: table[table["layer"] == layer] for name, table in at.items()}
    return {
        "model": model,
        "dataset": dataset,
        "readout": chosen,
        "headline_layer": layer,
        "layers": len(beside),
        "samples": _samples(stem),
        "n": int(headline["n"]),
        "share_wrong": _number(headline["share_wrong"]),
        "signal": bool(headline["cell_signal"]),
        "probe_auc": _interval(headline, "cell_auc", "cell_low", "cell_high"),
        "floor": {
            "name": "" if pd.isna(headline["cell_floor"]) else headline["cell_floor"],
            "auc": _number(headline["cell_floor_auc"]),
        },
        "gain": _interval(headline, "cell_gain", "cell_gain_low", "cell_gain_high"),
        "layer_signal": bool(headline["signal"]),
        "layers_without_signal": [int(k) for k in beside["layer"][~beside["signal"].astype(bool)]],
        "prompt_end": _interval(headline, *(f"prompt_end_{end}" for end in ENDS)),
        "added": _interval(headline, *(f"added_{end}" for end in ENDS)),
        "flips": _flips(here["contrasts"]),
        "no_effect": _no_effect(here["contrasts"]),
        "follows": _follows(here["interchange"]),
        "delta_p": _delta_p(at["curve"], config.grouping, f"{stem}.csv"),
    }


def _table(path: str, files: Sequence[str]) -> pd.DataFrame:
    if not Path(path).is_file():
        extra = f" --configfile {' '.join(files)}" if files else ""
        do = f"run: snakemake --cores all {path}{extra}"
        raise AnchorscopeError("this cell is not built", path, do, see="not-measured")
    return read_csv(path)


def _samples(stem: str) -> dict[str, Any] | None:
    """Counts of each stage on the way, from the provenance; None where there is none."""
    product = f"{stem}.csv"
    if not provenance.beside(product).is_file():
        return None
    whole = provenance.read(product)
    found: dict[str, Any] = {}
    for path, record in whole.get("inputs", {}).items():
        stage = next((name for name in STAGES if f"/{name}/" in f"/{path}"), None)
        if stage and "counts" in record:
            found[stage] = record["counts"]
    return found | ({"measured": whole["counts"]} if "counts" in whole else {})


def _number(value: Any, factor: float = 1) -> float | None:
    """A number that JSON can hold."""
    return None if pd.isna(value) else float(value) / factor


def _interval(row: Mapping[Any, Any], *names: str, factor: float = 1) -> dict[str, float | None]:
    value, low, high = (_number(row[name], factor) for name in names)
    return {"value": value, "low": low, "high": high}


def _flips(contrasts: pd.DataFrame) -> dict[str, Any] | None:
    """Shares of flips as fractions; None where `random` was not run."""
    rows = contrasts[contrasts["quantity"] == "share"].to_dict("records")
    by_name = {row["contrast"]: row for row in rows}
    if "knockout-random" not in by_name:
        return None
    found: dict[str, Any] = {
        name.replace("-", "_minus_"): _interval(
            by_name[name], "estimate", "ci_low", "ci_high", factor=100
        )
        for name in ("knockout", "random", "knockout-random")
        if name in by_name
    }
    return found | {"pairs": int(by_name["knockout-random"]["n"])}


def _no_effect(contrasts: pd.DataFrame) -> bool | None:
    """Whether random cuts are shown to leave the mean ΔP alone; None where not measured."""
    rows = contrasts[(contrasts["quantity"] == "delta_p") & (contrasts["contrast"] == "random")]
    return None if rows.empty else bool(rows["no_effect"].astype(bool).all())


def _follows(interchange: pd.DataFrame) -> dict[str, Any]:
    """Q-Anchored right answers that follow another question, by arm; None where not measured."""
    here = interchange[interchange["anchor"] == "Q"]
    here = here[here["label"].astype(str) == "0"]
    found: dict[str, Any] = dict.fromkeys((*ARMS, DIFFERENCE))
    for row in here[here["arm"].isin((*ARMS, DIFFERENCE))].to_dict("records"):
        found[row["arm"]] = {
            **_interval(row, "follows", "follows_low", "follows_high"),
            "pairs": int(row["n_paired"]),
            "coverage": _number(row["coverage"]),
            "source": row["source"],
        }
    return found


def _delta_p(curve: pd.DataFrame, grouping: str, path: str) -> dict[str, Any]:
    """Trough of the Q-Anchored line, and mean |ΔP| of the A-Anchored, over layers not thin."""
    rows = curve[(curve["condition"] == "knockout") & (curve["grouping"] == grouping)]
    if rows.empty:
        known = ", ".join(dict.fromkeys(curve["grouping"]))
        raise AnchorscopeError(
            f"no grouping `{grouping}`", path, f"measured: {known}", see="not-measured"
        )
    rows = rows[~rows["thin"].astype(bool) & rows["delta_p"].notna()]
    q, a = (rows[rows["anchor"] == name] for name in ("Q", "A"))
    trough = None
    if len(q):
        lowest = q.sort_values("delta_p", kind="stable").to_dict("records")[0]
        trough = _interval(lowest, "delta_p", "ci_low", "ci_high")
        trough |= {"layer": int(lowest["layer"]), "n": float(lowest["n"])}
    mean = float(a["delta_p"].abs().mean()) if len(a) else None
    return {"grouping": grouping, "q_trough": trough, "a_mean_abs": mean}
