"""Synthetic tables of the formats that figures draw, and ways to look at a specification."""

import math
import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import vl_convert

from anchorscope.claims import CLAIMS, keys
from anchorscope.curve.controls import RANDOM_CONTRAST
from anchorscope.figures.data import request_of
from anchorscope.figures.picture import Picture

CHECKED = bool(os.environ.get("LONG_TESTS"))
"""Whether specifications are held against the schema, which takes longer than to make them. Where
pictures are saved they always are."""
Pairs = Sequence[tuple[str, str]]
MODELS = [("one", "Model One"), ("two", "Model Two")]
DATASETS = [("a", "Alpha"), ("b", "Beta"), ("c", "Gamma"), ("d", "Delta")]
READOUTS = list(product(("attn", "mlp", "resid"), ("final", "before_answer", "last_answer")))
AT = {"site": "mlp", "position": "final"}
FLIPS = {"share": 26.0, "delta_p": -18.2}
"""Quantity of the published contrast → its points in deep layers."""
BESIDE = 5.0
JUDGED = {
    "signal": (0.08, 1000),
    "answer_adds": (0.05, 1000),
    "comparison_right": (0.78, 210),
    "comparison_wrong": (0.24, 190),
    "through_eq": (0.8, 170),
}
"""Key of a claim → estimate and n of a cell that makes it."""
REMARKS = {
    "comparison_wrong": "they score lower after their own question",
    "through_eq": "judged on right answers",
}
"""Key of a claim → the remark of a cell that makes it."""
REASONS = {
    "yes": "",
    "no": "general damage may explain the loss of the pair term",
    "too few": "12 pairs, and at least 50 are needed",
    "not measured": "no answers were swapped",
    "by design": "the paired questions differ only in the exact question tokens",
}
"""Verdict → the reason that a table gives."""
FLIPPED = {"knockout": 0.4, "random": 0.05, "crossed": 0.38, "crossed-knockout": 0.06}


def _cells(models: Pairs, datasets: Pairs) -> list[dict[str, Any]]:
    return [{"model": m, "dataset": d} for (m, _), (d, _) in product(models, datasets)]


def _band(name: str, value: float, half: float) -> dict[str, float]:
    return {f"{name}_low": value - half, f"{name}_high": value + half}


def controls_of(models: Pairs, datasets: Pairs, layers: int = 16) -> pd.DataFrame:
    """Controls of cells whose probes get better with depth, and whose controls stay low."""
    rng, rows = np.random.default_rng(0), []
    for (i, cell), layer in product(enumerate(_cells(models, datasets)), range(layers)):
        at = layer / max(layers - 1, 1)
        auc = 0.62 + 0.2 * (1 - math.exp(-4 * at)) + 0.02 * (i % 3) + rng.normal(0, 0.004)
        share = 0.35 * (1 - math.exp(-5 * (at + 0.05)))
        row = cell | AT | {"layer": layer, "headline": layer == layers - 3}
        row |= {"probe_auc": auc, **_band("auc", auc, 0.02), "auc_knockout": auc - 0.12}
        row |= {"prompt_end_auc": 0.6 + 0.02 * (i % 4) + 0.1 * at}
        row |= {"floor_auc": 0.56 + 0.015 * (i % 4)}
        shuffled = 0.5 + rng.normal(0, 0.02)
        row |= {"auc_shuffled": shuffled, **_band("auc_shuffled", shuffled, 0.04)}
        row |= {"flip_share": share, "random_flip_share": 0.05, "rest_flip_share": 0.28}
        row |= {"question_flip_share": share + 0.08, "crossed-knockout_flip_share": 0.06}
        rows.append(row)
    return pd.DataFrame(rows)


