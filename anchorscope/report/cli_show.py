"""`anchorscope show`: one cell in words, read from its tables."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.config.settings import Config
from anchorscope.report import cell_words
from anchorscope.storage import provenance
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

TABLES = {
    "curve": ".csv",
    "contrasts": ".contrasts.csv",
    "controls": ".controls.csv",
    "interchange": ".interchange.csv",
}
ARMS = ("matched", "placebo", "matched-placebo")
ENDS = ("auc", "low", "high")
STAGES = ("data", "prompts", "answers", "activations")
WIDTH = 80


def summary(
    config: Config,
    model: str,
    dataset: str,
    *,
    readout: str | None = None,
    files: Sequence[str] = (),
) -> dict[str, Any]:
    """What a cell's tables say, as plain data; shares are fractions, ΔP percentage points.

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
        "flips": _flips(at["contrasts"], layer),
        "no_effect": _no_effect(at["contrasts"], layer),
        "follows": _follows(at["interchange"], layer),
        "delta_p": _delta_p(at["curve"], config.grouping, f"{stem}.csv"),
    }


def _table(path: str, files: Sequence[str]) -> pd.DataFrame:
    if not Path(path).is_file():
        extra = f" --configfile {' '.join(files)}" if files else ""
        raise AnchorscopeError(
            "this cell is not built",
            path,
            f"run: snakemake --cores all {path}{extra}",
            see="not-measured",
        )
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


def _number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return None if pd.isna(value) else float(value)


def _interval(row: Mapping[Any, Any], *names: str) -> dict[str, float | None]:
    value, low, high = (_number(row[name]) for name in names)
    return {"value": value, "low": low, "high": high}


def _flips(contrasts: pd.DataFrame, layer: int) -> dict[str, Any] | None:
    """Shares of flips at the headline layer as fractions; None where `random` was not run."""
    names = ("knockout", "random", "knockout-random")
    rows = contrasts[(contrasts["quantity"] == "share") & (contrasts["layer"] == layer)]
    by_name = {row["contrast"]: row for row in rows.to_dict("records") if row["contrast"] in names}
    if "knockout-random" not in by_name:
        return None
    found = {
        name.replace("-", "_minus_"): {
            key: None if v is None else v / 100
            for key, v in _interval(row, "estimate", "ci_low", "ci_high").items()
        }
        for name, row in by_name.items()
    }
    return found | {"pairs": int(by_name["knockout-random"]["n"])}


def _no_effect(contrasts: pd.DataFrame, layer: int) -> bool | None:
    """Whether random cuts are shown to leave the mean ΔP alone; None where not measured."""
    rows = contrasts[(contrasts["quantity"] == "delta_p") & (contrasts["layer"] == layer)]
    rows = rows[rows["contrast"] == "random"]
    return None if rows.empty else bool(rows["no_effect"].astype(bool).all())


def _follows(interchange: pd.DataFrame, layer: int) -> dict[str, Any]:
    """Q-Anchored right answers that follow another question, by arm; None where not measured."""
    here = interchange[(interchange["layer"] == layer) & (interchange["anchor"] == "Q")]
    here = here[here["label"].astype(str) == "0"]
    by_arm = {row["arm"]: row for row in here.to_dict("records")}
    return {
        arm: None
        if (row := by_arm.get(arm)) is None
        else _interval(row, "follows", "follows_low", "follows_high")
        | {"pairs": int(row["n_paired"]), "coverage": _number(row["coverage"])}
        | {"source": row["source"]}
        for arm in ARMS
    }


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
        lowest = q.iloc[int(q["delta_p"].to_numpy().argmin())].to_dict()
        trough = _interval(lowest, "delta_p", "ci_low", "ci_high")
        trough |= {"layer": int(lowest["layer"]), "n": float(lowest["n"])}
    mean = float(a["delta_p"].abs().mean()) if len(a) else None
    return {"grouping": grouping, "q_trough": trough, "a_mean_abs": mean}


