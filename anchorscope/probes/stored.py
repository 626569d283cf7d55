"""Stored probes: those of a cell's clean pass in one file, to score whatever is measured later.

A row is scored by the probe of its sample's own fold, which has never seen the sample, nor its
subject. Nothing is fitted again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from anchorscope.passes.features import Features
from anchorscope.probes.fitting import ARRAYS, Fitted, out_of_fold
from anchorscope.probes.probes import Probes
from anchorscope.probes.samples import mismatch
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
