"""Measure a model in memory on the user's questions: the whole method as one function."""

from __future__ import annotations

import html
import logging
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope import statements
from anchorscope.answers.rows import Asked, Rows, added, answer, arounds_of, ask, settings_of
from anchorscope.cell import tables
from anchorscope.config.readouts import Location, not_measured
from anchorscope.config.sections import Mark
from anchorscope.config.settings import Config
from anchorscope.curve.per_sample import per_sample
from anchorscope.detectors import card
from anchorscope.detectors.detector import Detector, Origin
from anchorscope.detectors.export import export
from anchorscope.models.loading import wrapped
from anchorscope.passes import activations
from anchorscope.passes.planning import conditions_of
from anchorscope.probes import fitting, scoring
from anchorscope.storage.counts import Counts, in_words
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.progress import shown
from anchorscope.styles import default_style

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.figures.style import Chart
    from anchorscope.models.families import Loaded
    from anchorscope.passes.batches import Plan

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Measured:
    """Results of a measurement."""

    table: pd.DataFrame  # ΔP by layer, condition and group, with the columns of a figure's table
    contrasts: pd.DataFrame  # effect of the knockout minus that of random tokens, with intervals
    controls: pd.DataFrame  # AUCs of probes and text models, shares of flips, by layer
    crossing: pd.DataFrame  # estimates from swapped answers, such as the pair term, by layer
    claims: pd.DataFrame  # verdict on each claim, with its reason
    summary: pd.DataFrame  # how well each read-out detects wrong answers, see docs/figures.md
    answers: pd.DataFrame  # answer, anchors and label of each question, or why it was dropped
    # each sample at the headline layer of each read-out: answer, label, group, p and ΔP
    samples: pd.DataFrame
    scores: pd.DataFrame  # out-of-fold logit s and p by sample, layer, read-out, condition
    counts: Counts  # rows in, samples measured, and rows dropped by reason
    detectors: dict[str, Detector]  # by read-out; empty if the probes are not calibrated
    settings: Config
    given: bool  # whether answers came with the rows
    labelled: bool  # whether labels of these answers came with the rows
    prompt: str  # name of the prompt style

    @property
    def _detection(self) -> pd.DataFrame:
        """The summary in words, with a column for each read-out."""
        rows = self.summary.to_dict("records")
        names = self.summary["site"] + "/" + self.summary["position"]
        return pd.DataFrame(
            {name: statements.detection(row) for name, row in zip(names, rows, strict=True)}
        )

    @property
    def _in_words(self) -> str:
        """One line of text with the numbers of samples measured and left out."""
        model, dataset = self.table[["model", "dataset"]].iloc[0]
        why = in_words(self.counts.dropped)
        kept = f"{self.counts.kept:,} of {self.counts.total:,} samples"
        return f"{model} on {dataset}: {kept} measured; left out: {why or 'none'}"

    def __repr__(self) -> str:
        """Return the counts in a line, and the summary."""
        return f"{self._in_words}\n{self._detection.to_string()}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the figure as a picture, the counts and the summary."""
        from anchorscope.figures.fit import as_svg

        picture, rows = as_svg(self.chart().to_dict()), self._detection.to_html()
        return f"{picture}<p>{html.escape(self._in_words)}</p>{rows}"

    def detector(self, readout: str | None = None) -> Detector:
        """Return the detector of `readout`; None means the first measured. It scores other answers.

        Raises:
            AnchorscopeError: The read-out was not measured, or its probes are not calibrated.
        """
        chosen = readout or next(iter(self.detectors), "")
        if chosen not in self.detectors:
            do = nearest(chosen, self.detectors, "measure this read-out with calibrated probes")
            raise AnchorscopeError(f"there is no detector of `{chosen}`", None, do, see="detector")
        data = str(self.table["dataset"].iloc[0])
        return replace(self.detectors[chosen], data=data, table=card.numbers(self.summary, chosen))

    def chart(self, readout: str | None = None, **chosen: Any) -> Chart:
        """Draw the figure of a read-out.

        Args:
            readout: A read-out such as `mlp/final`; by default the first that was measured.
            chosen: `title`, or `style` (keys of the config's `chart`).

        Raises:
            AnchorscopeError: The read-out was not measured.
        """
        # This loads altair, which `measure` does not need.
        from anchorscope.figures import main as main_figure

        names = {name: self.table[name].unique() for name in ("model", "dataset")}
        return main_figure.chart(
            self.table,
            self.controls,
            self.crossing,
            self.claims,
            panels=[(name, name) for name in names["model"]],
            datasets=[(name, name) for name in names["dataset"]],
            readout=Location.of(self._measured(readout)),
            level=self.settings.bootstrap.level,
            **{"title": main_figure.title_of("knockout"), **chosen},
        )

    def methods(self, readout: str | None = None) -> str:
        """Write the methods paragraphs for a paper, in Markdown, as the workflow does.

        Args:
            readout: A read-out such as `mlp/final`; by default the first that was measured.

        Raises:
            AnchorscopeError: The read-out was not measured.
        """
        from anchorscope.report import cell_summary, methods

        tables = {name: getattr(self, name) for name in cell_summary.TABLES if name != "curve"}
        cell = cell_summary.of_tables({"curve": self.table, **tables}, self._measured(readout))
        model, dataset = self.table[["model", "dataset"]].iloc[0]
        about = methods.About(
            title="Methods",
            models=[model],
            datasets=[dataset],
            given=[dataset] if self.given else [],
            labelled=[dataset] if self.labelled else [],
            prompts=[self.prompt],
            lost=methods.lost(self.counts.dropped.items()),
        )
        return methods.rendered(self.settings, about, [cell | {"name": f"{model} on {dataset}"}])

    def _measured(self, readout: str | None) -> str:
        """Return `readout`, or the first that was measured; refuse one that was not measured."""
        measured = list(dict.fromkeys(self.scores["readout"].astype(str)))
        if readout is not None and readout not in measured:
            raise not_measured(readout, measured, "measure")
        return readout or measured[0]


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    table: Rows,
    *,
    prompt: str | None = None,
    examples: Rows | None = None,
    names: tuple[str, str] = ("model", "questions"),
    **settings: Any,
) -> Measured:
    """Let a model answer questions, block attention to E_Q, and measure ΔP at every layer.

    The stages of the workflow run one after the other. Activations are kept in a temporary folder.
    The model is set to evaluation mode, and its parameters no longer require gradients.

    Args:
        model: A causal language model, with `sdpa` or `eager` attention.
        tokenizer: Its fast tokenizer.
        table: A frame, or a list of dicts, with a row for each question. Its columns are
            `question`, `answers` (a text or a list), and any other field that the config allows for
            a dataset. Further columns are ignored.
        prompt: Name of the prompt style, see `styles.STYLES`. The default is `few_shot`. If
            the tokenizer has a chat template, `prompt` is required.
        examples: Worked examples for styles that show them, with the same columns as `table`. Rows
            that share a question or subject with `table` are left out. By default a tenth of
            `table`, at most 20 rows, is held back for examples and not measured, with all rows that
            share a question or subject with these.
        names: Names of model and dataset in tables and figures.
        settings: Keys of config.yaml: `anchors`, `batch_tokens`, `bootstrap`, `conditions`,
            `finder`, `generation`, `max_prompt_tokens`, `no_answer`, `probe`, `readouts`, `seed`.

    Raises:
        AnchorscopeError: A column is missing, the model cannot be measured, there is no such
            setting, no row is left to measure, or a class has too few samples to fit a probe.
    """
    chosen = settings_of(settings, Config.marked(Mark.MEASURE), "measure")
    loaded = wrapped(model, tokenizer, batch_tokens=chosen.batch_tokens)
    style = prompt or default_style(tokenizer)
    with shown(" on ".join(names)):
        return _measured(
            loaded, ask(table, style, chosen.seed, examples=examples), chosen, style, names
        )