def text(found: Mapping[str, Any]) -> str:
    """The summary as a screen of lines."""
    layer = f"layer {found['headline_layer']} of 0-{found['layers'] - 1}"
    wrong = found["share_wrong"]
    lines = [
        f"{found['model']} on {found['dataset']}, read-out {found['readout']}, headline {layer}",
        "",
        *_sample_lines(found["samples"]),
        _line("labels", f"{_percent(1 - wrong)} right, {_percent(wrong)} wrong of {found['n']:,}"),
        *_wrapped("signal", cell_words.signal(found), cell_words.unseen(found)),
        *_wrapped("before the answer", cell_words.added(found)),
        *_flip_lines(found),
        *_wrapped("matched questions", cell_words.follows(found)),
        *_delta_lines(found["delta_p"]),
    ]
    return "\n".join(lines)


def _line(name: str, said: str) -> str:
    return f"{name:<18}{said}"


def _wrapped(name: str, *sentences: str) -> list[str]:
    """Sentences in lines of a terminal's width, the first behind their name; none for none."""
    lines = textwrap.wrap(" ".join(filter(None, sentences)), WIDTH)
    return [_line(name if i == 0 else "", line) for i, line in enumerate(lines)]


def _sample_lines(counts: Mapping[str, Any] | None) -> list[str]:
    if not counts:
        return [_line("samples", "unknown, there is no provenance beside the tables")]
    lines = []
    if rows := counts.get("data"):
        lines.append(_line("questions", f"{rows['in']:,} rows, {rows['kept']:,} sampled"))
    last = counts.get("measured") or counts.get("activations") or counts.get("answers")
    if last:
        lines.append(_line("samples", f"{last['in']:,} in, {last['kept']:,} kept"))
        dropped = sorted(last["dropped"].items(), key=lambda item: -item[1])
        lines += [_line("", f"{count:,} dropped: {reason}") for reason, count in dropped]
    return lines


def _flip_lines(found: Mapping[str, Any]) -> list[str]:
    flips = found["flips"]
    if flips is None:
        return [_line("flips", "no random control was measured")]
    difference = f"{_share(flips['knockout_minus_random'], 'points')}, {flips['pairs']:,} pairs"
    effect = "no effect on the mean ΔP" if found["no_effect"] else "an effect is not ruled out"
    if not found["layer_signal"]:
        difference = f"{cell_words.NOT_INTERPRETABLE}: the headline layer has no signal"
        effect = cell_words.NOT_INTERPRETABLE
    return [
        _line("flips, knockout", _share(flips["knockout"])),
        _line("flips, random", _share(flips["random"])),
        _line("difference", difference),
        _line("random tokens", effect),
    ]


def _delta_lines(found: Mapping[str, Any]) -> list[str]:
    trough, mean = found["q_trough"], found["a_mean_abs"]
    q = "no layer has enough Q-Anchored samples"
    if trough:
        at = f"at layer {trough['layer']}, n = {trough['n']:,.0f}"
        q = f"{_shown(trough, '{:.1f}')} points {at}"
    a = "no layer has enough A-Anchored samples" if mean is None else f"{mean:.1f} points"
    return [
        _line("ΔP, Q trough", q),
        _line("ΔP, mean |A|", a),
        _line("grouping", found["grouping"]),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _share(interval: Mapping[str, float | None], unit: str = "%") -> str:
    points = {k: None if v is None else 100 * v for k, v in interval.items()}
    return f"{_shown(points, '{:.1f}')} {unit}"


def _shown(interval: Mapping[str, float | None], style: str) -> str:
    value, low, high = (interval[name] for name in ("value", "low", "high"))
    if value is None or math.isnan(value):
        return "unknown"
    if low is None or high is None:
        return style.format(value)
    return f"{style.format(value)} [{style.format(low)}, {style.format(high)}]"
