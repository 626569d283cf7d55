"""Stored of a cell: its probes, to score whatever is measured later, and draws to refit them.

A row is scored by the probe of its sample's own fold, which has never seen the sample, nor its
subject. Nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from anchorscope.passes.features import Features
from anchorscope.probes.bands import Refits
from anchorscope.probes.fitting import ARRAYS, Fitted, out_of_fold
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.probes import Probes
from anchorscope.probes.samples import Readout, mismatch, places
from anchorscope.storage.files import read_arrays, write_arrays


@dataclass(frozen=True)
class Stored:
    """The probes of a cell."""

    ids: np.ndarray  # of the samples that they were fitted to, [n]
    fold: np.ndarray  # outer fold of each, int64 [n]
    fitted: Mapping[str, Fitted]  # read-out → its probes, of every layer and outer fold

    def logits(self, states: Features, readout: str, ids: Sequence[str]) -> np.ndarray:
        """Scores s, calibrated logits at the probes' own prior, float64 [layers, rows].

        Of hidden states [layers, rows, width] of a read-out such as `mlp/final`; `ids` names the
        sample of each row, one may have several. Raises AnchorscopeError: an id or a read-out that
        the probes were not fitted to.
        """
        places = pd.Index(self.ids).get_indexer(pd.Index(list(ids)))
        unknown = [one for one, place in zip(ids, places, strict=True) if place < 0]
        if unknown or readout not in self.fitted:
            what = f"no probe was fitted to sample {unknown[0]}" if unknown else "no such probes"
            where = f"stored probes of {', '.join(self.fitted) or 'no read-out'}; wanted: {readout}"
            raise mismatch(what, where)
        return out_of_fold(self.fitted[readout], states, self.fold[places])


def write(
    path: str | Path, ids: Iterable[object], fold: np.ndarray, fitted: Mapping[str, Fitted]
) -> None:
    """Write the probes of a cell; arguments as the attributes of `Stored`.

    Tensors `<read-out>/weights`, float32 [layers, folds, width], and `bias`, `c`, `t`, `offset`,
    `shift`, `inner_auc`, float64 [layers, folds]; `fold`, int64 [n]; the ids in the metadata.
    """
    arrays = {"fold": np.asarray(fold, dtype=np.int64)}
    for readout, of in fitted.items():
        found = {"weights": of.probes.weights.cpu().numpy(), "bias": of.probes.bias.cpu().numpy()}
        found |= {name: getattr(of, name) for name in ARRAYS}
        arrays |= {f"{readout}/{name}": array for name, array in found.items()}
    write_arrays(path, ids, arrays)


def read(path: str | Path) -> Stored:
    """The probes that `write` wrote."""
    ids, arrays = read_arrays(path, "stored probes")
    fold, fitted = arrays.pop("fold"), {}
    for readout in dict.fromkeys(name.rpartition("/")[0] for name in arrays):
        weights, bias = (torch.as_tensor(arrays[f"{readout}/{n}"]) for n in ("weights", "bias"))
        of_readout = (arrays[f"{readout}/{name}"] for name in ARRAYS)
        fitted[readout] = Fitted(Probes(weights, bias), *of_readout)
    return Stored(ids, fold, fitted)


@dataclass(frozen=True)
class Draws:
    """Samples drawn with replacement, and the scores of the probes learned from them."""

    ids: np.ndarray  # of the samples, [n]
    weights: np.ndarray  # how often each was drawn, int64 [draws, n]
    # `<read-out>/<condition>/<draw of the condition>` → s out of fold, float32 [draws, layers, n];
    # NaN where a sample was not measured
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def none(cls) -> Draws:
        """No draws of no samples."""
        return cls(np.array([], dtype=object), np.zeros((0, 0), dtype=np.int64))

    @classmethod
    def read(cls, path: str | Path) -> Draws:
        """The draws that `write` wrote."""
        ids, found = read_arrays(path, "scores of refitted probes")
        return cls(ids, found.pop("weights"), found)

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
        rows = places(pd.DataFrame({"id": self.ids}), answers)
        if rows is None:
            raise mismatch("refitted probes scored other samples", f"read-out {readout.name}")
        wanted = {"clean", *readout.effects.keys() & conditions}
        wanted |= {f"replicate-{condition}" for condition in wanted}
        found: dict[tuple[str, int], np.ndarray] = {}
        for key, s in self.scores.items():
            of, condition, draw = key.rsplit("/", 2)
            if of == readout.name and condition in wanted:
                found[condition, int(draw)] = s[..., rows].astype(np.float64)
        if not found:
            return None
        weights = self.weights[:, rows].astype(np.float64)
        every = ({key: s[number] for key, s in found.items()} for number in range(len(self)))
        return Bootstrap(np.arange(len(rows)), weights), map(readout.seen_by, every)
