"""Synthetic tables of the formats that figures draw, and ways to look at a specification."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import vl_convert

Pair = tuple[str, str]
FLOORS = ("answer", "question", "response", "text")
READOUTS = [
    (s, p) for s in ("attn", "mlp", "resid") for p in ("final", "before_answer", "last_answer")
]


def _cells(models: Sequence[Pair], datasets: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(model, dataset) for model, _ in models for dataset, _ in datasets]


def controls_of(
    models: Sequence[Pair], datasets: Sequence[Pair], layers: int = 16, blind: int = 0
) -> pd.DataFrame:
    """Controls of cells whose probes get better with depth, and whose controls stay low.

    The first `blind` layers have no signal.
    """
    rng, rows = np.random.default_rng(0), []
    for i, (model, dataset) in enumerate(_cells(models, datasets)):
        for layer in range(layers):
            at = layer / max(layers - 1, 1)
            auc = 0.62 + 0.2 * (1 - math.exp(-4 * at)) + 0.02 * (i % 3) + rng.normal(0, 0.004)
            share = 0.35 * (1 - math.exp(-5 * (at + 0.05)))
            row: dict[str, Any] = {"model": model, "dataset": dataset}
            row |= {"site": "mlp", "position": "final", "layer": layer}
            row |= {"n": 1000 - 20 * i, "n_clusters": 500, "share_wrong": 0.6}
            row |= {"headline": layer == layers - 3, "signal": layer >= blind}
            row |= {"cell_signal": blind < layers, "noise_floor": 2e-3}
            row |= {"probe_auc": auc, "auc_low": auc - 0.02, "auc_high": auc + 0.02}
            row |= {"ece": 0.02 + 0.03 * (1 - at) + rng.uniform(0, 0.01), "c": 0.01, "t": 0.9}
            row |= {"auc_knockout": auc - 0.12, "auc_refit": auc - 0.05, "auc_random": auc - 0.01}
            row |= {
                "flip_share": share,
                "random_flip_share": 0.05,
                "question_flip_share": share + 0.08,
            }
            row |= {"offset_flip_share": 0.7 * share, "null_share": 0.2 * share + 0.02}
            row |= {"replicate_flip_share": share + rng.normal(0, 0.02)}
            row |= {"auc_shuffled": 0.5 + rng.normal(0, 0.02)}
            rows.append(row | _floors(auc, 0.6 + 0.02 * (i % 4) + 0.1 * at, 0.56 + 0.015 * (i % 4)))
    return pd.DataFrame(rows)


def _floors(auc: float, before: float, floor: float) -> dict[str, Any]:
    """Columns of the controls on what the text alone reaches, and what the answer adds."""
    row: dict[str, Any] = {"floor": "question", "floor_auc": floor, "gain": auc - floor}
    row |= {"gain_low": auc - floor - 0.04, "gain_high": auc - floor + 0.04}
    row |= {"cell_auc": 0.8, "cell_low": 0.78, "cell_high": 0.82, "cell_floor": "text"}
    row |= {"cell_floor_auc": 0.72, "cell_gain": 0.08, "cell_gain_low": 0.04}
    row |= {"cell_gain_high": 0.12} | {f"{name}_auc": 0.58 for name in FLOORS}
    row |= {"prompt_end_auc": before, "prompt_end_low": before - 0.03}
    row |= {"prompt_end_high": before + 0.03, "added_auc": auc - before}
    return row | {"added_low": auc - before - 0.03, "added_high": auc - before + 0.03}


CONTRASTS = {
    "knockout": 30.0, "random": 4.0, "knockout-random": 26.0,
    "matched": 34.0, "placebo": 3.0, "matched-placebo": 31.0,
}  # fmt: skip


def contrasts_of(
    models: Sequence[Pair], datasets: Sequence[Pair], layers: int = 16, blind: int = 0
) -> pd.DataFrame:
    """Contrasts in which random tokens have no effect; the first `blind` layers say nothing."""
    fixed = {"site": "mlp", "position": "final", "n": 900, "n_clusters": 500}
    rows = []
    for model, dataset in _cells(models, datasets):
        for contrast, share in CONTRASTS.items():
            for quantity, size in (("share", share), ("delta_p", -0.7 * share)):
                for layer in range(layers):
                    at = size * (1 - math.exp(-4 * (layer + 1) / layers))
                    rows.append(
                        {"model": model, "dataset": dataset, "contrast": contrast}
                        | fixed
                        | {"quantity": quantity, "layer": layer, "estimate": at}
                        | {"ci_low": at - 3, "ci_high": at + 3, "ci90_low": at - 2.5}
                        | {"ci90_high": at + 2.5, "no_effect": contrast == "random"}
                        | {"signal": layer >= blind}
                    )
    return pd.DataFrame(rows)


def interchange_of(
    models: Sequence[Pair], datasets: Sequence[Pair], layers: int = 16
) -> pd.DataFrame:
    """Interchanges in which Q-Anchored answers follow matched questions, and no placebo."""
    rows = []
    for model, dataset in _cells(models, datasets):
        for arm, q in (("matched", 0.95), ("placebo", 0.03), ("matched-placebo", 0.92)):
            for label in ("all", "0", "1"):
                for anchor in ("Q", "A", "all"):
                    follows = {"Q": q, "A": 0.02, "all": 0.4 * q}[anchor]
                    rows += [
                        {"model": model, "dataset": dataset, "site": "mlp", "position": "final"}
                        | {"layer": layer, "arm": arm, "label": label, "anchor": anchor}
                        | {"n": 120, "n_partner": 100, "n_paired": 90, "coverage": 0.75}
                        | {"follows": follows, "follows_low": follows - 0.02}
                        | {"follows_high": follows + 0.02, "delta_p": -60 * follows}
                        | {"delta_p_low": -60 * follows - 2, "delta_p_high": -60 * follows + 2}
                        | {"headline": layer == layers - 3, "thin": False, "source": "relations"}
                        for layer in range(layers)
                    ]
    return pd.DataFrame(rows)


def density_of(models: Sequence[Pair], datasets: Sequence[Pair]) -> pd.DataFrame:
    """Densities of Δlogit: two humps under the knockout, a narrow one under random tokens."""
    grid, rows = np.linspace(-9, 3, 61), []
    for i, (model, dataset) in enumerate(_cells(models, datasets)):
        for condition, wide in (("knockout", 1.3), ("random", 0.35)):
            shift = -5 + 0.4 * (i % 4)
            for x in grid:
                hump = math.exp(-0.5 * (x / wide) ** 2) / wide
                other = math.exp(-0.5 * ((x - shift) / wide) ** 2) / wide
                weight = 0.4 if condition == "knockout" else 0.03
                density = 0.4 * ((1 - weight) * hump + weight * other)
                rows.append(
                    {"model": model, "dataset": dataset, "site": "mlp", "position": "final"}
                    | {"condition": condition, "x": x, "layer": 11 + i % 2, "density": density}
                )
    return pd.DataFrame(rows)


def curve_of(
    models: Sequence[Pair],
    datasets: Sequence[Pair],
    layers: int = 16,
    readouts: Sequence[Pair] = (("mlp", "final"),),
    blind: int = 0,
) -> pd.DataFrame:
    """Curves in which Q falls and A stays, at each read-out with a depth of its own.

    The first `blind` layers have no signal. Most right answers of Q have a matched partner.
    """
    rng, rows = np.random.default_rng(1), []
    for i, (model, dataset) in enumerate(_cells(models, datasets)):
        for k, (site, position) in enumerate(readouts):
            for layer in range(layers):
                at = layer / max(layers - 1, 1)
                fall = -(40 + 4 * k + 3 * (i % 4)) * (1 - math.exp(-5 * at))
                for condition, top in FLIPPED.items():
                    share = (top + 0.03 * (i % 4)) * (1 - math.exp(-8 * (at + 0.03)))
                    for anchor, part, mean in (
                        ("Q", share, fall), ("A", 1 - share, -3.0), ("all", 1.0, share * fall),
                    ):  # fmt: skip
                        mean += rng.normal(0, 1.2)
                        q = anchor == "Q"
                        rows.append(
                            {"model": model, "dataset": dataset, "site": site}
                            | {"position": position, "condition": condition}
                            | {"grouping": "per_layer", "anchor": anchor, "layer": layer}
                            | {"n": round(1000 * part), "share": part, "delta_p": mean}
                            | {"ci_low": mean - 4, "ci_high": mean + 4, "probe_auc": 0.8}
                            | {"answer_accuracy": (0.85 if q else 0.65) + rng.normal(0, 0.02)}
                            | {"n_blocked": 5.0, "thin": False, "signal": layer >= blind}
                            | _flipped(condition, anchor, share, i)
                            | {"cell_signal": blind < layers, "headline": layer == layers - 3}
                            | {"popularity": (30000.0 if q else 8000.0) * (1 + 0.1 * rng.random())}
                        )
    return pd.DataFrame(rows)


FLIPPED = {"knockout": 0.4, "random": 0.05, "matched": 0.38, "placebo": 0.02}


def _flipped(condition: str, anchor: str, share: float, i: int) -> dict[str, float]:
    """Flips of the paired samples; Q-Anchored right answers follow what is matched."""
    paired = condition in ("knockout", "random")
    n = 812 + i if paired else round(250 * share) if anchor == "Q" else 300
    flips = share
    if anchor != "all":
        follow = {"matched": 0.95 - 0.02 * (i % 4), "placebo": 0.01 * (i % 4)}.get(condition, 1.0)
        flips = follow if anchor == "Q" else 0.0
    half = 1.5 * math.sqrt(flips * (1 - flips) / max(n, 1)) + 0.01
    ends = {"flip_low": max(0.0, flips - half), "flip_high": min(1.0, flips + half)}
    return {"flip_share": flips, "n_paired": n} | ends


def calibration_of(
    models: Sequence[Pair], datasets: Sequence[Pair], layers: int = 3
) -> pd.DataFrame:
    """Calibration of cells in which `attn` is poor and `resid` good."""
    rng, rows = np.random.default_rng(2), []
    for model, dataset in _cells(models, datasets):
        for site, position in READOUTS:
            good = {"attn": 0.7, "mlp": 0.96, "resid": 0.98}[site]
            good -= {"final": 0.0, "before_answer": 0.3, "last_answer": 0.12}[position]
            for layer in range(layers):
                for kind, z in (("all", "all"), ("truism", "0"), ("all", "1")):
                    row: dict[str, Any] = {"model": model, "dataset": dataset, "seed": 0}
                    row |= {"site": site, "position": position, "layer": layer}
                    row |= {"grouping": "per_layer", "z": z, "kind": kind, "n": 480}
                    row |= {"n_truth_q": 240, "n_truth_a": 230, "probe_auc": 0.99}
                    row |= {
                        "verdict_accuracy": 0.99,
                        "pathway_auc": good + rng.uniform(-0.02, 0.02),
                    }
                    row |= {"sensitivity": good - 0.25 + rng.uniform(-0.1, 0.1)}
                    row |= {"specificity": min(1.0, good + rng.uniform(0, 0.02))}
                    row |= {"flip_share": 0.3, "random_flip_share": 0.01}
                    rows.append(row | {"headline": layer == layers - 1})
    return pd.DataFrame(rows)


def views(node: Any, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """All parts of a specification that have a mark (of that kind)."""
    if isinstance(node, dict):
        mark = node.get("mark")
        if isinstance(mark, dict) and kind in (None, mark["type"]):
            yield node
        for value in node.values():
            yield from views(value, kind)
    elif isinstance(node, list):
        for value in node:
            yield from views(value, kind)


def points(spec: dict[str, Any], panel: dict[str, Any], kind: str = "line") -> list[dict[str, Any]]:
    """The data that a panel draws."""
    view = next(views(panel, kind))
    return list(spec["datasets"][(view.get("data") or panel["data"])["name"]])


def caption(spec: dict[str, Any]) -> str:
    """The words below the title."""
    return " ".join(spec["title"]["subtitle"]).replace("\u00a0", " ")


def drawing(spec: dict[str, Any]) -> str:
    """The picture as SVG."""
    return str(vl_convert.vegalite_to_svg(spec, vl_version="6.4"))
