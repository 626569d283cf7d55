"""The whole measurement in one call, for a notebook: a loaded model, its tokenizer, questions."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope import prompts, questions
from anchorscope.errors import AnchorscopeError
from anchorscope.provenance import Counts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.figure_style import Figure

OPTIONAL = (
    "id",
    "subject",
    "property",
    "relation",
    "kind",
    "popularity",
    "anchors",
    "response",
    "label",
)
CONDITIONS: Mapping[str, Any] = {"knockout": {}, "random": {"draws": 1}, "question": {}, "noop": {}}


@dataclass(frozen=True)
class Measured:
    """What a measurement gives.

    Attributes:
        table: ΔP by layer, condition and group, the columns of a figure's table.
        contrasts: knockout against random, paired, with intervals.
        controls: what else could move the curve, by layer.
        answers: every question's answer, anchors and label, or why it was dropped.
        counts: samples in, kept, and dropped by reason.
    """

    table: pd.DataFrame
    contrasts: pd.DataFrame
    controls: pd.DataFrame
    answers: pd.DataFrame
    counts: Counts

    def chart(self, readout: str | None = None, **chosen: Any) -> Figure:
        """The figure.

        Args:
            readout: one of those measured, by default the first.
            chosen: `title`, `grouping`, or `style` (keys of the config's `chart`).
        """
        from anchorscope.figures import chart

        site, position = readout.split("/") if readout else self.table[["site", "position"]].iloc[0]
        names = {name: self.table[name].unique() for name in ("model", "dataset")}
        given = {"title": "ΔP when attention to the exact question tokens is cut", **chosen}
        return chart(
            self.table,
            panels=[(name, name) for name in names["model"]],
            datasets=[(name, name) for name in names["dataset"]],
            readout=(site, position),
            **given,
        )


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    table: pd.DataFrame,
    *,
    style: str = "few_shot",
    examples: pd.DataFrame | None = None,
    readouts: Sequence[str] = ("mlp/final",),
    conditions: Mapping[str, Mapping[str, Any] | None] = CONDITIONS,
    anchors: str = "subject+property",
    probe: Mapping[str, Any] | None = None,
    bootstrap: Mapping[str, Any] | None = None,
    max_new_tokens: int = 32,
    max_prompt_tokens: int = 1024,
    batch_tokens: int = 8192,
    names: tuple[str, str] = ("model", "questions"),
    seed: int = 0,
) -> Measured:
    """Ask a model, find the anchors, cut attention to them, and read truth at every layer.

    The same functions as the workflow's, one after the other; activations pass through a temporary
    folder.

    Args:
        model: a causal language model of a known family, in evaluation mode.
        tokenizer: its fast tokenizer.
        table: a row for each question: `question`, `answers` (a text or a list), and where known
            `subject`, `property`, `relation`, `id`, `popularity`, `anchors`, `response`, `label`.
        style: `plain`, `few_shot` or `chat`.
        examples: worked examples for `few_shot`, rows of the same columns, none of them in `table`.
        readouts: `<site>/<position>`; one pass serves all.
        conditions: what is cut, as the config's `conditions`.
        anchors: `subject+property` or `subject`.
        probe, bootstrap: as the config's sections of these names.
        max_new_tokens, max_prompt_tokens, batch_tokens: as in the config.
        names: of model and dataset, in the table and in the figure.
        seed: of examples, controls, folds and intervals.

    Raises:
        AnchorscopeError: missing columns, an unknown model family, nothing left to measure.
    """
    from anchorscope import activations, answers, baseline, controls, delta_p, scores, tables
    from anchorscope.models import wrapped
    from anchorscope.settings import Bootstrap, Probe

    loaded = wrapped(model, tokenizer)
    asked = _questions(table)
    shots = None if examples is None else _questions(examples)
    prompted, _ = prompts.build(
        asked, shots, style=style, tokenizer=tokenizer, anchors=anchors, seed=seed
    )  # fmt: skip
    answered, counts = answers.answer(
        prompted,
        asked,
        model,
        tokenizer,
        style=style,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        batch_tokens=batch_tokens,
        window=loaded.window,
    )
    planned = activations.plan(
        answered, conditions=conditions, batch_tokens=batch_tokens, window=loaded.window, seed=seed
    )
    settings = {**Probe(**(probe or {})).model_dump(), "seed": seed}
    drawn = {**Bootstrap(**(bootstrap or {})).model_dump(), "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        activations.write(folder, loaded, planned, readouts)
        measured = activations.measured(answered, folder)
        scored = pd.concat(
            [
                scores.score(
                    partial(_read, folder, readout),
                    measured,
                    readout,
                    activations.conditions_of(conditions),
                    settings,
                )
                for readout in readouts
            ]
        )
    text = baseline.text_baseline(measured, settings)
    balanced = settings["prior"] == "balanced" and settings["scoring"] == "calibrated"
    few = {name: drawn[name] for name in ("draws", "level", "seed")}
    frames = (
        delta_p.curve(scored, measured, text=text, **drawn),
        delta_p.contrasts(scored, measured, **few),
        controls.controls(
            scored,
            text,
            measured,
            balanced=settings["prior"] == "balanced" and settings["scoring"] == "calibrated",
            **few,
        ),
    )
    curve, contrasts, beside = (tables.join([names], [frame]) for frame in frames)
    return Measured(curve, contrasts, beside, answered, counts)


def _read(folder: str, readout: str, condition: str, draw: int) -> Any:
    from anchorscope import activations

    return activations.read(folder, readout, condition, draw)


def _questions(table: pd.DataFrame) -> pd.DataFrame:
    """The questions' table of a user's own."""
    missing = [name for name in ("question", "answers") if name not in table]
    if missing:
        raise AnchorscopeError(
            f"the table has no column {' and no '.join(missing)}",
            f"its columns: {', '.join(map(str, table.columns))}",
            "give each question its text and its gold answers",
        )
    fields: dict[str, Any] = {"question": "question", "answers": ["answers"]}
    fields |= {name: name for name in OPTIONAL if name in table}
    rows: list[Any] = table.to_dict("records")
    return questions.normalise(rows, fields, split=None, source="the table")[0]
