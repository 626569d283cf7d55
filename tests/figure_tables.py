"""Synthetic tables of the formats that figures draw, and ways to look at a specification."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import vl_convert

Pair = tuple[str, str]
READOUTS = [
    (s, p) for s in ("attn", "mlp", "resid") for p in ("final", "before_answer", "last_answer")
]


def _cells(models: Sequence[Pair], datasets: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(model, dataset) for model, _ in models for dataset, _ in datasets]


def controls_of(models: Sequence[Pair], datasets: Sequence[Pair], layers: int = 16) -> pd.DataFrame:
    """Controls of cells whose probes get better with depth, and whose controls stay low."""
    rng, rows = np.random.default_rng(0), []
    for i, (model, dataset) in enumerate(_cells(models, datasets)):
        for layer in range(layers):
            at = layer / max(layers - 1, 1)
            auc = 0.62 + 0.2 * (1 - math.exp(-4 * at)) + 0.02 * (i % 3) + rng.normal(0, 0.004)
            share = 0.35 * (1 - math.exp(-5 * (at + 0.05)))
            row: dict[str, Any] = {"model": model, "dataset": dataset}
            row |= {"site": "mlp", "position": "final", "layer": layer}
            row |= {"n": 1000 - 20 * i, "n_clusters": 500, "share_wrong": 0.6}
            row |= {"headline": layer == layers - 3, "signal": True, "noise_floor": 2e-3}
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
            row |= {"auc_shuffled": 0.5 + rng.normal(0, 0.02), "text_auc": 0.58}
            rows.append(row)
    return pd.DataFrame(rows)


def contrasts_of(
    models: Sequence[Pair], datasets: Sequence[Pair], layers: int = 16
) -> pd.DataFrame:
    """Contrasts in which random tokens have no effect."""
    fixed = {"site": "mlp", "position": "final", "n": 900, "n_clusters": 500}
    rows = [
        {"model": model, "dataset": dataset, "contrast": contrast, "quantity": quantity}
        | fixed
        | {"layer": layer, "estimate": -20.0 if "knockout" in contrast else -0.4}
        | {"ci90_low": -1.0, "ci90_high": 0.2, "no_effect": contrast == "random"}
        for model, dataset in _cells(models, datasets)
        for contrast in ("knockout", "random", "knockout-random")
        for quantity in ("share", "delta_p")
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
) -> pd.DataFrame:
    """Curves in which Q falls and A stays, at each read-out with a depth of its own."""
    rng, rows = np.random.default_rng(1), []
    for i, (model, dataset) in enumerate(_cells(models, datasets)):
        for k, (site, position) in enumerate(readouts):
            for layer in range(layers):
                at = layer / max(layers - 1, 1)
                fall = -(40 + 4 * k + 3 * (i % 4)) * (1 - math.exp(-5 * at))
                for condition, top in (("knockout", 0.4), ("random", 0.05)):
                    share = top * (1 - math.exp(-8 * (at + 0.03)))
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
                            | {"n_blocked": 5.0, "thin": False, "signal": True}
                            | {"popularity": (30000.0 if q else 8000.0) * (1 + 0.1 * rng.random())}
                        )
    return pd.DataFrame(rows)


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
