"""Fitting a detector: to all samples, its quality out of fold beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer, parse
from anchorscope.config.settings import Config
from anchorscope.detectors.cell import DetectionCell, check, in_folds
from anchorscope.detectors.linear import LinearScorer, is_linear
from anchorscope.detectors.method import Method, Training
from anchorscope.detectors.methods.mixture import LEAST_SAMPLES
from anchorscope.detectors.methods.probe import fittable, headline, pathways, with_probes
from anchorscope.detectors.registry import METHODS, named
from anchorscope.detectors.saved import evidence
from anchorscope.detectors.saved.binding import Binding
from anchorscope.detectors.saved.detector import Detector
from anchorscope.experiments.main_run import MainRun, main_run
from anchorscope.models import loading
from anchorscope.models.rows import TABLE, Rows, added, answer, arounds_of, ask, settings_of
from anchorscope.passes.features import Features, Part
from anchorscope.probes import fitting, samples
from anchorscope.questions import folds
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Around

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded

RESIDUAL = "resid/final"
"""The read-out of the variant: engines that serve models can hand out its states."""
PROMPTING = ("anchors", "batch_tokens", "finder", "generation", "max_prompt_tokens", "no_answer")
"""Keys of the config that scoring needs again."""
SETTINGS = frozenset((*PROMPTING, "bootstrap", "probe", "seed"))
"""Those that `fit` takes."""


def fit(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Rows,
    *,
    style: str = "few_shot",
    readout: str = "mlp/final",
    method: str = "probe",
    examples: Rows | None = None,
    source: object = TABLE,
    **settings: Any,
) -> Detector:
    """Fit a detector of wrong answers to labelled rows.

    Args:
        model, tokenizer: as those of `anchorscope.measure`.
        rows: `question` and `answers`; `response` where the model does not answer itself, and then
            `label` (1 wrong, 0 right) in place of gold answers; `subject` and `property` where
            known.
        style: of the prompts, one of `styles.STYLES`.
        readout: such as `mlp/final`; the position is `final`.
        method: one of the registry that is linear in the states, such as `mass-mean`.
        examples: worked examples for `few_shot`; by default held back from `rows`.
        source: what errors call the rows.
        settings: as in config.yaml, those of `SETTINGS`.

    Raises:
        AnchorscopeError: fewer than 50 labelled answers, answers of one class, a method that
            cannot be saved, what `measure` raises.
    """
    chosen = settings_of(settings, SETTINGS, "fit")
    loaded = loading.wrapped(model, tokenizer, batch_tokens=chosen.batch_tokens)
    loading.check_attention(model)
    asked = ask(rows, style, chosen.seed, examples=examples, source=source)
    answered = answer(loaded, asked, chosen, style=style)
    name, commit = getattr(model, "name_or_path", None), getattr(model.config, "_commit_hash", None)
    return of_answers(
        loaded,
        answered.answers,
        chosen,
        style=style,
        around=arounds_of(answered.prompts, answered.answers),
        readout=readout,
        method=method,
        before=answered.counts,
        source={"name": name or None, "revision": commit},
    )


def of_answers(
    loaded: Loaded,
    answered: pd.DataFrame,
    chosen: Config,
    *,
    style: str,
    around: Mapping[str | None, Around],
    source: Mapping[str, str | None],
    readout: str = "mlp/final",
    method: str = "probe",
    before: Counts | None = None,
) -> Detector:
    """Fit a detector to answers that are there, such as those of a cell.

    Args:
        answered: the table of answers.
        chosen: the settings they were made with; `probe`, `bootstrap` and `seed` hold here.
        style, around: how they were asked, as `arounds_of` tells.
        source: `name` and `revision` of the model, as far as known.
        before: rows left out before the answers.

    Raises:
        AnchorscopeError: see `fit`.
    """
    way = _linear(method)
    ((_, position),) = parse([readout])
    if position != "final":
        what = f"a detector reads the closing token, not `{position}`"
        do = "name a site: attn/final, mlp/final or resid/final"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    check(samples.kept(answered), "the answers")
    names = list(dict.fromkeys((readout, RESIDUAL)))
    calibrated = chosen.probe.model_copy(update={"scoring": "calibrated"})
    with main_run(
        loaded,
        answered,
        "the answers",
        chosen.model_copy(update={"probe": calibrated}),
        conditions={"knockout": {}, "crossed": {}},  # for the pathway, and for what is read
        readouts=[*names, *map(before_answer, names)],
    ) as run:
        cells = [_cell(run, name, str(loaded.device)) for name in names]
        trained = [with_probes(cell.whole()) for cell in cells]
        scorers = [cast(LinearScorer, way.fit(train)) for train in trained]
        report = evidence.report(cells, way, run.answers, chosen.bootstrap, chosen.seed)
        counts = run.counts if before is None else added(before, run.counts)
        pathway, trained_on = _pathway(trained[0]), folds.links(run.answers)
    plain = chosen.model_dump(mode="json")
    texts = [
        {"relation": relation, "before": text.before, "after": text.after}
        for relation, text in around.items()
    ]
    return Detector(
        Binding.of(loaded, style),
        {"around": texts, "settings": {name: plain[name] for name in PROMPTING}},
        method,
        tuple(scorers),
        pathway,
        report | {"counts": counts.as_dict()},
        trained_on,
        source,
    )


def _linear(name: str) -> Method:
    """The method of this name, if it can be saved."""
    (method,) = named([name])
    if not is_linear(method):
        able = ", ".join(one.name for one in METHODS.values() if is_linear(one))
        what = f"{name} is not linear in the states, and cannot be saved"
        raise AnchorscopeError(what, "method", f"choose one of {able}", see="detector")
    return method


def _cell(run: MainRun, readout: str, device: str) -> DetectionCell:
    """The cell at a read-out, with its probes."""
    names = [readout, before_answer(readout)]
    cell = in_folds(run.folder, run.answers, run.design, names, device=device)
    if readout == RESIDUAL:
        cell = _without_last_block(cell)
    states = cell.clean.states
    fitted = {name: fitting.fit(x, run.design, device=device) for name, x in states.items()}
    return replace(cell, fitted=fitted)


def _without_last_block(cell: DetectionCell) -> DetectionCell:
    """Without the last block, whose output engines hand out normed."""

    def inner(x: Features) -> Features:
        return Part(x, range(max(1, len(x) - 1)))

    clean, crossed = (
        replace(some, states={name: inner(x) for name, x in some.states.items()})
        for some in (cell.clean, cell.crossed)
    )
    knockout = None if cell.knockout is None else inner(cell.knockout)
    return replace(cell, clean=clean, crossed=crossed, knockout=knockout)


def _pathway(train: Training) -> LinearScorer | None:
    """A probe of the pathway; None where few answers use one, or it cannot be fitted."""
    pathway = pathways(train)
    few = np.bincount(pathway, minlength=2).min() < LEAST_SAMPLES
    if few or not fittable(pathway, train.inner):
        return None
    return headline(train.labelled(pathway), train.samples.readout)
