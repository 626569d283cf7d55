"""Scoring rows of a user's own: prompts, answers, one clean pass, and the probe's verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anchorscope.config.sections import Fields
from anchorscope.config.settings import Config
from anchorscope.detectors.saved.binding import Binding
from anchorscope.models import loading
from anchorscope.models.rows import FieldNames, Rows, answer, as_list, ask
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Sample, arrange
from anchorscope.passes.interventions import on
from anchorscope.probes.samples import sigmoid
from anchorscope.questions import questions
from anchorscope.questions.fields import Cells, check_columns

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.detectors.saved.detector import Detector, LayerProbe
    from anchorscope.models.families import Loaded

ROW = "row of the table"
"""Column of the numbers that stand for rows while they are read."""
NO_QUESTION = "no question"


@dataclass(frozen=True)
class _Given:
    """The rows as they were given, numbered."""

    rows: list[dict[str, Any]]  # with the column `ROW`
    fields: FieldNames  # `id` is that column
    ids: list[str]  # the rows' own, else their numbers
    keys: list[tuple[str, str | None]]  # question and response, folded as equal rows are


def scored(
    detector: Detector,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Rows,
    *,
    fields: FieldNames | None = None,
    source: object = "the table",
    readout: str | None = None,
    batch_tokens: int | None = None,
) -> pd.DataFrame:
    """A row for each row given: what `Detector.score` returns, and `subject`, `label` (or NA)."""
    probe, settings = detector.probe_of(readout), dict(detector.prompting.settings)
    loaded = loading.wrapped(model, tokenizer)
    detector.binding.check(Binding.of(loaded, detector.binding.style))
    loading.check_attention(model)
    if batch_tokens is not None:
        settings["batch_tokens"] = batch_tokens
    chosen = Config(models={}, datasets={}, figures={}, **settings)
    given = _numbered(as_list(rows), fields, source)
    style = detector.binding.style
    asked = ask(given.rows, "plain", 0, names=given.fields, source=source, unlabelled=True)
    around = detector.prompting.around
    answered = answer(model, tokenizer, asked, chosen, style=style, around=around, unlabelled=True)
    pathway = detector.pathway
    probes = [probe] if pathway is None else [probe, pathway]
    logits = _logits(loaded, answered.answers, probes, chosen.batch_tokens)
    table = answered.answers.merge(_anchors(answered.prompts), on="id", validate="one_to_one")
    table["question_anchor"] = table["question_anchor"].where(table["dropped"].isna(), None)
    table = table.join(_columns(logits, probes), on="id")
    return _as_given(table, given)


def _numbered(
    rows: Sequence[Mapping[str, Any]], names: FieldNames | None, source: object
) -> _Given:
    """Rows with numbers for ids, so that each is found again whatever its own id is."""
    columns = {name for row in rows for name in row}
    fields = dict(names or {name: name for name in Fields.model_fields if name in columns})
    fields.setdefault("question", "question")
    check_columns(rows, fields, source)
    notes, ids, keys = Counter[str](), [], []
    for number, row in enumerate(rows):
        cells = Cells(row, fields, f"{source}, row {number + 1}", notes)
        ids.append(cells.text("id", number=True) or str(number + 1))
        keys.append((questions.folded_text(cells.question or ""), cells.text("response")))
    numbered = [{**row, ROW: f"{number:09}"} for number, row in enumerate(rows)]
    return _Given(numbered, {**fields, "id": ROW}, ids, keys)


def _anchors(prompts: pd.DataFrame) -> pd.DataFrame:
    """The text of the exact question tokens of each prompt; several spans with ` … ` between."""
    texts = [
        " … ".join(row["prompt"][a:b] for a, b in zip(row["eq_start"], row["eq_end"], strict=True))
        for row in prompts.to_dict("records")
    ]
    return pd.DataFrame({"id": prompts["id"], "question_anchor": texts})


def _logits(
    loaded: Loaded, answers: pd.DataFrame, probes: Sequence[LayerProbe], batch_tokens: int
) -> pd.DataFrame:
    """What each probe says of every answer that was not dropped: a column each, ids as index."""
    usable = answers[answers["dropped"].isna()]
    samples = [planning.sample_of(row) for row in usable.to_dict("records")]
    by_id = {sample.id: values for sample, values in _passes(loaded, samples, probes, batch_tokens)}
    columns = range(len(probes))
    return pd.DataFrame.from_dict(by_id, orient="index", columns=columns, dtype=np.float64)


def _passes(
    loaded: Loaded, samples: Sequence[Sample], probes: Sequence[LayerProbe], batch_tokens: int
) -> list[tuple[Sample, list[float]]]:
    """One clean pass of the samples: each with the logit of every probe."""
    if not samples:
        return []
    plan, scored = arrange(samples, on({}), batch_tokens=batch_tokens), []
    for batch, states in runner.measure(loaded, plan, list({p.readout: None for p in probes})):
        columns = []
        for probe in probes:
            of_readout = states[f"clean.0/{probe.readout.replace('/', '.')}"]
            columns.append(probe.logits(of_readout[:, probe.layer].double().numpy()))
        for place, number in enumerate(batch.samples):
            scored.append((samples[number], [float(column[place]) for column in columns]))
    return scored


def _columns(logits: pd.DataFrame, probes: Sequence[LayerProbe]) -> pd.DataFrame:
    """Probabilities and pathway from the logits of the probe, and of the pathway's if there is."""
    from anchorscope.detectors.saved.detector import probabilities

    table = probabilities(probes[0], logits[0].to_numpy()).set_index(logits.index)
    table["p_question"] = sigmoid(logits[1].to_numpy()) if len(probes) > 1 else np.nan
    question = table["p_question"]
    names = pd.Series(np.where(question > 0.5, "Q", "A"), index=table.index, dtype=object)
    table["pathway"] = names.where(question.notna(), None)
    return table


def _as_given(table: pd.DataFrame, given: _Given) -> pd.DataFrame:
    """The table with a row for each row given: equal ones get the same scores."""
    by_id = {str(id_): place for place, id_ in enumerate(table["id"])}
    by_key = {given.keys[int(id_)]: place for id_, place in by_id.items()}
    places = [by_id.get(f"{n:09}", by_key.get(key, -1)) for n, key in enumerate(given.keys)]
    # A place of -1 is none, and gives a row of blanks.
    rows = table.reset_index(drop=True).reindex(places).reset_index(drop=True)
    rows["dropped"] = rows["dropped"].where(np.array(places) >= 0, NO_QUESTION)
    responses = [response for _, response in given.keys]
    rows["response"] = rows["answer"].where(rows["answer"].notna(), pd.Series(responses))
    return rows.assign(id=given.ids, answer_anchor=rows["ea_text"])
