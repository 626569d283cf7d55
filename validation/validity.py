"""Write the measured tables of docs/validity.md anew from the tables of a run.

    snakemake --cores all all calibration null-controls calibration-experiments
    python -m validation.validity

Each table is between `<!-- table: name -->` and `<!-- end -->`. Read the words around it again
when the numbers change. The table of the experiments stays if `calibration-experiments.csv` is not
built. The tables `claims` and `through` are copied from `validation.simulations.claims`.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

PAGE = Path(__file__).resolve().parents[1] / "docs/validity.md"
CONTROLS = {
    "untrained": "an untrained network reads a trained model's answers",
    "ungraded": "trained, but never told which answers are right",
    "question-irrelevant": "every answer word is always right, or never",
    "shuffled": "probes fitted to shuffled labels",
    "additive": "the answer word and the property each tell the label",
    "order": "right or wrong by the order of two words of the question",
    "type": "right where the answer is of the kind asked for, in a network that knows kinds",
    "familiar": (
        "the sum of a number of the name and one of the answer word, both known to the network"
    ),
}
"""Null control → what it is."""
MEASURES = {
    ("knockout", "knockout", "logit"): "`knockout`: −Δlogit",
    ("patching", "matched", "flip"): "`patching`, `matched`: flips",
    ("patching", "placebo", "flip"): "`patching`, `placebo`: flips",
    ("windows", "2", "flip"): "`windows`, layer 2 alone: flips",
    ("saliency", "answer", "flow"): "`saliency`, E_Q to E_A: logits",
    ("answer-only", "answer-only", "flip"): "`answer-only`: flips",
}
"""Experiment, arm and measure, and its name on the page."""


def rows(cells: Iterable[Sequence[str]]) -> str:
    """Return the rows of a Markdown table."""
    return "\n".join(" | ".join(cell) for cell in cells)


def name(key: str) -> str:
    """Return a name to read, such as `Qwen3 seed 1` for `calibration-qwen3-seed-1`."""
    short = key.removeprefix("calibration-").removeprefix("world-")
    return short.replace("-seed-", " seed ").capitalize()


def at_default(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the default read-out."""
    return table[(table["site"] == "mlp") & (table["position"] == "final")]


def cells(tables: Path) -> str:
    """Return the results of each calibration cell at the headline layer."""
    table = at_default(pd.read_csv(tables / "calibration.csv").astype({"z": str}))
    table = table[table["headline"] & (table["z"] == "all")]

    lines = []
    for (model, dataset), cell in table.groupby(["model", "dataset"], sort=False):
        of = cell.set_index("kind")
        every, against = of.loc["all"], of.loc["against-prior"]
        lines.append(
            [
                name(model),
                name(dataset),
                f"{every['pathway_auc']:.3f}",
                f"{against['sensitivity']:.2f}",
                "; ".join(f"{of['specificity'][kind]:.2f}" for kind in ("truism", "myth")),
                f"{every['flip_share']:.2f}; {every['random_flip_share']:.3f}",
                f"{against['answer_auc']:.2f}",
            ]
        )
    return rows(lines)


def nulls(tables: Path) -> str:
    """Return the null controls at the default read-out, and count empty read-outs."""
    table = pd.read_csv(tables / "null-controls.csv")
    empty = table.groupby("control")["empty"].agg(["sum", "size"])
    return rows(
        [
            f"`{row.control}`: {CONTROLS[row.control]}",
            f"AUC {ends(row, 'auc_shuffled')}" if pd.isna(row.margin) else ends(row, "margin"),
            ends(row, "pair_right"),
            "–" if pd.isna(row.pair_gold) else signed(row.pair_gold),
            f"{empty['sum'][row.control]} of {empty['size'][row.control]}",
        ]
        for row in at_default(table).itertuples()
    )


def ends(row: Any, name: str) -> str:
    """Return the number of a column with its interval."""
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return "–" if pd.isna(value) else interval(value, low, high)


def interval(value: float, low: float, high: float) -> str:
    """Return a number with its interval: `1.94 (1.52 to 2.39)`."""
    return f"{signed(value)} ({signed(low)} to {signed(high)})"


def signed(value: float) -> str:
    """Return a number with a true minus sign, and none before a 0: `−1.77`."""
    text = f"{value:.2f}"
    return text.removeprefix("-") if not float(text) else text.replace("-", "−")


def experiments(tables: Path) -> str:
    """Return each experiment's results over the calibration's cells at the default read-out."""
    cells = pd.read_csv(tables / "calibration.csv")[["model", "dataset"]].drop_duplicates()
    whole = pd.read_csv(tables / "calibration-experiments.csv").astype({"arm": str})
    found = at_default(whole).merge(cells).groupby(["experiment", "arm", "measure"])
    columns = ("surprise", "tempting", "truism", "myth", "auc", "control_auc", "rank")
    return rows(
        [label, *(spread(found.get_group(key)[column]) for column in columns)]
        for key, label in MEASURES.items()
    )


def spread(values: pd.Series) -> str:
    """Return mean, lowest and highest of the cells: `.97 (.81 to 1.00)`."""
    if values.isna().all():
        return "–"
    mean, low, high = (f"{x:.2f}" for x in (values.mean(), values.min(), values.max()))
    text = mean if low == high else f"{mean} ({low} to {high})"
    return re.sub(r"\b0\.", ".", text).replace("-", "−").replace("−.00", ".00")


def written(page: str, tables: dict[str, str]) -> str:
    """Return the page with the rows of these tables.

    Raises:
        KeyError: The page has no such table.
    """
    for key, text in tables.items():
        pattern = re.compile(rf"(<!-- table: {key} -->\n\n.+\n.+\n)(?:.+\n)*(\n<!-- end -->)")
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if not found:
            raise KeyError(f"{PAGE.name} has no table named {key}")
    return page


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    tables = parser.parse_args().results / "tables"
    found = {"cells": cells(tables), "nulls": nulls(tables)}
    if (tables / "calibration-experiments.csv").exists():
        found["experiments"] = experiments(tables)
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
