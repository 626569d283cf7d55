"""Draws: bootstrap samples from which a cell's probes are learned anew, and what they say.

The bands of a curve need the variance of its probes; scores of refitted probes carry it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.probes import samples
from anchorscope.probes.bands import Refits
from anchorscope.probes.intervals import Bootstrap
from anchorscope.probes.samples import Readout
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic


@dataclass(frozen=True)
class Draws:
    """Samples drawn with replacement, and the scores of the probes learned from them.

    Attributes:
        ids: of the samples, [n].
        weights: how often each was drawn, int64 [draws, n].
        scores: `<read-out>/<condition>/<draw>` (of the condition) → s out of fold, float32 [draws,
            layers, n]; NaN where a sample was not measured.
    """

    ids: np.ndarray
    weights: np.ndarray
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
        """Write weights and scores."""
        write_arrays(path, self.ids, {"weights": self.weights, **self.scores})

    def refits(
        self, readout: Readout, answers: pd.DataFrame, conditions: Collection[str]
    ) -> Refits | None:
        """The read-out as the probes of each draw see it; None where there is no draw of it.

        Args:
            readout: one of `samples.readouts`, of the same answers.
            answers: as `samples.in_order` returns them.
            conditions: whose effects are wanted, where the read-out has them.

        Raises:
            AnchorscopeError: draws and answers are not of the same samples.
        """
        name = f"{readout.site}/{readout.position}"
        places = samples.places(pd.DataFrame({"id": self.ids}), answers)
        if places is None:
            raise samples.mismatch("refitted probes scored other samples", f"read-out {name}")
        found = self._scores_of(name, {*readout.effects}.intersection(conditions))
        if not found:
            return None

        def seen(number: int) -> Readout:
            own = {key: s[number][:, places].astype(np.float64) for key, s in found.items()}
            return samples.seen_by(readout, own)

        weights = self.weights[:, places].astype(np.float64)
        return Refits(Bootstrap(np.arange(len(places)), weights), map(seen, range(len(self))))

    def _scores_of(
        self, readout: str, conditions: Collection[str]
    ) -> dict[tuple[str, int], np.ndarray]:
        """(condition, its draw) → scores of a read-out, on either prompt's clean pass too."""
        wanted = {"clean", *conditions}
        wanted |= {f"replicate-{condition}" for condition in wanted}
        found = {}
        for key, s in self.scores.items():
            of, condition, draw = key.rsplit("/", 2)
            if of == readout and condition in wanted:
                found[condition, int(draw)] = s
        return found


def none() -> Draws:
    """No draws of no samples."""
    return Draws(np.array([], dtype=object), np.zeros((0, 0), dtype=np.int64))


def read(path: str | Path) -> Draws:
    """The draws that `Draws.write` wrote.

    Raises:
        AnchorscopeError: the file cannot be read.
    """
    ids, found = read_arrays(path, "the scores of refitted probes")
    return Draws(ids, found.pop("weights"), found)


def write_arrays(path: str | Path, ids: Iterable[object], arrays: dict[str, np.ndarray]) -> None:
    """Write arrays of some samples as safetensors; the ids stand in the file's metadata."""
    from safetensors.numpy import save_file

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic(path) as draft:
        save_file(whole, draft, metadata={"ids": json.dumps([str(one) for one in ids])})


def read_arrays(path: str | Path, what: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The ids and arrays that `write_arrays` wrote.

    Raises:
        AnchorscopeError: the file cannot be read; it says `what` it holds.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            ids = json.loads(file.metadata()["ids"])
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError) as error:
        raise AnchorscopeError(
            f"cannot read {what}: {error}",
            path,
            "delete the file and run snakemake again",
            see="unreadable-product",
        ) from error
    return np.array(ids, dtype=object), found
