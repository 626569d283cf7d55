"""The whole method on one page: a loaded model, its tokenizer and questions, to ΔP by layer."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
from pydantic import ValidationError

from anchorscope.config.sections import Section
from anchorscope.config.settings import Bootstrap, Conditions, Probe
from anchorscope.questions import prompts, questions
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.figures.figure_style import Figure
    from anchorscope.models.families import Loaded
    from anchorscope.passes.batches import Plan
    from anchorscope.probes.draws import Draws

OPTIONAL = (
    "id",
    "subject",
    "property",
    "relation",
    "kind",
    "popularity",
    "titles",
    "anchors",
    "response",
    "label",
)
CONDITIONS: Mapping[str, Any] = {
    "knockout": {},
    "random": {"draws": 3},
    "question": {},
    "noop": {},
    "matched": {},
    "placebo": {},
}
MASKABLE = ("eager", "sdpa")
"""Implementations of attention that read a mask of our own; others pass over it in silence."""
S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class Measured:
    """What a measurement gives.

    Attributes:
        table: ΔP by layer, condition and group, the columns of a figure's table.
        contrasts: knockout against random, matched against placebo, paired, with intervals.
        controls: what else could move the curve, by layer.
        interchange: whether a probe follows its answer behind another question, by layer.
        answers: every question's answer, anchors and label, or why it was dropped.
        counts: rows in, samples measured, and what was dropped on the way, by reason.
        level: of the intervals.
    """

    table: pd.DataFrame
    contrasts: pd.DataFrame
    controls: pd.DataFrame
    interchange: pd.DataFrame
    answers: pd.DataFrame
    counts: Counts
    level: float = 0.95

    def chart(self, readout: str | None = None, **chosen: Any) -> Figure:
        """The figure.

        Args:
            readout: one of those measured, by default the first.
            chosen: `title`, `grouping`, or `style` (keys of the config's `chart`).

        Raises:
            AnchorscopeError: the read-out or the grouping was not measured.
        """
        from anchorscope.figures.figures import chart

        first = "/".join(self.table[["site", "position"]].iloc[0])
        site, _, position = (readout or first).partition("/")
        names = {name: self.table[name].unique() for name in ("model", "dataset")}
        given = {"title": "ΔP when attention to the exact question tokens is cut", **chosen}
        return chart(
            self.table,
            panels=[(name, name) for name in names["model"]],
            datasets=[(name, name) for name in names["dataset"]],
            readout=(site, position),
            level=self.level,
            **given,
        )


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    table: pd.DataFrame,
    *,
    style: str = "few_shot",
    examples: pd.DataFrame | None = None,
    few_shot_examples: int = 5,
    readouts: Sequence[str] = ("mlp/final", "mlp/prompt_end"),
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
    folder. The model is left in evaluation mode, its parameters without gradients.

    Args:
        model: a causal language model of a known family, with `sdpa` or `eager` attention.
        tokenizer: its fast tokenizer.
        table: a row for each question: `question`, `answers` (a text or a list), and where known
            `subject`, `property`, `relation`, `id`, `kind`, `popularity`, `titles`, `anchors`,
            `response`, `label`. Other columns are left alone.
        style: `plain`, `few_shot` or `chat`.
        examples: worked examples for `few_shot`, rows of the same columns; those that share a
            question or subject with `table` are left out. By default a tenth of `table`, at most
            20 rows, is held back for them and not measured.
        few_shot_examples: how many of them are shown.
        readouts: `<site>/<position>`; one pass serves all.
        conditions: what is cut, as the config's `conditions`.
        anchors: `subject+property` or `subject`.
        probe, bootstrap: as the config's sections of these names.
        max_new_tokens, max_prompt_tokens, batch_tokens: as in the config.
        names: of model and dataset, in the table and in the figure.
        seed: of examples, controls, folds and intervals.

    Raises:
        AnchorscopeError: missing columns, an unknown model family, a setting that there is not,
            nothing left to measure, too few samples of a class to fit a probe.
    """
    from anchorscope.models import answers
    from anchorscope.models.loading import wrapped
    from anchorscope.passes import runner

    cut = _section(Conditions, conditions, "conditions").model_dump()
    settings = {**_section(Probe, probe, "probe").model_dump(), "seed": seed}
    drawn = _section(Bootstrap, bootstrap, "bootstrap").model_dump()
    runner.parse(readouts)
    loaded = wrapped(model, tokenizer)
    _check_attention(model)
    asked, shots, before = _asked(table, examples, style, seed)
    prompted, _ = prompts.build(
        asked,
        shots,
        style=style,
        tokenizer=tokenizer,
        anchors=anchors,
        examples=few_shot_examples,
        replicate=cut["replicate"] is not None,
        seed=seed,
    )
    asking = answers.Settings(style, max_new_tokens, max_prompt_tokens, batch_tokens)
    answered, _ = answers.answer(prompted, asked, model, tokenizer, asking)
    planned = _planned(loaded, answered, cut, settings, batch_tokens)
    scored, measured, again = _scores(loaded, planned, answered, readouts, cut, settings)
    frames = _tables(scored, measured, again, settings, drawn, names)
    counts = _counts(before, planned.counts)
    return Measured(**frames, answers=answered, counts=counts, level=drawn["level"])


def _planned(
    loaded: Loaded,
    answered: pd.DataFrame,
    cut: Mapping[str, Any],
    settings: Mapping[str, Any],
    batch_tokens: int,
) -> Plan:
    """The passes; refused where no probe can be fitted to what they would measure."""
    from anchorscope.models.families import positions
    from anchorscope.passes import planning
    from anchorscope.probes import fitting

    probe = fitting.Settings(**settings)
    planned = planning.plan(
        answered,
        conditions=cut,
        seed=settings["seed"],
        max_positions=positions(loaded.model.config),
        fold=lambda table: fitting.design(table, probe, "the questions").fold,
        batch_tokens=batch_tokens,
        window=loaded.window,
    )
    kept = answered[answered["id"].isin([sample.id for sample in planned.samples])]
    fitting.design(kept, probe, "the questions")
    return planned


def _scores(
    loaded: Loaded,
    planned: Plan,
    answered: pd.DataFrame,
    readouts: Sequence[str],
    cut: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> tuple[pd.DataFrame, pd.DataFrame, Draws]:
    """Scores of all read-outs, the answers with what was cut in them, and refitted probes."""
    from anchorscope.passes import activations, planning
    from anchorscope.probes import scores

    conditions = planning.conditions_of(cut)
    with tempfile.TemporaryDirectory() as folder:
        activations.write(folder, loaded, planned, readouts)
        measured = activations.measured(answered, folder)
        again = scores.drawn(measured, settings)
        frames = [
            scores.score(
                partial(activations.read, folder, readout),
                measured,
                readout,
                conditions,
                settings,
                draws=again,
                device=loaded.device,
            )
            for readout in readouts
        ]
    return pd.concat(frames, ignore_index=True), measured, again


def _counts(before: Counts, after: Counts) -> Counts:
    """What was dropped on the way, from the user's rows to the samples measured."""
    dropped = Counter(before.dropped) + Counter(after.dropped)
    return Counts(before.total, after.kept, dict(dropped), {**before.notes, **after.notes})


def _tables(
    scored: pd.DataFrame,
    measured: pd.DataFrame,
    again: Draws,
    settings: Mapping[str, Any],
    drawn: Mapping[str, Any],
    names: tuple[str, str],
) -> dict[str, pd.DataFrame]:
    """Tables of `Measured` by name, `model` and `dataset` first."""
    from anchorscope.experiments import tables
    from anchorscope.experiments.knockout import cell_tables
    from anchorscope.probes import floors

    text = floors.floors(measured, settings)
    made = cell_tables.tables(
        scored, text, measured, again, probe=settings, bootstrap=drawn, seed=settings["seed"]
    )
    frames = {"table": made["curve"]}
    frames |= {name: made[name] for name in ("contrasts", "controls", "interchange")}
    return {name: tables.join([names], [frame]) for name, frame in frames.items()}


def _section(kind: type[S], given: Mapping[str, Any] | None, name: str) -> S:
    """A section of the config from plain data, with its defaults."""
    try:
        return kind(**(given or {}))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, (name, *first["loc"])))
        do = "docs/configuration.md lists the keys"
        raise AnchorscopeError(
            f"{first['msg']}: {first['input']!r}", key, do, see="python-interface"
        ) from None


