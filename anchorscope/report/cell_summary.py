"""Summary of a cell's tables: data for the report, and lines of text for `anchorscope show`."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.cell.summary import numbers
from anchorscope.claims import keys
from anchorscope.claims.claim import YES
from anchorscope.config.readouts import Location, available, not_measured
from anchorscope.config.settings import Config
from anchorscope.curve.controls import RANDOM_CONTRAST
from anchorscope.figures.data import measured_in, require, rows_at, true
from anchorscope.figures.style import ANCHORS
from anchorscope.passes.partners import LEAST_PAIRS
from anchorscope.report import run_facts
from anchorscope.statements import ENDS, say, too_small
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv
from anchorscope.workflow.paths import TABLES

Summary = Mapping[str, Any]
"""The summary of a cell, as `summary` returns it."""


def summary(
    config: Config,
    model: str,
    dataset: str,
    *,
    readout: str | None = None,
    figure: str | None = None,
    files: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the main numbers of a cell. Shares are fractions, and ΔP is in percentage points.

    Claims use scores at the layer of each sample's fold. All other numbers use the headline layer.

    By default, `readout` is the first that was measured. `resid` replaces a site that the model
    does not have, if the config asks for it. Without a `figure`, the cell's own tables are read.
    With a `figure`, its tables are read. Their p-values are corrected for the figure's cells. If
    an error suggests a command, the command names the config `files`.

    Raises:
        AnchorscopeError: The cell is not built, or not with this read-out.
    """
    stem = (
        f"{config.root}/tables/{figure}" if figure else f"{config.root}/delta_p/{model}/{dataset}"
    )
    tables = {
        name: _of_cell(_table(f"{stem}{end}", files), model, dataset)
        for name, end in TABLES.items()
    }
    if readout is None or readout in config.readouts:
        sites = {*tables["curve"]["site"]}
        readout = available(readout or config.readouts[0], sites)
    cell = {"model": model, "dataset": dataset}
    samples = {"samples": run_facts.funnel(config.root, model, dataset)}
    return cell | samples | of_tables(tables, readout)


def of_tables(tables: Mapping[str, pd.DataFrame], readout: str) -> dict[str, Any]:
    """Return the part of `summary` that the tables of a cell (`TABLES`) give at one read-out.

    Raises:
        AnchorscopeError: The read-out was not measured.
    """
    location, measured = Location.of(readout), measured_in(tables["curve"])
    if readout not in measured:
        raise not_measured(readout, measured, "the cell")
    curve = rows_at(tables["curve"], location)
    contrasts, controls, crossing, claims, detects = (
        rows_at(table, location) for name, table in tables.items() if name != "curve"
    )
    require(claims, ["claim", "answers", "verdict"])
    everyone = curve[(curve["condition"] == "knockout") & (curve["anchor"] == "all")]
    headline = everyone[true(everyone["headline"])].to_dict("records")[0]
    layer = int(headline["layer"])
    here = curve[curve["layer"] == layer]
    beside = controls[controls["layer"] == layer].to_dict("records")[0]
    judged = dict(zip(keys(claims), map(_claim, claims.to_dict("records")), strict=True))
    return {
        "readout": readout,
        "headline_layer": layer,
        "layers": len(everyone),
        "n": int(headline["n"]),
        "n_right": round(headline["n_right"]),
        "n_answers": round(headline["n_answers"]),
        "share_wrong": 1 - float(headline["answer_accuracy"]),
        "claims": judged,
        "signal": judged["signal"]["verdict"] == YES,
        "detection": numbers(detects),
        "layer_predicts": bool(headline["predicts"]),
        "layers_not_predicting": [int(k) for k in everyone["layer"][~true(everyone["predicts"])]],
        "flips": _flips(beside, here),
        "random_tokens": _random_tokens(contrasts[contrasts["layer"] == layer]),
        "crossing": _crossing(crossing[crossing["layer"] == layer]),
        "delta_p": _delta_p(here),
    }


def _table(path: str, files: Sequence[str]) -> pd.DataFrame:
    if not Path(path).is_file():
        extra = f" --configfile {' '.join(files)}" if files else ""
        logs = Path(path).parents[2] / "logs"
        do = (
            f"if its job failed, read {logs}; if it was built with a limit, set `limit` in your "
            f"config; otherwise run: snakemake --cores all {path}{extra}"
        )
        raise AnchorscopeError("this cell is not built", path, do, see="not-measured")
    return read_csv(path)


