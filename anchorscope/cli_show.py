"""`anchorscope show`: one cell in words, read from its tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope import provenance
from anchorscope.errors import AnchorscopeError
from anchorscope.files import read_csv
from anchorscope.settings import Config

TABLES = {"curve": ".csv", "contrasts": ".contrasts.csv", "controls": ".controls.csv"}
STAGES = ("data", "prompts", "answers", "activations")


def summary(
    config: Config,
    model: str,
    dataset: str,
    *,
    readout: str | None = None,
    files: Sequence[str] = (),
) -> dict[str, Any]:
    """What a cell's tables say, as plain data; shares are fractions, ΔP percentage points.

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
    headline = at["controls"][at["controls"]["headline"].astype(bool)].to_dict("records")[0]
    return {
        "model": model,
        "dataset": dataset,
        "readout": chosen,
        "headline_layer": int(headline["layer"]),
        "layers": len(at["controls"]),
        "samples": _samples(stem),
        "n": int(headline["n"]),
        "share_wrong": _number(headline["share_wrong"]),
        "probe_auc": _interval(headline, "probe_auc", "auc_low", "auc_high"),
        "text_auc": _interval(headline, "text_auc", "text_auc_low", "text_auc_high"),
        "signal": bool(headline["signal"]),
        "flips": _flips(at["contrasts"], int(headline["layer"])),
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
    rows = contrasts[(contrasts["quantity"] == "share") & (contrasts["layer"] == layer)]
    if rows.empty:
        return None
    by_name = {row["contrast"]: row for row in rows.to_dict("records")}
    found = {
        name.replace("-", "_minus_"): {
            key: None if v is None else v / 100
            for key, v in _interval(row, "estimate", "ci_low", "ci_high").items()
        }
        for name, row in by_name.items()
    }
    return found | {"pairs": int(by_name["knockout-random"]["n"])}


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
        _line("probe AUC", _shown(found["probe_auc"], "{:.3f}")),
        _line(
            "text baseline",
            f"{_shown(found['text_auc'], '{:.3f}')} (answer words and relation alone)",
        ),
        _line("signal", _signal(found["signal"])),
        *_flip_lines(found["flips"]),
        *_delta_lines(found["delta_p"]),
    ]
    return "\n".join(lines)


def _line(name: str, said: str) -> str:
    return f"{name:<18}{said}"


def _signal(signal: bool) -> str:
    if signal:
        return "yes: the probe is surely above 0.6 and above the text baseline"
    return "NO: the probe is not surely above 0.6 and the text baseline; do not read the curve"


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


def _flip_lines(flips: Mapping[str, Any] | None) -> list[str]:
    if flips is None:
        return [_line("flips", "no random control was measured")]
    return [
        _line("flips, knockout", _share(flips["knockout"])),
        _line("flips, random", _share(flips["random"])),
        _line(
            "difference",
            f"{_share(flips['knockout_minus_random'], 'points')}, {flips['pairs']:,} pairs",
        ),
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
