"""How much of ΔP's two groups is selection: a simulated null, and the tables of a calibration.

    python -m validation.simulations.selection [--samples 40000] [--results results/calibration]

In the null, Δlogit has nothing to do with the samples: every one is moved by noise of one size.
`per_layer` and `reference_layer` group by flips: of the layer measured, and of another layer that
sees the same move. ΔP of those that flip and of those that do not is in percentage points; Q − A
should be 0.

With a folder of results the same is printed of its cells, at the headline layer of the read-out,
for the knockout and for the random control.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.config.readouts import Pair
from anchorscope.experiments.analysis import table
from anchorscope.experiments.knockout import curve
from anchorscope.storage.files import read_csv


@dataclass(frozen=True)
class World:
    """A null world, in logits.

    Attributes:
        evidence: mean score towards the true label.
        spread: standard deviation of it between samples.
        moved: standard deviation of Δlogit.
        reading: what another layer's reading adds to score and Δlogit, standard deviation.
    """

    evidence: float
    spread: float
    moved: float
    reading: float


PROBES = {"weak": (0.4, 0.85), "fair": (0.8, 1.04), "good": (1.5, 1.3), "sure": (4.6, 1.61)}
NOISES = {"slight": 0.8, "strong": 1.8}
WORLDS = {
    f"{probe} probe, {noise} noise": World(*PROBES[probe], NOISES[noise], reading=0.4)
    for probe in PROBES
    for noise in NOISES
}
"""Their probes have AUC of about .73, .85, .95 and 1. The `sure` ones score like those of the
calibration models (median |s| 4.6), which random tokens move by 0.5 to 0.9: slight noise."""


def simulate(world: World, n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of two layers, of which the second is another reading of the first; and answers."""
    random = np.random.default_rng(seed)
    z = np.arange(n) % 2
    clean = (2 * z - 1) * world.evidence + random.normal(size=n) * world.spread
    moved = random.normal(size=n) * world.moved
    again = clean + random.normal(size=n) * world.reading
    moved_again = moved + random.normal(size=n) * world.reading
    ids = [f"{i:07}" for i in range(n)]
    parts = [
        pd.DataFrame({"id": ids, "layer": layer, "condition": name, "s": s})
        for layer, (before, by) in enumerate([(clean, moved), (again, moved_again)])
        for name, s in (("clean", before), ("knockout", before + by))
    ]
    scores = pd.concat(parts, ignore_index=True).assign(readout="mlp/final", draw=0, probe="clean")
    return scores, pd.DataFrame({"id": ids, "question": ids, "label": z})


def selection(world: World, n: int = 40_000, seed: int = 0) -> pd.DataFrame:
    """ΔP of both groups by each grouping, by the code that draws curves.

    At the layer that is not the reference, so that this has something to decide.

    Returns:
        A row for each grouping: `share` of flips, `Q`, `A`, `Q - A`, and the layer's `probe_auc`.
    """
    found = table(curve.curve, *simulate(world, n, seed), draws=2)
    other = 1 - int(found.loc[found["headline"], "layer"].iloc[0])
    return _sides(found[found["layer"] == other])


def _sides(rows: pd.DataFrame) -> pd.DataFrame:
    """The groups of a curve's rows side by side, a row for each grouping."""
    points = rows.pivot(index="grouping", columns="anchor", values="delta_p")[["Q", "A"]]
    flips = rows[rows["anchor"] == "Q"].set_index("grouping")
    points["Q - A"] = points["Q"] - points["A"]
    return points.assign(share=flips["share"], probe_auc=flips["probe_auc"])


def measured(folder: Path, readout: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Cell and condition, and its groups at the headline layer, of a folder of results."""
    site, position = Pair.of(readout)
    for path in sorted(folder.glob("delta_p/*/*.csv")):
        table = read_csv(path)
        if "grouping" not in table or "anchor" not in table:
            continue  # contrasts, controls and the like lie beside the curves
        table = table[(table["site"] == site) & (table["position"] == position)]
        for condition in ("knockout", "random"):
            rows = table[table["condition"] == condition]
            if rows.empty:
                continue
            layer = rows.loc[rows["headline"].astype(bool), "layer"].iloc[0]
            name = f"{path.parent.name} on {path.stem}, {condition}, layer {layer}"
            yield name, _sides(rows[rows["layer"] == layer])


def show(name: str, found: pd.DataFrame) -> None:
    print(f"\n{name} (AUC {found['probe_auc'].iloc[0]:.2f})")
    print(f"  {'':16}{'share':>8}{'Q':>8}{'A':>8}{'Q - A':>8}")
    for grouping, row in found.iterrows():
        points = "".join(f"{row[column]:8.1f}" for column in ("Q", "A", "Q - A"))
        print(f"  {grouping:16}{row['share']:8.3f}{points}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="such as results/calibration")
    parser.add_argument("--readout", default="mlp/final")
    args = parser.parse_args()
    for name, world in WORLDS.items():
        show(f"null: {name}", selection(world, args.samples, args.seed))
    for name, found in measured(args.results, args.readout) if args.results else ():
        show(name, found)


if __name__ == "__main__":
    main()