def _of_cell(table: pd.DataFrame, model: str, dataset: str) -> pd.DataFrame:
    """Return the rows of a cell from its own table or from a figure's."""
    if "model" not in table:
        return table.assign(model=model)
    return table[(table["model"] == model) & (table["dataset"] == dataset)]


def _number(value: Any, factor: float = 1) -> float | None:
    """Return a number divided by `factor` as a float, or None if it is missing."""
    return None if pd.isna(value) else float(value) / factor


def _interval(row: Mapping[Any, Any], value: str, ends: str) -> dict[str, float | None]:
    """Return the number in column `value`, and its interval from `<ends>_low` and `<ends>_high`."""
    columns = (value, f"{ends}_low", f"{ends}_high")
    return {name: _number(row[one]) for name, one in zip(ENDS, columns, strict=True)}


def _crossing(rows: pd.DataFrame) -> dict[str, Any] | None:
    """Return how partners were found, and swap shares by kind of answer; None without pairs."""
    found = {row["quantity"]: row for row in rows.to_dict("records")}
    if not found:
        return None
    shares = {kind: found.get(f"share_{kind}") for kind in ("right", "wrong", "gold")}
    by_wording = found.get("by_wording", {"estimate": 0})["estimate"] > 0
    return {
        "source": "wording" if by_wording else "relations",
        "shares": {kind: _share(row) for kind, row in shares.items() if row},
    }


def _share(row: Mapping[Any, Any]) -> dict[str, float | None]:
    """Return a swap share with its interval, or without if there are too few pairs for one."""
    share = _interval(row, "estimate", "ci")
    return share if row["n"] >= LEAST_PAIRS else share | {"low": None, "high": None}


def _claim(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return verdict, p, estimate, n and reason of a row of the table of claims."""
    return {
        "verdict": row["verdict"],
        "p": _number(row["p"]),
        **_interval(row, "estimate", "ci"),
        "n": int(row["n"]),
        "reason": "" if pd.isna(row["reason"]) else row["reason"],
    }


def _flips(beside: Mapping[Any, Any], curve: pd.DataFrame) -> dict[str, Any]:
    """Return shares of flips under the knockout, after the answers' own and partners' questions.

    `own` is over `n` samples. `partner` is over `n_partner`, or None if no answers were swapped.
    """
    everyone = curve[curve["anchor"] == "all"].set_index("condition")["n"]
    return {
        "own": _number(beside["flip_share"]),
        "n": int(everyone["knockout"]),
        "partner": _number(beside["crossed-knockout_flip_share"]),
        "n_partner": int(everyone.get("crossed-knockout", 0)),
    }


def _random_tokens(contrasts: pd.DataFrame) -> dict[str, float | None] | None:
    """Return the shares of flips under the knockout and under random tokens, at one layer.

    Both use samples whose control blocks as many tokens as E_Q has. Return None if not measured.
    """
    of_random = contrasts["contrast"] == RANDOM_CONTRAST
    for row in contrasts[of_random & (contrasts["quantity"] == "share")].to_dict("records"):
        shares = {"exact": _number(row["under"], 100), "random": _number(row["beside"], 100)}
        return shares | {"n": int(row["n"])}
    return None


def _delta_p(curve: pd.DataFrame) -> dict[str, Any]:
    """Return ΔP of both groups under the knockout; None for a group with too few samples."""
    large = (curve["condition"] == "knockout") & ~true(curve["thin"])
    groups = curve[large].dropna(subset="delta_p")
    groups = groups[groups["anchor"].isin(ANCHORS)]
    return dict.fromkeys(ANCHORS) | {
        row["anchor"]: _interval(row, "delta_p", "ci") | {"n": int(row["n"])}
        for row in groups.to_dict("records")
    }


def text(summary: Summary) -> str:
    """Format a cell's `summary` as lines of text for one screen."""
    layer = f"headline layer {summary['headline_layer']} of 0-{summary['layers'] - 1}"
    cell = f"{summary['model']} on {summary['dataset']}"
    lines = [f"{cell}, read-out {summary['readout']}, {layer}\n"]
    n, wrong = summary["n"], 1 - summary["n_right"] / summary["n"]
    short = too_small(n, wrong, "answers") if 0 < wrong < 1 else None
    for line in say.screen(summary, short).splitlines():
        name, _, words = line.partition("|")
        for part in textwrap.wrap(words, 80, break_on_hyphens=False):
            lines.append(f"{name:<18}{part}")
            name = ""
    return "\n".join(lines)