def _measured(
    loaded: Loaded, asked: Asked, chosen: Config, style: str, names: tuple[str, str]
) -> Measured:
    """Measure the model on the questions in `asked`, see `measure`."""
    prompted, answered = answer(loaded, asked, chosen, style=style)
    if sentence := statements.hopeless(answered.loc[answered["dropped"].isna(), "label"]):
        log.warning("%s on %s: %s", *names, sentence)
    probe = fitting.ProbeSettings(**chosen.probe.model_dump(), seed=chosen.seed)
    plan = _planned(loaded, answered, chosen, probe)
    with tempfile.TemporaryDirectory() as folder:
        activations.write(folder, loaded, plan, chosen.readouts)
        answers = activations.measured(answered, folder)
        design = fitting.design(answers, probe)
        states = partial(activations.read, folder)
        passes = conditions_of(chosen.conditions.model_dump())
        measured = activations.readouts(folder, chosen.readouts)
        scores, fitted = scoring.score_cell(
            states, answers, design, measured, passes, loaded.device
        )
        origin = Origin.of(loaded, style, arounds_of(prompted, answers), chosen.prompting)
        exported = fitted if chosen.probe.scoring == "calibrated" else {}
        detectors = {
            name: export(one, name, answers, states(name, "clean", 0)[1], origin)
            for name, one in exported.items()
        }
    made = tables.of_main_run(
        scores, answers, bootstrap=chosen.bootstrap.model_dump(), seed=chosen.seed
    )
    named = {name: tables.join([names], [frame]) for name, frame in made.items()}
    return Measured(
        table=named.pop("curve"),
        **named,
        answers=answered,
        samples=per_sample(scores, answered),
        scores=pd.concat(scores.tables(), ignore_index=True),
        counts=added(asked.counts, plan.counts),
        detectors=detectors,
        settings=chosen,
        given=bool(asked.questions["response"].notna().any()),
        labelled=bool(asked.questions["label"].notna().any()),
        prompt=style,
    )


def _planned(
    loaded: Loaded, answered: pd.DataFrame, chosen: Config, probe: fitting.ProbeSettings
) -> Plan:
    """Plan the forward passes. If this fails, the error also counts the answers dropped earlier."""
    conditions = chosen.conditions.model_dump()
    try:
        return fitting.plan_passes(
            loaded, answered, "the questions", conditions=conditions, probe=probe
        )
    except AnchorscopeError as error:
        lost = Counter(answered["dropped"].dropna().astype(str))
        what = f"{error.what}; left out before: {in_words(lost) or 'none'}"
        raise AnchorscopeError(what, error.where, error.do, see=error.see) from None