def _check_attention(model: PreTrainedModel) -> None:
    used = getattr(model.config, "_attn_implementation", None)
    if used not in MASKABLE:
        raise AnchorscopeError(
            f"the attention implementation `{used}` cannot be cut token by token",
            type(model).__name__,
            'load the model with attn_implementation="sdpa"',
            see="attention",
        )


def _asked(
    table: pd.DataFrame, examples: pd.DataFrame | None, style: str, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame | None, Counts]:
    """The questions to measure, the worked examples before them, and the rows left out."""
    asked, counts = _questions(table)
    if style != "few_shot":
        return asked, None, counts
    if examples is not None:
        shots, _ = _questions(examples)
        return asked, questions.candidates(shots, asked, seed), counts
    sampled, shots = questions.sample(asked, None, seed, hold_back=True)
    if shots.empty:
        raise AnchorscopeError(
            "no row of the table can be held back as a worked example",
            f"{len(asked)} questions",
            'give `examples` of their own, or style="plain"',
            see="few-shot",
        )
    held = {"held back for few-shot examples": len(asked) - len(sampled)}
    dropped = {**counts.dropped, **held}
    return sampled, shots, Counts(counts.total, len(sampled), dropped, counts.notes)


def _questions(table: pd.DataFrame) -> tuple[pd.DataFrame, Counts]:
    """The questions' table of a user's own."""
    missing = [name for name in ("question", "answers") if name not in table]
    if missing:
        raise AnchorscopeError(
            f"the table has no column {' and no '.join(missing)}",
            f"its columns: {', '.join(map(str, table.columns))}",
            "give each question its text and its gold answers",
            see="python-interface",
        )
    fields: dict[str, Any] = {"question": "question", "answers": ["answers"]}
    fields |= {name: name for name in OPTIONAL if name in table}
    rows: list[Any] = table.to_dict("records")
    found, counts = questions.normalise(rows, fields, split=None, source="the table")
    if found.empty:
        why = ", ".join(f"{count} {reason}" for reason, count in counts.dropped.items())
        raise AnchorscopeError(
            "no question can be used",
            "the table",
            f"correct its rows: {why}",
            see="python-interface",
        )
    return found, counts
