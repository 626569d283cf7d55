"""What the tables of a cell say, as data and in words: for the report and `anchorscope show`.

The words are in `resources/report/cell.txt`; numbers in words are made here, for all templates.
"""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anchorscope.config.settings import Config
from anchorscope.figures.figure_data import at_grouping, at_readout, require, rows_at, true
from anchorscope.figures.figure_style import ANCHORS
from anchorscope.probes.strength import LEAST_AUC
from anchorscope.report import run_facts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_csv

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "report"
ENDS = ("auc", "low", "high")
Found = Mapping[str, Any]


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
    fold's layer; all else is that of the headline layer. `readout` is `<site>/<position>`, by
    default the first one measured; `files` are the config files that the command to build the cell
    must name.

    Raises AnchorscopeError: the cell is not built, or not with this read-out or grouping.
    """
    stem = f"{config.root}/delta_p/{model}/{dataset}"
    curve = _table(f"{stem}.csv", files)
    measured = list(dict.fromkeys(curve["site"] + "/" + curve["position"]))
    chosen = readout or next((r for r in config.readouts if r in measured), measured[0])
    site, _, position = chosen.partition("/")
    curve, grouping = at_grouping(at_readout(curve, (site, position)), config.grouping)
    controls, contrasts, crossing = (
        rows_at(_table(f"{stem}.{name}.csv", files), (site, position))
        for name in ("controls", "contrasts", "crossing")
    )
    require(contrasts, "effect")
    headline = controls[true(controls["headline"])].to_dict("records")[0]
    layer = int(headline["layer"])
    floor = "" if pd.isna(headline["cell_floor"]) else headline["cell_floor"]
    return {
        "model": model,
        "dataset": dataset,
        "readout": chosen,
        "headline_layer": layer,
        "layers": len(controls),
        "samples": run_facts.funnel(config.root, model, dataset),
        "n": int(headline["n"]),
        "share_wrong": _number(headline["share_wrong"]),
        "signal": bool(headline["cell_signal"]),
        "probe_auc": _interval(headline, "cell_auc", "cell_low", "cell_high"),
        "floor": {"name": floor, "auc": _number(headline["cell_floor_auc"])},
        "gain": _interval(headline, "cell_gain", "cell_gain_low", "cell_gain_high"),
        "layer_signal": bool(headline["signal"]),
        "layers_without_signal": [int(k) for k in controls["layer"][~true(controls["signal"])]],
        "prompt_end": _interval(headline, *(f"prompt_end_{end}" for end in ENDS)),
        "added": _interval(headline, *(f"added_{end}" for end in ENDS)),
        **_contrasts(contrasts[contrasts["layer"] == layer]),
        "crossing": _crossing(crossing[crossing["layer"] == layer]),
        "grouping": grouping,
        "delta_p": _delta_p(curve[curve["layer"] == layer]),
    }


def _table(path: str, files: Sequence[str]) -> pd.DataFrame:
    if not Path(path).is_file():
        extra = f" --configfile {' '.join(files)}" if files else ""
        do = f"run: snakemake --cores all {path}{extra}"
        raise AnchorscopeError("this cell is not built", path, do, see="not-measured")
    return read_csv(path)


def _number(value: Any, factor: float = 1) -> float | None:
    """A number that JSON can hold."""
    return None if pd.isna(value) else float(value) / factor


def _interval(row: Mapping[Any, Any], *names: str, factor: float = 1) -> dict[str, Any]:
    ends = zip(("value", "low", "high"), names, strict=True)
    return {end: _number(row[name], factor) for end, name in ends}


def _contrasts(here: pd.DataFrame) -> dict[str, Any]:
    """Shares of flips as fractions, and whether random cuts leave the mean ΔP alone.

    None where `random` was not run.
    """
    rows = {(row["quantity"], row["contrast"]): row for row in here.to_dict("records")}
    effect, paired = rows.get(("delta_p", "random")), rows.get(("share", "knockout-random"))
    flips: dict[str, Any] = {}
    for name in ("knockout", "random", "knockout-random"):
        if row := rows.get(("share", name)):
            said = _interval(row, "estimate", "ci_low", "ci_high", factor=100)
            flips[name.replace("-", "_minus_")] = said
    if paired:
        flips |= {"pairs": int(paired["n"]), "effect": paired["effect"]}
    random_effect = effect["effect"] if effect else None
    return {"flips": flips if paired else None, "random_effect": random_effect}


def _crossing(here: pd.DataFrame) -> dict[str, Any] | None:
    """What the probe reads of question, answer and pair, in logits; None where not measured."""
    if here.empty:
        return None
    row = here.to_dict("records")[0]
    names = ("pair_right", "pair_wrong", "truth", "agreement")
    return {
        "reads": row["reads"],
        "source": row["source"],
        **{name: _interval(row, name, f"{name}_low", f"{name}_high") for name in names},
        **{name: int(row[name]) for name in ("n_right", "n_wrong", "n_unlike")},
        **{name: _number(row[name]) for name in ("pair_from", "truth_from", "follows")},
        "shares": {name: _number(row[f"share_{name}"]) for name in ("question", "answer", "pair")},
    }


def _delta_p(here: pd.DataFrame) -> dict[str, Any]:
    """ΔP of both groups of the knockout; None where a group has too few samples."""
    groups = here[(here["condition"] == "knockout") & ~true(here["thin"])].dropna(subset="delta_p")
    groups = groups[groups["anchor"].isin(ANCHORS)]
    return dict.fromkeys(ANCHORS) | {
        row["anchor"]: _interval(row, "delta_p", "ci_low", "ci_high") | {"n": int(row["n"])}
        for row in groups.to_dict("records")
    }


def figures(value: float, digits: int = 0) -> str:
    """A number in words: `−12.3`, `1,024`; never a negative zero."""
    shown = f"{value:,.{digits}f}"
    return shown.removeprefix("-") if not float(shown.replace(",", "")) else shown.replace("-", "−")


def ends(found: Found | None, factor: float = 1, digits: int = 2, unit: str = "") -> str:
    """A number with its interval: `0.08 [0.04, 0.12]`, `97 % [93, 99]`."""
    if found is None or pd.isna(found["value"]):
        return "unknown"
    said, others = figures(factor * found["value"], digits) + unit, (found["low"], found["high"])
    if not any(map(pd.isna, others)):
        said += " [{}, {}]".format(*(figures(factor * end, digits) for end in others))
    return said.replace(" ", "\u00a0")


def templates(*, autoescape: bool) -> Environment:
    """The report's templates, with numbers in words as filters."""
    own: Any = {"undefined": StrictUndefined, "trim_blocks": True}
    made = Environment(loader=FileSystemLoader(RESOURCES), autoescape=autoescape, **own)
    made.filters |= {"figures": figures, "ends": ends}
    made.globals["least_auc"] = LEAST_AUC
    return made


def text(found: Found) -> str:
    """A cell, from `summary`, as a screen of lines."""
    layer = f"headline layer {found['headline_layer']} of 0-{found['layers'] - 1}"
    lines = [f"{found['model']} on {found['dataset']}, read-out {found['readout']}, {layer}\n"]
    words: Any = templates(autoescape=False).get_template("cell.txt").module
    for line in words.screen(found).splitlines():
        name, _, said = line.partition("|")
        for part in textwrap.wrap(said, 80):
            lines.append(f"{name:<18}{part}")
            name = ""
    return "\n".join(lines)