def summary_of(models: Pairs, datasets: Pairs, layers: int = 16) -> pd.DataFrame:
    """Return a summary of probes that detect wrong answers; all claims about it hold."""
    rows = []
    for i, cell in enumerate(_cells(models, datasets)):
        row = cell | AT | {"auc": 0.812 + 0.01 * i, **_band("auc", 0.812 + 0.01 * i, 0.03)}
        row |= {"text_model": "text", "text_auc": 0.721, "prompt_end_auc": 0.763}
        row |= {"token_auc": 0.644, "signal": "yes", "answer_adds": "yes"}
        for name in ("text_auc", "prompt_end_auc", "token_auc"):
            row |= _band(name, row[name], 0.03)
        row |= {"text_gain": 0.091, **_band("text_gain", 0.091, 0.04)}
        row |= {"prompt_end_gain": 0.049, **_band("prompt_end_gain", 0.049, 0.03)}
        row |= {"right": 634, "wrong": 666, "right_asked": 634, "wrong_asked": 1264}
        rows.append(row | {"right_needed": 12})
    return pd.DataFrame(rows)


def contrasts_of(models: Pairs, datasets: Pairs, layers: int = 16, blind: int = 0) -> pd.DataFrame:
    """Exact less random tokens; the probe does not predict in the first `blind` layers."""
    rows = []
    for cell, (quantity, most), layer in product(
        _cells(models, datasets), FLIPS.items(), range(layers)
    ):
        at = most * (1 - math.exp(-4 * (layer + 1) / layers))
        row = cell | AT | {"contrast": RANDOM_CONTRAST, "n": 900, "n_clusters": 450}
        row |= {"quantity": quantity, "layer": layer, "estimate": at, "predicts": layer >= blind}
        beside = math.copysign(BESIDE, most)
        row |= {"under": at + beside, "beside": beside, "inflation": 1.2}
        row |= {"headline": layer == layers - 3} | _band("ci", at, 3)
        rows.append(row)
    return pd.DataFrame(rows)


def crossing_of(
    models: Pairs, datasets: Pairs, layers: int = 16, readouts: Pairs = (("mlp", "final"),)
) -> pd.DataFrame:
    """Crossings in which answers are compared with questions from the middle of the layers on.

    Blocking the exact tokens takes most of it, blocking the rest next to nothing; right answers
    that were not given score above wrong ones.
    """
    rows = []
    for (i, cell), (site, position), layer in product(
        enumerate(_cells(models, datasets)), readouts, range(layers)
    ):
        deep, headline = layer >= layers // 2, layer == layers - 3
        right, wrong, gold = (1.9 + 0.1 * i, 0.4, 0.9) if deep else (0.01, 0.0, 0.0)
        means = {"pair_right": (right, 210 + i), "right_above_text": (right, 210 + i)}
        means |= {"pair_wrong": (wrong, 190), "wrong_above_text": (wrong, 190)}
        means |= {"pair_gold": (gold, 150), "gold_above_text": (gold, 150)}
        means |= {"gold_wrong": (gold - wrong, 150)}
        high, low = (0.78, 0.24) if deep else (0.5, 0.5)
        for kind, value, n in (("right", high, 210 + i), ("wrong", low, 190), ("gold", high, 150)):
            means |= {f"share_{kind}": (value, n), f"{kind}_share_above_text": (value, n)}
            if kind != "gold":
                means |= {f"share_{kind}_knockout": (0.5, n), f"share_{kind}_rest": (value, n)}
        means |= {"gold_wrong_share": (high - low, 150)}
        for side, value, n in (("right", right - 0.1, 170 + i), ("wrong", wrong, 160)):
            means |= {f"through_{side}": (value, n)}
            means |= {f"through_{side}_knockout": (0.2 * value, n)}
            means |= {f"through_{side}_rest": (0.95 * value, n)}
            means |= {f"left_{side}_knockout": (0.9, n), f"left_{side}_rest": (0.95, n)}
        bare: dict[str, tuple[float, int]] = {}
        if headline:
            facts = {"same_frame": 0.1, "mirrored": 0.05, "unlike": 0.01, "by_wording": 0.0}
            bare |= {name: (value, 400 + i) for name, value in facts.items()}
        row = cell | {"site": site, "position": position, "layer": layer}
        row |= {"predicts": deep, "headline": headline}
        for name, (value, n) in means.items():
            ends = {"estimate": value, "p": 0.001 if value > 0.1 else 0.6} | _band("ci", value, 0.1)
            rows.append(row | {"quantity": name, "n": n} | ends)
        unknown = dict.fromkeys(("ci_low", "ci_high", "p"), math.nan)
        for name, (value, n) in bare.items():
            rows.append(row | {"quantity": name, "estimate": value, "n": n} | unknown)
    return pd.DataFrame(rows)


