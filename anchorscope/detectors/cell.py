"""A cell as detection sees it: its samples, and what each outer fold learns from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from anchorscope.config.readouts import before_answer
from anchorscope.detectors.method import Method, Samples, Training, text_columns
from anchorscope.detectors.methods.output import FEATURES, P_TRUE
from anchorscope.passes import activations
from anchorscope.passes.features import Features, Reordered
from anchorscope.probes import fitting
from anchorscope.probes.fitting import Design, Fitted
from anchorscope.probes.samples import kept, mismatch
from anchorscope.probes.stored import Stored
from anchorscope.storage.errors import AnchorscopeError

LEAST_SAMPLES = 50
"""Fewer say nothing of a detector."""


@dataclass(frozen=True)
class DetectionCell:
    """A cell at one read-out, the samples in the order of the design."""

    design: Design  # the folds of the stored probes
    clean: Samples
    crossed: Samples  # the answers of `crossed_rows`, behind their partners' questions
    crossed_rows: np.ndarray  # places of those among the samples, int64 [crossed]
    partners: np.ndarray  # id of each sample's partner, [n]; None for none
    partner_source: str | None = None  # what partners have in common
    knockout: Features | None = None  # states of the read-out, [layers, n, width]
    fitted: Mapping[str, Fitted] = field(default_factory=dict)
    """Read-out → the stored probes, [layers, folds]; none where these are not calibrated."""
    device: str = "cpu"

    def __len__(self) -> int:
        return len(self.clean)

    def lacks(self, method: Method) -> str | None:
        """What a method needs and the cell does not have, in words; None if it has all."""
        measured = {
            "states": self.clean.readout in self.clean.states,
            "before": self.clean.before in self.clean.states,
            "knockout": self.knockout is not None,
            "outputs": self._has_outputs(FEATURES),
            "p-true": self._has_outputs((P_TRUE,)),
        }
        missing = [need for need in method.needs if not measured[need]]
        return f"`{missing[0]}` was not measured" if missing else None

    def _has_outputs(self, columns: tuple[str, ...]) -> bool:
        outputs = self.clean.outputs
        return outputs is not None and {*columns} <= {*outputs}

    def training(self, fold: int) -> Training:
        """The samples outside an outer fold, with the probes that were fitted to them."""
        train = self._training(self.design.inner[fold])
        fitted = {name: of_fold(one, fold) for name, one in self.fitted.items()}
        return replace(train.rows(np.flatnonzero(self.design.outer[fold])), fitted=fitted)

    def whole(self, answers: pd.DataFrame) -> Training:
        """All samples, for a detector of other answers; `answers` are the cell's."""
        rows, where = self.design.in_order(kept(answers)), f"{self.design.where}, all samples"
        return self._training(fitting.inner_folds(rows, self.design.settings, where))

    def _training(self, inner: np.ndarray) -> Training:
        z, settings, cut = self.design.z, self.design.settings, self.knockout
        return Training(self.clean, z, inner, settings, knockout=cut, device=self.device)


def of_fold(fitted: Fitted, fold: int) -> Fitted:
    """The probes of one outer fold, [layers, 1]."""
    arrays = (getattr(fitted, name)[:, [fold]] for name in fitting.ARRAYS)
    return Fitted(fitted.probes.part(slice(None), slice(fold, fold + 1)), *arrays)


def read(
    folder: str | Path,
    answers: pd.DataFrame,
    probes: Stored,
    settings: fitting.Settings,
    readout: str,
    outputs: pd.DataFrame | None = None,
    device: str = "cpu",
) -> DetectionCell:
    """The cell that a folder of activations holds.

    Args:
        answers: of the cell, see `activations.measured`.
        probes: those of the clean pass, whose folds serve every method.
        settings: of the probes.
        outputs: the table of token probabilities, `id` and `condition` first; None without.

    Raises:
        AnchorscopeError: products of different samples, a read-out that was not measured, too few
            samples.
    """
    cut = settings.model_copy(update={"scoring": "calibrated"})
    design = with_inner_folds(probes.design(kept(answers), cut, f"read-out {readout}"), answers)
    calibrated = settings.scoring == "calibrated"
    both = dict.fromkeys((readout, before_answer(readout)))
    names = [name for name in both if name in probes.fitted]
    if readout not in probes.fitted:
        do = "add it to `readouts` and run snakemake again"
        raise AnchorscopeError(f"`{readout}` was not measured", str(folder), do, see="not-measured")
    fitted = {name: probes.fitted[name] for name in names} if calibrated else {}
    return replace(in_folds(folder, answers, design, names, outputs, device), fitted=fitted)


