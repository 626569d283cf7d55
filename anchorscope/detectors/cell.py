"""A cell as input of detection: its samples, and the training data of each outer fold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer
from anchorscope.detectors.method import Samples, Training, text_columns
from anchorscope.detectors.methods.output import P_TRUE
from anchorscope.detectors.registry import Method
from anchorscope.passes import activations
from anchorscope.passes.features import Features, reordered
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.probes.stored import Stored
from anchorscope.statistics.samples import mismatch


@dataclass(frozen=True)
class DetectionCell:
    """One cell at one read-out. Its samples are in the order of `design.ids`."""

    design: Design  # the folds of the stored probes
    answers: pd.DataFrame  # with labels and partners, see `activations.measured`
    clean: Samples
    crossed: Samples  # samples with a partner, each after the partner's question
    knockout: Features | None = None  # states of the read-out, [layers, n, width]
    fitted: Mapping[str, Fitted] = field(default_factory=dict)
    """Read-out → the stored probes, [layers, folds]; empty if the probes are not calibrated."""
    device: str = "cpu"

    def lacks(self, method: Method) -> list[str]:
        """Return which of the method's `needs` were not measured in this cell."""
        measured = {
            "before": self.clean.before in self.clean.states,
            "knockout": self.knockout is not None,
            "p-true": self.clean.outputs is not None and P_TRUE in self.clean.outputs,
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
    outputs: pd.DataFrame | None = None,
    device: str = "cpu",
) -> DetectionCell:
    """Read a cell from a folder of activations.

    The answers come from `activations.measured`. Every method uses the folds of the stored probes.
    `outputs` has the columns `id`, `condition`, `output.FEATURES` and, if measured, `p_true`.

    Raises:
        AnchorscopeError: The inputs have different samples, or `readout` was not measured.
    """
    calibrated, where = settings.scoring == "calibrated", f"read-out {readout}"
    settings = settings.model_copy(update={"scoring": "calibrated"})
    design = probes.design(answers, settings, where)
    rows = design.in_order(answers)
    if not calibrated:  # the probes have no inner folds; the outer folds stay
        design = fitting.design(rows, settings, where)
    names = [*dict.fromkeys((readout, *({before_answer(readout)} & probes.fitted.keys())))]
    cut = not rows["n_blocked_knockout"].isna().all()
    return DetectionCell(
        design,
        rows,
        _samples(folder, text_columns(rows), "clean", names, outputs),
        _samples(folder, _crossed(rows), "crossed", names, outputs),
        _states(folder, readout, "knockout", design.ids) if cut else None,
        {name: probes.fitted[name] for name in names} if calibrated else {},
        device,
    )


def _samples(
    folder: str | Path,
    text: pd.DataFrame,
    condition: str,
    readouts: Sequence[str],
    outputs: pd.DataFrame | None,
) -> Samples:
    """Return the samples of `text` with their states and token probabilities under `condition`."""
    ids = text["id"].astype(str).to_numpy(dtype=object)
    states = {name: _states(folder, name, condition, ids) for name in readouts if len(ids)}
    if outputs is not None:
        rows = outputs[outputs["condition"] == condition]
        places = _places(rows["id"], ids, f"{condition} token probabilities", folder)
        outputs = rows.iloc[places].reset_index(drop=True)
    return Samples(text, readouts[0], states, outputs)


def _states(folder: str | Path, readout: str, condition: str, ids: np.ndarray) -> Features:
    """Return the states of the samples `ids` under `condition`, in the order of `ids`."""
    measured, states = activations.read(folder, readout, condition)
    return reordered(states, _places(measured, ids, f"{condition} states", folder))


def _places(measured: Iterable[object], ids: np.ndarray, what: str, where: object) -> np.ndarray:
    """Return int64 [ids]: the place of each id in `measured`. Raise if an id is missing there."""
    places = pd.Index([str(one) for one in measured], dtype=object).get_indexer(pd.Index(ids))
    if (places < 0).any():
        missing = ids[places < 0]
        said = f"{len(missing)} samples have no {what}, such as id {missing[0]}"
        raise mismatch(said, where, "folder of activations")
    return places


def _crossed(answers: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample with a partner: the partner's question and the sample's answer."""
    rows = answers[answers["crossed_partner"].notna()]
    of_question = ["question", "subject", "relation"]
    partners = answers.set_index("id").loc[rows["crossed_partner"], of_question]
    return text_columns(rows.assign(**{name: partners[name].to_numpy() for name in of_question}))
