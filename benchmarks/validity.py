"""Writes the measured tables of docs/validity.md anew from the tables of a run.

    snakemake --cores all all calibration null-controls calibration-experiments
    python benchmarks/validity.py

Each table stands between `<!-- table: name -->` and `<!-- end -->`; the words around it are a
person's, and have to be read again when the numbers change. Tables of the experiments are left as
they are where `calibration-experiments.csv` was not built.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

PAGE = Path(__file__).resolve().parents[1] / "docs/validity.md"
SITES = ("attn", "mlp", "resid")
POSITIONS = ("final", "last_answer", "prompt_end")
KINDS = ("surprise", "tempting", "truism", "myth", "redundant", "neutral", "unseen")
MEASURES = {
    ("knockout", "knockout", "logit"): "`knockout`: −Δlogit",
    ("patching", "matched", "flip"): "`patching`, `matched`: flips",
    ("patching", "placebo", "flip"): "`patching`, `placebo`: flips",
    ("dose", "0", "flip"): "`dose` 0: flips",
    ("dose", "0.25", "flip"): "`dose` ¼: flips",
    ("dose", "0.5", "flip"): "`dose` ½: flips",
    ("windows", "2", "flip"): "`windows`, layer 2 alone: flips",
    ("saliency", "answer", "flow"): "`saliency`, E_Q to E_A: logits",
    ("answer-only", "answer-only", "flip"): "`answer-only`: flips",
    ("boundary", "boundary", "logprob"): "`boundary`: nats a token",
}
"""Experiment, arm and measure, and its name on the page."""


def rows(cells: Iterable[Sequence[str]]) -> str:
    return "\n".join(" | ".join(cell) for cell in cells)


def name(key: str) -> str:
    """`calibration-qwen3-seed-1` → `Qwen3 seed 1`, `world-two-hop` → `Two-hop`."""
    short = key.removeprefix("calibration-").removeprefix("world-")
    return short.replace("-seed-", " seed ").capitalize()


class Calibration:
    """`calibration.csv` at each read-out's headline layer, grouped by own flips."""

    def __init__(self, tables: Path) -> None:
        whole = pd.read_csv(tables / "calibration.csv").astype({"z": str})
        self.every = whole[whole["headline"] & (whole["grouping"] == "per_layer")]
        mlp, final = self.every["site"] == "mlp", self.every["position"] == "final"
        self.default = self.every[mlp & final]
        self.cells = list(dict.fromkeys(zip(whole["model"], whole["dataset"], strict=True)))

    def value(self, cell: tuple[str, str], kind: str, column: str) -> float:
        table = self.default
        here = (table["model"] == cell[0]) & (table["dataset"] == cell[1])
        found = table.loc[here & (table["kind"] == kind) & (table["z"] == "all"), column]
        return float(found.iloc[0])

    def by_cell(self) -> str:
        def line(cell: tuple[str, str]) -> list[str]:
            def at(kind: str, column: str) -> float:
                return self.value(cell, kind, column)

            return [
                name(cell[0]),
                name(cell[1]),
                f"{at('all', 'pathway_auc'):.3f}",
                f"{at('against-prior', 'sensitivity'):.2f}",
                f"{at('truism', 'specificity'):.2f}; {at('myth', 'specificity'):.2f}",
                f"{at('all', 'flip_share'):.2f}; {at('all', 'random_flip_share'):.3f}",
                f"{at('against-prior', 'answer_auc'):.2f}",
            ]

        return rows(map(line, self.cells))

    def by_kind(self) -> str:
        def line(kind: str) -> list[str]:
            found = self.default[(self.default["kind"] == kind) & (self.default["z"] == "all")]
            mean = found.mean(numeric_only=True)
            shares = [mean[key] for key in ("flip_share", "verdict_flip", "random_flip_share")]
            truth = f"{mean['n_truth_q']:.0f}; {mean['n_truth_a']:.0f}"
            return [f"`{kind}`", f"{mean['n']:.0f}", *(f"{x:.2f}" for x in shares), truth]

        return rows(map(line, KINDS))

    def by_readout(self) -> str:
        whole = self.every[(self.every["kind"] == "all") & (self.every["z"] == "all")]

        def line(site: str, position: str) -> list[str]:
            found = whole[(whole["site"] == site) & (whole["position"] == position)]
            mean = found.mean(numeric_only=True)
            return [
                f"`{site}/{position}`",
                f"{mean['probe_auc']:.2f}",
                f"{mean['pathway_auc']:.2f} ({found['pathway_auc'].min():.2f})",
                f"{mean['flip_share']:.2f}; {mean['random_flip_share']:.2f}",
            ]

        return rows(line(site, position) for site in SITES for position in POSITIONS)


def nulls(tables: Path) -> str:
    """Each null control at the default read-out, and at how many of all it makes a false claim."""
    table = pd.read_csv(tables / "null-controls.csv")
    empty = table.groupby("control")["empty"].agg(["sum", "size"])
    table = table[(table["site"] == "mlp") & (table["position"] == "final")]
    return rows(
        [
            row.control,
            f"{row.probe_auc:.2f} ({row.auc_low:.2f}–{row.auc_high:.2f})",
            "–" if pd.isna(row.floor) else f"`{row.floor}`, {row.floor_auc:.2f}",
            ends(row, "own_crossed", 1),
            ends(row, "pair_right"),
            "–" if pd.isna(row.pair_gold) else signed(row.pair_gold),
            "none" if pd.isna(row.made) else f"**{row.made}**",
            f"{empty['sum'][row.control]} of {empty['size'][row.control]}",
        ]
        for row in table.itertuples()
    )


