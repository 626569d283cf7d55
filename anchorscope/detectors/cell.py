"""A cell as input of detection: its samples, and the training data of each outer fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer
from anchorscope.detectors.method import Samples, Training, text_columns
from anchorscope.detectors.methods.output import P_TRUE
from anchorscope.detectors.registry import Method
from anchorscope.passes import activations
from anchorscope.passes.features import Features
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.probes.stored import Stored
from anchorscope.statistics.samples import select_rows


@dataclass(frozen=True)
class DetectionCell:
    """One cell at one read-out. Its samples are sorted by id."""

    design: Design  # the folds of the stored probes
    answers: pd.DataFrame  # with labels and partners, see `activations.measured`
    clean: Samples
    crossed: Samples  # samples with a partner, each after the partner's question
    knockout: Features | None = None  # states of the read-out, [layers, n, width]
    fitted: Mapping[str, Fitted] = field(default_factory=dict)
    """Read-out → its calibrated probes, [layers, folds]. Methods fit those that are missing."""
    device: str = "cpu"

    @property
    def crossed_places(self) -> np.ndarray:
        """The indices of the `crossed` samples among all samples, int64 [crossed]."""
        return np.flatnonzero(self.answers["crossed_partner"].notna())

    def lacks(self, method: Method) -> list[str]:
        """Return which of the method's `needs` were not measured in this cell."""
        measured = {
            "before": self.clean.before in self.clean.states,
            "knockout": self.knockout is not None,
            "p-true": P_TRUE in self.clean.outputs,
        }
        return [need for need in method.needs if not measured[need]]

    def training(self, fold: int) -> Training:
        """Return the samples outside an outer fold, with the probes that were fitted to them."""
        z, settings, cut = self.design.z, self.design.settings, self.knockout
        inner, device = self.design.inner[fold], self.device
        train = Training(self.clean, z, inner, settings, knockout=cut, device=device)
        alone = slice(fold, fold + 1)
        fitted = {name: one.part(slice(None), alone) for name, one in self.fitted.items()}
        return replace(train.rows(np.flatnonzero(self.design.outer[fold])), fitted=fitted)


def read(
    folder: str | Path,
    answers: pd.DataFrame,
    probes: Stored,
    settings: fitting.ProbeSettings,
    readout: str,
    outputs: Sequence[pd.DataFrame],
    device: str = "cpu",
) -> DetectionCell:
    """Read a cell from a folder of activations.

    The answers come from `activations.measured`. Every method uses the folds of the stored probes.
    If these are not calibrated, calibrated probes are fitted in the same folds.
    `outputs` are tables with `id`, `condition`, and further columns: `output.FEATURES`, `p_true`.

    Raises:
        AnchorscopeError: The inputs have different samples, or `readout` was not measured.
    """
    calibrated, where = settings.scoring == "calibrated", f"read-out {readout}"
    settings = settings.model_copy(update={"scoring": "calibrated"})
    design, fitted = probes.design(answers, settings, where), probes.fitted
    names = [*dict.fromkeys((readout, *({before_answer(readout)} & probes.fitted.keys())))]
    cut = not answers["n_blocked_knockout"].isna().all()
    clean = _samples(folder, text_columns(answers), "clean", names, outputs)
    if not calibrated:  # the stored probes have no inner folds
        design = fitting.design(answers, settings, where)
        fitted = {name: fitting.fit(clean.states[name], design, device=device) for name in names}
    return DetectionCell(
        design,
        answers,
        clean,
        _samples(folder, _crossed(answers), "crossed", names, outputs),
        activations.read(folder, readout, "knockout")[1] if cut else None,
        {name: fitted[name] for name in names},
        device,
    )


def _samples(
    folder: str | Path,
    text: pd.DataFrame,
    condition: str,
    readouts: Sequence[str],
    outputs: Sequence[pd.DataFrame],
) -> Samples:
    """Return the samples of `text` with their states and token probabilities under `condition`."""
    states = {name: activations.read(folder, name, condition)[1] for name in readouts if len(text)}
    where, keys = f"{folder}, {condition} token probabilities", ["condition", "id"]
    of_text = [
        select_rows(table[table["condition"] == condition], text["id"], where).drop(columns=keys)
        for table in outputs
    ]
    return Samples(text, readouts[0], states, pd.concat(of_text, axis=1))


def _crossed(answers: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample with a partner: the partner's question and the sample's answer."""
    rows = answers[answers["crossed_partner"].notna()]
    partners = select_rows(answers, rows["crossed_partner"], "partners", "folder of activations")
    asked = {name: partners[name].to_numpy() for name in ("question", "subject", "relation")}
    return text_columns(rows.assign(**asked))
