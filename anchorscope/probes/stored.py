"""Stored probes of a cell, in one file, to score states that are measured later.

A row is scored by the probe of its sample's outer fold, which has not seen the sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from anchorscope.passes.features import Features
from anchorscope.probes.fitting import ARRAYS, Design, Fitted, ProbeSettings, out_of_fold
from anchorscope.probes.probes import Probes
from anchorscope.statistics.samples import mismatch, stood_for
from anchorscope.storage.files import read_arrays, write_arrays


@dataclass(frozen=True)
class Stored:
    """The probes of a cell."""

    ids: np.ndarray  # ids of the samples that the probes were fitted to, [n]
    fold: np.ndarray  # outer fold of each sample, int64 [n]
    inner: np.ndarray  # inner fold in each outer training fold, -1 outside, int64 [folds, n]
    fitted: Mapping[str, Fitted]  # read-out → its probes, of every layer and outer fold

    @classmethod
    def of(cls, design: Design, fitted: Mapping[str, Fitted]) -> Stored:
        """Store `fitted`, the probes of each read-out, with the folds of their `design`."""
        return cls(design.ids, design.fold, design.inner, fitted)

    def design(self, answers: pd.DataFrame, settings: ProbeSettings, where: str) -> Design:
        """Return the folds of the probes, so that other models can be fitted in the same folds.

        `answers` are those of the samples, see `activations.measured`. `where` names them in error
        messages.

        Raises:
            AnchorscopeError: Probes and answers have different samples.
        """
        if answers["id"].tolist() != self.ids.tolist():
            what = f"{len(self.ids)} samples of the stored probes do not match the answers"
            raise mismatch(what, where, "probes")
        z = answers["label"].to_numpy(dtype=np.int64)
        return Design(where, self.ids, z, self.fold, self.inner, stood_for(answers), settings)

    def logits(self, states: Features, readout: str, ids: Sequence[str]) -> np.ndarray:
        """Return scores s of `states`, float64 [layers, rows]: logits under the probes' prior.

        `states` are [layers, rows, width]. `ids[i]` is the sample of row i.

        Raises:
            AnchorscopeError: There is no stored probe for a sample or for the read-out.
        """
        fold = self._folds_of(readout, ids)
        return out_of_fold(self.fitted[readout], states, fold)

    def logits_at(
        self, layer: int, states: torch.Tensor, readout: str, ids: Sequence[str]
    ) -> torch.Tensor:
        """Return float64 [rows]: scores at one layer, differentiable in `states` [rows, width]."""
        fold = self._folds_of(readout, ids)
        fitted = self.fitted[readout]
        weights = fitted.probes.weights[layer, fold]
        raw = (states.to(weights.device).double() * weights.double()).sum(-1)
        t, offset, shift = (
            torch.as_tensor(array[layer, fold]).to(raw)
            for array in (fitted.t, fitted.offset, fitted.shift)
        )
        return t * (raw + fitted.probes.bias[layer, fold]) + offset - shift

    def _folds_of(self, readout: str, ids: Sequence[str]) -> np.ndarray:
        """Return the outer fold of each row's sample, int64 [rows]."""
        rows = pd.Index(self.ids).get_indexer(pd.Index(list(ids)))
        unknown = [id_ for id_, row in zip(ids, rows, strict=True) if row < 0]
        if unknown or readout not in self.fitted:
            what = f"no stored probe scores sample {unknown[0]}" if unknown else "no such read-out"
            raise mismatch(what, f"stored probes of {', '.join(self.fitted)}; wanted: {readout}")
        return np.asarray(self.fold[rows])


def write(path: str | Path, probes: Stored) -> None:
    """Write the probes of a cell.

    Each read-out has the arrays `<read-out>/weights`, float32 [layers, folds, width], and
    `<read-out>/<name>` for `bias`, `c`, `t`, `offset`, `shift` and `inner_auc`, each float64
    [layers, folds]. The file also holds `fold`, int64 [n], `inner`, int64 [folds, n], and, in the
    metadata, the ids.
    """
    arrays = {"fold": np.asarray(probes.fold, dtype=np.int64)}
    arrays["inner"] = np.asarray(probes.inner, dtype=np.int64)
    for readout, fitted in probes.fitted.items():
        arrays[f"{readout}/weights"] = fitted.probes.weights.cpu().numpy()
        arrays[f"{readout}/bias"] = fitted.probes.bias.cpu().numpy()
        arrays |= {f"{readout}/{name}": getattr(fitted, name) for name in ARRAYS}
    write_arrays(path, probes.ids, arrays)


def read(path: str | Path) -> Stored:
    """Read the probes that `write` wrote.

    Raises:
        AnchorscopeError: The file cannot be read or has no folds.
    """
    ids, arrays = read_arrays(path, "stored probes")
    if not {"fold", "inner"} <= arrays.keys():
        raise mismatch("the stored probes lack their folds", path)
    fold, inner = arrays.pop("fold"), arrays.pop("inner")
    fitted = {}
    for readout in dict.fromkeys(name.rpartition("/")[0] for name in arrays):
        weights, bias = (torch.as_tensor(arrays[f"{readout}/{n}"]) for n in ("weights", "bias"))
        of_readout = (arrays[f"{readout}/{name}"] for name in ARRAYS)
        fitted[readout] = Fitted(Probes(weights, bias), *of_readout)
    return Stored(ids, fold, inner, fitted)