def claims_of(
    models: Pairs, datasets: Pairs, layers: int = 16, readouts: Pairs = (("mlp", "final"),)
) -> pd.DataFrame:
    """Claims of the same cells: all are made."""
    rows = []
    for (i, cell), (site, position), (key, claim) in product(
        enumerate(_cells(models, datasets)), readouts, CLAIMS.items()
    ):
        estimate, n = JUDGED[key]
        row = cell | {"site": site, "position": position, "verdict": "yes"}
        row |= {"claim": claim.name, "answers": claim.answers}
        row |= {"p": 0.001, "estimate": estimate, **_band("ci", estimate, estimate / 5)}
        row |= {"n": n + i * (key == "comparison_right"), "clusters": 52.2, "layer": layers - 3}
        rows.append(row | {"reason": REMARKS.get(key, "")})
    return pd.DataFrame(rows)


def judged(table: pd.DataFrame, verdict: str, *claims: str, **where: str) -> pd.DataFrame:
    """The table of claims with another verdict on some claims of some cells, and its reason."""
    rows = keys(table).isin(claims)
    for column, value in where.items():
        rows &= table[column] == value
    table = table.copy()
    table.loc[rows, ["verdict", "reason"]] = [verdict, REASONS[verdict]]
    if verdict == "no":
        table.loc[rows, "p"] = 0.4
    elif verdict != "yes":
        table.loc[rows, ["p", "estimate", "ci_low", "ci_high"]] = math.nan
        table.loc[rows, "n"] = {"too few": 12, "by design": 2}.get(verdict, 0)
    return table


UNCOUNTED = ("through_", "left_")
"""How the quantities of pairs that `through_eq` counts begin."""


def uncounted(crossing: pd.DataFrame) -> pd.DataFrame:
    """The table of crossing where too few pairs count for `through_eq`."""
    return crossing[~crossing["quantity"].str.startswith(UNCOUNTED)]


def curve_of(
    models: Pairs,
    datasets: Pairs,
    layers: int = 16,
    readouts: Pairs = (("mlp", "final"),),
    blind: int = 0,
) -> pd.DataFrame:
    """Curves in which Q falls and A stays, at each read-out with a depth of its own.

    The first `blind` layers are not predicted.
    """
    rng, rows = np.random.default_rng(1), []
    for (i, cell), (k, (site, position)), layer, (condition, top) in product(
        enumerate(_cells(models, datasets)), enumerate(readouts), range(layers), FLIPPED.items()
    ):
        at = layer / max(layers - 1, 1)
        fall = -(40 + 4 * k + 3 * (i % 4)) * (1 - math.exp(-5 * at))
        share = (top + 0.03 * (i % 4)) * (1 - math.exp(-8 * (at + 0.03)))
        groups = (("Q", share, fall), ("A", 1 - share, -3.0), ("all", 1.0, share * fall))
        for anchor, part, mean in groups:
            mean += rng.normal(0, 1.2)
            q = anchor == "Q"
            row = cell | {"site": site, "position": position, "condition": condition}
            row |= {"grouping": "per_layer", "anchor": anchor, "layer": layer, "share": part}
            row |= {"n": round(1000 * part), "delta_p": mean, "probe_auc": 0.8, "n_blocked": 5.0}
            row |= {"answer_accuracy": (0.85 if q else 0.65) + rng.normal(0, 0.02), "thin": False}
            row |= {"n_right": round(row["n"] * row["answer_accuracy"]), "n_answers": row["n"]}
            row |= {"predicts": layer >= blind, "cell_signal": blind < layers}
            row |= {"headline": layer == layers - 3} | _flipped(condition, anchor, share, i)
            row |= {"floor": "text", "floor_auc": 0.72, **_band("auc", 0.8, 0.02)}
            row |= {"popularity": (30000.0 if q else 8000.0) * (1 + 0.1 * rng.random())}
            rows.append(row | _band("ci", mean, 4))
    return pd.DataFrame(rows)