def in_folds(
    folder: str | Path,
    answers: pd.DataFrame,
    design: Design,
    readouts: Sequence[str],
    outputs: pd.DataFrame | None = None,
    device: str = "cpu",
) -> DetectionCell:
    """The cell in folds that were cut before, without probes.

    `readouts` are those to read, the cell's own first. Other arguments and errors as of `read`.
    """
    rows, readout = design.in_order(kept(answers)), readouts[0]
    check(rows, str(folder))
    clean = {name: _states(folder, name, "clean", design.ids) for name in readouts}
    partner = rows["crossed_partner"].astype(object)
    crossed_rows = np.flatnonzero(partner.notna())
    cut = not rows["n_blocked_knockout"].isna().all()
    return DetectionCell(
        design,
        Samples(text_columns(rows), readout, clean, _outputs(outputs, "clean", design.ids)),
        _crossed(folder, rows, crossed_rows, readouts, outputs),
        crossed_rows,
        partner.where(partner.notna(), None).to_numpy(dtype=object),
        None if rows["partner_source"].isna().all() else str(rows["partner_source"].iloc[0]),
        _states(folder, readout, "knockout", design.ids) if cut else None,
        device=device,
    )


def check(answers: pd.DataFrame, where: str) -> None:
    """Refuse samples that nothing can be learned from, or told of.

    Raises AnchorscopeError: fewer than `LEAST_SAMPLES`, or labels of one class.
    """
    if len(answers) < LEAST_SAMPLES:
        what = f"{len(answers)} samples are too few for a detector: {LEAST_SAMPLES} at least"
        raise AnchorscopeError(what, where, "sample more questions", see="too-few-samples")
    check_classes(answers, where)


def check_classes(answers: pd.DataFrame, where: object) -> None:
    """Refuse labels of one class, by an AnchorscopeError."""
    if answers["label"].nunique() < 2:
        which = "wrong" if answers["label"].iloc[0] else "right"
        what = f"all {len(answers)} answers are {which}: there is nothing to detect"
        raise AnchorscopeError(what, where, "sample more questions", see="one-class")


def with_inner_folds(design: Design, answers: pd.DataFrame) -> Design:
    """The design with inner folds, where its probes were fitted without."""
    if (design.inner.max(1) >= 0).all():
        return design
    inner = np.full_like(design.inner, -1)
    rows = design.in_order(kept(answers))
    for fold, train in enumerate(design.outer):
        where = f"{design.where}, training fold {fold}"
        inner[fold, train] = fitting.inner_folds(rows[train], design.settings, where, outer=fold)
    return replace(design, inner=inner)


def _states(folder: str | Path, readout: str, condition: str, ids: np.ndarray) -> Features:
    """States of these samples in this order; of another condition than clean those measured."""
    measured, states = activations.read(folder, readout, condition)
    places = _places(measured, ids, f"{condition} states", folder, "folder of activations")
    return Reordered(states, torch.as_tensor(places))


def _places(
    measured: Iterable[object], ids: np.ndarray, what: str, where: object, product: str
) -> np.ndarray:
    """The places of samples among those measured, int64 [ids]; raises AnchorscopeError: not all."""
    places = pd.Index([str(one) for one in measured], dtype=object).get_indexer(pd.Index(ids))
    if (places < 0).any():
        missing = ids[places < 0]
        said = f"{len(missing)} samples have no {what}, id {missing[0]} first"
        raise mismatch(said, where, product)
    return places


def _outputs(outputs: pd.DataFrame | None, condition: str, ids: np.ndarray) -> pd.DataFrame | None:
    """The rows of a condition in the order of the samples."""
    if outputs is None:
        return None
    rows = outputs[outputs["condition"] == condition]
    where = f"outputs, {condition}"
    places = _places(rows["id"], ids, "token probabilities", where, "outputs")
    return rows.iloc[places].reset_index(drop=True)


def _crossed(
    folder: str | Path,
    answers: pd.DataFrame,
    rows: np.ndarray,
    readouts: Sequence[str],
    outputs: pd.DataFrame | None,
) -> Samples:
    """Each answer behind its partner's question."""
    text = text_columns(answers.iloc[rows])
    places = pd.Index(answers["id"].astype(str)).get_indexer(
        pd.Index(answers["crossed_partner"].iloc[rows].astype(str))
    )
    partners = text_columns(answers.iloc[places])
    of_question = ["question", "subject", "relation"]
    text[of_question] = partners[of_question]
    ids = text["id"].astype(str).to_numpy(dtype=object)
    states = {name: _states(folder, name, "crossed", ids) for name in readouts if len(rows)}
    return Samples(text, readouts[0], states, _outputs(outputs, "crossed", ids))
