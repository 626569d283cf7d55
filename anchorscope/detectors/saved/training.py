"""Fitting a detector: to all samples, its quality out of fold beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anchorscope.config.readouts import before_answer, parse
from anchorscope.config.settings import Config
from anchorscope.detectors import overlap
from anchorscope.detectors.cell import LEAST_SAMPLES
from anchorscope.detectors.methods.probe import LinearScorer, linear
from anchorscope.detectors.saved.binding import RESIDUAL, Binding
from anchorscope.detectors.saved.detector import Detector, LayerProbe, Prompting, with_source
from anchorscope.detectors.saved.evidence import Evidence, TrainingStates
from anchorscope.experiments.main_run import main_run
from anchorscope.models import loading
from anchorscope.models.rows import FieldNames, Rows, added, answer, around_of, ask, settings_of
from anchorscope.passes.features import blocks
from anchorscope.probes import fitting, samples
from anchorscope.probes.fitting import Design
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Around

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded

SETTINGS = frozenset(
    "anchors batch_tokens bootstrap finder generation max_prompt_tokens no_answer probe"
    " seed".split()
)
"""Keys of the config that `fit` takes."""
PROMPTING = ("anchors", "batch_tokens", "finder", "generation", "max_prompt_tokens", "no_answer")
"""Those that scoring needs again."""
CONDITIONS: Mapping[str, Mapping[str, int]] = {"knockout": {}, "crossed": {}}
"""Passes beside the clean one: for the pathway, and for what the probe reads."""


def fit(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Rows,
    *,
    style: str = "few_shot",
    readout: str = "mlp/final",
    examples: Rows | None = None,
    fields: FieldNames | None = None,
    source: object = "the table",
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
        examples: worked examples for `few_shot`; by default held back from `rows`.
        fields: which column holds which field, if they do not share names.
        source: what errors call the rows.
        settings: as in config.yaml, those of `SETTINGS`.

    Raises:
        AnchorscopeError: fewer than 50 labelled answers, answers of one class, what `measure`
            raises.
    """
    chosen = settings_of(settings, SETTINGS, "fit")
    loaded = loading.wrapped(model, tokenizer)
    loading.check_attention(model)
    asked = ask(rows, style, chosen.seed, examples=examples, names=fields, source=source)
    answered = answer(model, tokenizer, asked, chosen, style=style)
    detector = of_answers(
        loaded,
        answered.answers,
        chosen,
        style=style,
        around=around_of(answered.prompts),
        readout=readout,
        before=answered.counts,
    )
    commit = getattr(model.config, "_commit_hash", None)
    return with_source(detector, getattr(model, "name_or_path", None) or None, commit)


def of_answers(
    loaded: Loaded,
    answered: pd.DataFrame,
    chosen: Config,
    *,
    style: str,
    around: Around,
    readout: str = "mlp/final",
    before: Counts | None = None,
    device: Any = None,
) -> Detector:
    """Fit a detector to answers that are there, such as those of a cell.

    Args:
        answered: the table of answers.
        chosen: the settings they were made with; `probe`, `bootstrap` and `seed` hold here.
        style, around: how they were asked, see `Prompting`.
        before: rows left out before the answers.
        device: where probes are fitted; by default where the model is.

    Raises:
        AnchorscopeError: see `fit`.
    """
    _check(answered, readout)
    names = list(dict.fromkeys([readout, before_answer(readout), RESIDUAL]))
    with main_run(
        loaded, answered, "the answers", chosen, conditions=CONDITIONS, readouts=names
    ) as run:
        states = TrainingStates(run.folder, run.answers, run.design, device or loaded.device)
        probes = [final_probe(states, name) for name in dict.fromkeys([readout, RESIDUAL])]
        evidence = Evidence(states, chosen, readout, probes[0].layer)
        labels, pathway = evidence.pathway_labels(), None
        if labels is not None:
            pathway = final_pathway(states, readout, probes[0].layer, labels)
        counts = run.counts if before is None else added(before, run.counts)
        report = evidence.report() | {"counts": counts.as_dict()}
    settings = {name: chosen.model_dump(mode="json")[name] for name in PROMPTING}
    return Detector(
        Binding.of(loaded, style),
        Prompting(around, settings),
        tuple(probes),
        pathway,
        report,
        overlap.keys(states.answers),
        {"name": None, "revision": None},
    )


def final_probe(states: TrainingStates, readout: str) -> LayerProbe:
    """The probe of a read-out, fitted to all samples.

    Layer, penalty and calibration are chosen by inner folds, just as in each outer fold.
    """
    whole = fitting.design_of_all(states.answers, states.design.settings)
    parts = [fitting.fit(x, whole, device=states.device) for x in blocks(states.clean(readout))]
    fitted = fitting.join(parts)
    layer = samples.deepest_layer(fitted.inner_auc[:, 0])
    return layer_probe(linear(fitted, readout, layer), whole)


def final_pathway(
    states: TrainingStates, readout: str, layer: int, labels: pd.Series
) -> LayerProbe:
    """The probe of the pathway at one layer, fitted to all samples; `labels` are by id."""
    answers = states.answers.assign(label=states.answers["id"].map(labels))
    whole = fitting.design_of_all(answers, states.design.settings)
    x = states.clean(readout)[layer : layer + 1]
    scorer = linear(fitting.fit(x, whole, device=states.device), readout, 0)
    return layer_probe(replace(scorer, layer=layer), whole)


def layer_probe(scorer: LinearScorer, design: Design) -> LayerProbe:
    """A probe that was fitted to all samples, as it is saved."""
    share = design.z.mean()
    return LayerProbe(
        scorer.readout,
        scorer.layer,
        scorer.weights.astype(np.float32),
        scorer.bias,
        float(np.log(share / (1 - share))),
    )


def _check(answered: pd.DataFrame, readout: str) -> None:
    """Refuse a read-out that is none, and too few answers."""
    ((_, position),) = parse([readout])
    if position != "final":
        what = f"a detector reads the closing token, not `{position}`"
        do = "name a site: attn/final, mlp/final or resid/final"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    count = len(samples.kept(answered))
    if count < LEAST_SAMPLES:
        what = f"{count} labelled answers are too few: a detector takes {LEAST_SAMPLES}, better 300"
        do = "give more rows; those left out are listed in docs/what-goes-wrong.md"
        raise AnchorscopeError(what, "the answers", do, see="too-few-samples")