def _flipped(condition: str, anchor: str, share: float, i: int) -> dict[str, float]:
    """Flips of the paired samples; groups are formed by them."""
    n = 812 + i if condition in ("knockout", "random") else 300
    flips = {"all": share, "Q": 1.0, "A": 0.0}[anchor]
    half = 1.5 * math.sqrt(flips * (1 - flips) / n) + 0.01
    ends = {"flip_low": max(0.0, flips - half), "flip_high": min(1.0, flips + half)}
    return {"flip_share": flips, "n_paired": n} | ends


def calibration_of(models: Pairs, datasets: Pairs, layers: int = 3) -> pd.DataFrame:
    """Calibration of cells in which `attn` is poor and `resid` good."""
    rng, rows = np.random.default_rng(2), []
    kinds = (("all", "all"), ("truism", "0"), ("all", "1"))
    for cell, (site, position), layer, (kind, z) in product(
        _cells(models, datasets), READOUTS, range(layers), kinds
    ):
        good = {"attn": 0.7, "mlp": 0.96, "resid": 0.98}[site]
        good -= {"final": 0.0, "before_answer": 0.3, "last_answer": 0.12}[position]
        row = cell | {"seed": 0, "site": site, "position": position, "layer": layer, "n": 480}
        row |= {"grouping": "per_layer", "z": z, "kind": kind, "n_truth_q": 240, "n_truth_a": 230}
        row |= {"probe_auc": 0.99, "verdict_accuracy": 0.99, "flip_share": 0.3}
        row |= {"random_flip_share": 0.01, "pathway_auc": good + rng.uniform(-0.02, 0.02)}
        row |= {"sensitivity": good - 0.25 + rng.uniform(-0.1, 0.1)}
        row |= {"specificity": min(1.0, good + rng.uniform(0, 0.02))}
        row |= {"pathway_auc_low": math.nan, "pathway_auc_high": math.nan, "predicts": True}
        rows.append(row | {"headline": layer == layers - 1})
    return pd.DataFrame(rows)


def pictured(chart: Any, *tables: pd.DataFrame, **keywords: Any) -> Picture:
    """What a chart function draws, before it is drawn."""
    picture: Picture = chart.__wrapped__(*tables, request_of(**keywords))
    return picture


def views(node: Any, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """All parts of a specification that have a mark (of that kind)."""
    if isinstance(node, dict):
        mark = node.get("mark")
        if isinstance(mark, dict) and kind in (None, mark["type"]):
            yield node
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for value in children:
        yield from views(value, kind)


def points(spec: dict[str, Any], panel: dict[str, Any], kind: str = "line") -> list[dict[str, Any]]:
    """The data that a panel draws. Altair names those that views share above them."""
    column = next((one for one in spec["concat"] if panel in one["vconcat"]), {})
    places = (next(views(panel, kind)), panel, column, spec)
    names = (one.get("data", {}).get("name") for one in places)
    return list(spec["datasets"][next(filter(None, names))])


def caption(spec: dict[str, Any]) -> str:
    """The words below the title."""
    return " ".join(spec["title"]["subtitle"]).replace("\u00a0", " ")


def details(spec: dict[str, Any]) -> str:
    """The words that the figure's page tells beside it."""
    return " ".join(spec["usermeta"]["details"]).replace("\u00a0", " ")


def words(spec: dict[str, Any]) -> str:
    """Caption and details."""
    return f"{caption(spec)} {details(spec)}"


def drawing(spec: dict[str, Any]) -> str:
    """The picture as SVG."""
    return str(vl_convert.vegalite_to_svg(spec, vl_version="6.4"))