def ends(row: Any, name: str, digits: int = 2) -> str:
    """A number with its interval: `1.94 (1.52 to 2.39)`."""
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    if pd.isna(value):
        return "–"
    value, low, high = (signed(number, digits) for number in (value, low, high))
    return f"{value} ({low} to {high})"


def signed(value: float, digits: int = 2) -> str:
    """A number with a true minus sign, and none before a 0: `−1.77`."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not float(text) else text.replace("-", "−")


def crossing(tables: Path) -> str:
    """The pair terms and claims of the calibration's cells at the default read-out."""
    table = pd.read_csv(tables / "demo.crossing.csv")
    table = table[(table["site"] == "mlp") & (table["position"] == "final") & table["headline"]]
    return rows(
        [
            f"{name(row.model)} on {name(row.dataset)}",
            f"{row.n_right}; {row.n_wrong}; {row.n_gold}",
            ends(row, "pair_right"),
            f"{signed(row.pair_right_cut)}; {signed(row.pair_right_random)}",
            ends(row, "pair_wrong"),
            ends(row, "pair_gold"),
            f"{row.share_question:.2f}, {row.share_answer:.2f}, {row.share_pair:.2f}",
            f"{row.interaction}, {row.through_eq}, {row.truth}",
        ]
        for row in table.itertuples()
    )


class Experiments:
    """`calibration-experiments.csv` at the default read-out."""

    def __init__(self, tables: Path, cells: Sequence[tuple[str, str]]) -> None:
        whole = pd.read_csv(tables / "calibration-experiments.csv").astype({"arm": str})
        whole = whole[(whole["site"] == "mlp") & (whole["position"] == "final")]
        here = pd.MultiIndex.from_frame(whole[["model", "dataset"]]).isin(cells)
        keys = ["experiment", "arm", "measure"]
        self.calibrated = dict(list(whole[here].groupby(keys)))
        self.nulls = dict(list(whole[~here].groupby(keys)))

    def by_kind(self) -> str:
        """What each makes of the planted kinds, over the calibration's cells."""
        columns = ("surprise", "tempting", "truism", "myth", "auc", "control_auc")
        return rows(
            [label, *(spread(self.calibrated[key][column]) for column in columns)]
            for key, label in MEASURES.items()
        )

    def ranks(self) -> str:
        """The rank correlation with pair terms, in the calibration's cells and others."""

        def line(label: str, cells: pd.DataFrame, nulls: pd.DataFrame | None) -> list[str]:
            pairs = f"{cells['n_pair'].mean():.0f}"
            in_nulls = ["–", "–"] if nulls is None else [spread(nulls["rank"]), above_0(nulls)]
            return [label, spread(cells["rank"]), above_0(cells), pairs, *in_nulls]

        return rows(
            line(label, self.calibrated[key], self.nulls.get(key))
            for key, label in MEASURES.items()
        )


def above_0(cells: pd.DataFrame) -> str:
    """In how many of the cells that have a rank correlation its interval lies above 0."""
    return f"{(cells['rank_low'] > 0).sum()} of {cells['rank'].notna().sum()}"


def spread(values: pd.Series) -> str:
    """Mean, lowest and highest of the cells: `.97 (.81 to 1.00)`."""
    if values.isna().all():
        return "–"
    mean, low, high = (f"{x:.2f}" for x in (values.mean(), values.min(), values.max()))
    text = mean if low == high else f"{mean} ({low} to {high})"
    return re.sub(r"\b0\.", ".", text).replace("-", "−").replace("−.00", ".00")


def experiment_floors(tables: Path) -> str:
    """Every floor of the experiments in the mean, its worst cell, and whether all of it holds."""
    table = pd.read_csv(tables / "calibration-experiments-floors.csv")
    lines = []
    for floor, part in table[table["scope"] != "empty"].groupby("floor", sort=False):
        texts = []
        for scope in ("mean", "cell"):
            own = part[part["scope"] == scope]
            texts.append(
                "–" if own.empty else f"{own['required'].iloc[0]}: {spread(own['measured'])}"
            )
        lines.append([str(floor), *texts, "yes" if part["holds"].all() else "**no**"])
    return rows(lines)


def written(page: str, tables: dict[str, str]) -> str:
    """The page with these tables' rows below their two heading lines.

    Raises:
        KeyError: the page has no such table.
    """
    for key, text in tables.items():
        pattern = re.compile(rf"(<!-- table: {key} -->\n\n.+\n.+\n)(?:.+\n)*(\n<!-- end -->)")
        page, found = pattern.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if not found:
            raise KeyError(f"{PAGE.name} has no table named {key}")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    chosen = parser.parse_args()
    tables = chosen.results / "tables"
    calibration = Calibration(tables)
    found = {
        "cells": calibration.by_cell(),
        "kinds": calibration.by_kind(),
        "readouts": calibration.by_readout(),
        "nulls": nulls(tables),
        "crossing": crossing(tables),
    }
    if (tables / "calibration-experiments.csv").exists():
        experiments = Experiments(tables, calibration.cells)
        found |= {
            "experiments": experiments.by_kind(),
            "experiment-floors": experiment_floors(tables),
            "ranks": experiments.ranks(),
        }
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
