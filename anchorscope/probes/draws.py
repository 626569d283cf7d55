"""Draws: bootstrap samples from which a cell's probes are learned anew, and what they say."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.probes import samples
from anchorscope.probes.bands import Refits
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import Readout
from anchorscope.storage.files import read_arrays, write_arrays


@dataclass(frozen=True)
class Draws:
    """Samples drawn with replacement, and the scores of the probes learned from them."""

    ids: np.ndarray  # of the samples, [n]
    weights: np.ndarray  # how often each was drawn, int64 [draws, n]
    # `<read-out>/<condition>/<draw of the condition>` → s out of fold, float32 [draws, layers, n];
    # NaN where a sample was not measured
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.weights)

    def add(
        self, readout: str, condition: tuple[str, int], rows: np.ndarray, s: np.ndarray
    ) -> None:
        """Take scores [layers, draws, len(rows)] of some of the samples."""
        name, draw = condition
        whole = np.full((len(self), len(s), len(self.ids)), np.nan, dtype=np.float32)
        whole[..., rows] = s.swapaxes(0, 1)
        self.scores[f"{readout}/{name}/{draw}"] = whole

    def write(self, path: str | Path) -> None:
        write_arrays(path, self.ids, {"weights": self.weights, **self.scores})

    def refits(
        self, readout: Readout, answers: pd.DataFrame, conditions: Collection[str]
    ) -> Refits | None:
        """The read-out as the probes of each draw see it; None where there is no draw of it.

        With the effects of those conditions that it has; the answers are `samples.in_order`. Raises
        AnchorscopeError: draws and answers are not of the same samples.
        """
        places = samples.places(pd.DataFrame({"id": self.ids}), answers)
        if places is None:
            where = f"read-out {readout.name}"
            raise samples.mismatch("refitted probes scored other samples", where)
        wanted = {"clean", *readout.effects.keys() & conditions}
        wanted |= {f"replicate-{condition}" for condition in wanted}
        found: dict[tuple[str, int], np.ndarray] = {}
        for key, s in self.scores.items():
            of, condition, draw = key.rsplit("/", 2)
            if of == readout.name and condition in wanted:
                found[condition, int(draw)] = s[..., places].astype(np.float64)
        if not found:
            return None
        weights = self.weights[:, places].astype(np.float64)
        every = ({key: s[number] for key, s in found.items()} for number in range(len(self)))
        return Bootstrap(np.arange(len(places)), weights), map(readout.seen_by, every)


def none() -> Draws:
    """No draws of no samples."""
    return Draws(np.array([], dtype=object), np.zeros((0, 0), dtype=np.int64))


def read(path: str | Path) -> Draws:
    """The draws that `Draws.write` wrote."""
    ids, found = read_arrays(path, "scores of refitted probes")
    return Draws(ids, found.pop("weights"), found)
