"""Write the measured tables of docs/validity.md anew from the tables of a run.

    snakemake --cores all all calibration null-controls calibration-experiments
    python -m validation.validity

Each table is between `<!-- table: name -->` and `<!-- end -->`. Read the words around it again
when the numbers change. The table of the experiments stays if `calibration-experiments.csv` is not
built. The tables `claims` and `through` are copied from `validation.simulations.claims`.
"""

import argparse
import re
from collections.abc import Mapping
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
    "familiar": "the sum of a number of the name and one of the answer word, both known to the "
    "network",
}
MEASURES = {
    ("knockout", "knockout", "logit"): "`knockout`: −Δlogit",
    ("patching", "matched", "flip"): "`patching`, `matched`: flips",
    ("patching", "placebo", "flip"): "`patching`, `placebo`: flips",
    ("windows", "2", "flip"): "`windows`, layer 2 alone: flips",
    ("saliency", "answer", "flow"): "`saliency`, E_Q to E_A: logits",
    ("answer-only", "answer-only", "flip"): "`answer-only`: flips",
}
"""Experiment, arm and measure, and its name on the page."""


def name(key: str) -> str:
    """Return a name to read, such as `Qwen3` for `calibration-qwen3`."""
    return key.removeprefix("calibration-").removeprefix("world-").capitalize()


def at_default(path: Path) -> pd.DataFrame:
    """Return the rows of the default read-out in a table."""
    table = pd.read_csv(path, dtype={"z": str, "arm": str})
    return table[(table["site"] == "mlp") & (table["position"] == "final")]


def cells(tables: Path) -> str:
    """Return the results of each calibration cell at the headline layer."""
    table = at_default(tables / "calibration.csv")
    table = table[table["headline"] & (table["z"] == "all")]
    lines = []
    for (model, dataset), cell in table.groupby(["model", "dataset"], sort=False):
        of = cell.set_index("kind")
        every, against = of.loc["all"], of.loc["against-prior"]
        lines.append(
            f"{name(model)} | {name(dataset)} | {every['pathway_auc']:.3f} "
            f"| {against['sensitivity']:.2f} "
            f"| {of['specificity']['truism']:.2f}; {of['specificity']['myth']:.2f} "
            f"| {every['flip_share']:.2f}; {every['random_flip_share']:.3f} "
            f"| {against['answer_auc']:.2f}"
        )
    return "\n".join(lines)


def nulls(tables: Path) -> str:
    """Return the null controls at the default read-out, and count empty read-outs."""
    empty = pd.read_csv(tables / "null-controls.csv").groupby("control")["empty"]
    lines = []
    for row in at_default(tables / "null-controls.csv").to_dict("records"):
        control = row["control"]
        auc = "AUC " + ends(row, "auc_shuffled") if pd.isna(row["margin"]) else ends(row, "margin")
        lines.append(
            f"`{control}`: {CONTROLS[control]} | {auc} | {ends(row, 'pair_right')} "
            f"| {signed(row['pair_gold'])} | {empty.sum()[control]} of {empty.size()[control]}"
        )
    return "\n".join(lines)


def ends(row: Mapping[Any, Any], column: str) -> str:
    """Return the number of a column with its interval: `1.94 (1.52 to 2.39)`."""
    value, low, high = (signed(row[f"{column}{end}"]) for end in ("", "_low", "_high"))
    return value if value == "–" else f"{value} ({low} to {high})"


def signed(value: float) -> str:
    """Return a number with a true minus sign, none before a 0, and a dash if it is unknown."""
    text = "–" if pd.isna(value) else f"{value:.2f}".replace("-", "−")
    return text.removeprefix("−") if text == "−0.00" else text


def experiments(tables: Path) -> str:
    """Return each experiment's results over the calibration's cells at the default read-out."""
    cells = pd.read_csv(tables / "calibration.csv")[["model", "dataset"]].drop_duplicates()
    whole = at_default(tables / "calibration-experiments.csv")
    found = whole.merge(cells).groupby(["experiment", "arm", "measure"])
    columns = ("surprise", "tempting", "truism", "myth", "auc", "control_auc", "rank")
    return "\n".join(
        " | ".join([label, *(spread(found.get_group(key)[column]) for column in columns)])
        for key, label in MEASURES.items()
    )


def spread(values: pd.Series) -> str:
    """Return mean, lowest and highest of the cells: `.97 (.81 to 1.00)`."""
    mean, low, high = (signed(x) for x in (values.mean(), values.min(), values.max()))
    return re.sub(r"\b0\.", ".", mean if low == high else f"{mean} ({low} to {high})")


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
