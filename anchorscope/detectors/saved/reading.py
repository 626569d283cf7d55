"""Rows of a user's own: prompts, answers, one clean pass, and what a detector says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.saved.binding import Binding
from anchorscope.detectors.saved.detector import PATHWAY, Detector
from anchorscope.models import loading
from anchorscope.models.rows import Rows, answer, as_list, ask, settings_of
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.interventions import on
from anchorscope.probes.samples import sigmoid
from anchorscope.questions import questions
from anchorscope.questions.fields import RowCells
from anchorscope.styles import Around

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded

NO_QUESTION = "no question"


def scored(
    detector: Detector,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Rows,
    readout: str | None,
    source: object,
    batch_tokens: int | None,
) -> pd.DataFrame:
    """A row for each row given: `detector.COLUMNS`, the logit, and the columns of the answers.

    What a detector says is blank where a row has a reason in `dropped`. Arguments and errors as of
    `Detector.score`.
    """
    scorers = {"logit": detector.scorer_of(readout)}
    scorers |= {PATHWAY: detector.pathway} if detector.pathway else {}
    binding, prompting = detector.binding, detector.prompting
    around = {one["relation"]: Around(one["before"], one["after"]) for one in prompting["around"]}
    settings = {**prompting["settings"]}
    settings |= {"batch_tokens": batch_tokens} if batch_tokens else {}
    chosen = settings_of(settings, frozenset(settings), "score")
    loaded = loading.wrapped(model, tokenizer, batch_tokens=chosen.batch_tokens)
    binding.check(Binding.of(loaded, binding.style))
    loading.check_attention(model)
    given = as_list(rows)
    numbered = [{**row, "id": f"{number:09}"} for number, row in enumerate(given)]
    asked = ask(numbered, "plain", 0, source=source, unlabelled=True)
    answered = answer(loaded, asked, chosen, style=binding.style, around=around, unlabelled=True)
    table = answered.answers.set_index("id")
    anchors = _question_anchors(answered.prompts).where(table["dropped"].isna(), None)
    table = table.assign(question_anchor=anchors, answer_anchor=table["ea_text"])
    table = _as_given(table.join(_logits(loaded, answered.answers, scorers)), given, source)
    missing = np.full(len(table), np.nan)
    p_question = sigmoid(table[PATHWAY].to_numpy() if PATHWAY in scorers else missing)
    pathway = np.where(p_question > 0.5, "Q", "A").astype(object)
    pathway[np.isnan(p_question)] = None
    p = detector.probabilities(table["logit"].to_numpy())
    return table.assign(**p, p_question=p_question, pathway=pathway)


def _question_anchors(prompts: pd.DataFrame) -> pd.Series:
    """The text of the exact question tokens, by id; several spans with ` … ` between."""
    texts = [
        " … ".join(row["prompt"][a:b] for a, b in zip(row["eq_start"], row["eq_end"], strict=True))
        for row in prompts.to_dict("records")
    ]
    return pd.Series(texts, index=prompts["id"], dtype=object)


def _logits(
    loaded: Loaded, answers: pd.DataFrame, scorers: Mapping[str, LinearScorer]
) -> pd.DataFrame:
    """What each scorer says of every answer that was not dropped, by one clean pass, by id."""
    usable = answers[answers["dropped"].isna()]
    logits = pd.DataFrame(np.nan, index=usable["id"], columns=list(scorers))
    if usable.empty:
        return logits
    samples = [planning.sample_of(row) for row in usable.to_dict("records")]
    plan = arrange(samples, on({}), batch_tokens=loaded.batch_tokens)
    readouts = list({one.readout: None for one in scorers.values()})
    for batch, states in runner.measure(loaded, plan, readouts):
        for name, scorer in scorers.items():
            of_readout = states[f"clean.0/{scorer.readout.replace('/', '.')}"]
            logits.loc[[samples[number].id for number in batch.samples], name] = scorer.of_states(
                [of_readout[:, layer] for layer in scorer.layers]
            )
    return logits


def _as_given(table: pd.DataFrame, given: list[dict[str, Any]], source: object) -> pd.DataFrame:
    """The table, by the rows' numbers, with a row for each row given: equal ones get the same."""
    first: dict[tuple[str, str | None], str] = {}
    names = {name: name for name in ("id", "question", "response")}
    places, ids, responses, notes = [], [], [], Counter[str]()
    for number, row in enumerate(given):
        cells = RowCells(row, names, f"{source}, row {number + 1}", notes)
        key = questions.folded_text(cells.question or ""), cells.text("response")
        places.append(first.setdefault(key, f"{number:09}"))
        ids.append(cells.text("id", number=True) or str(number + 1))
        responses.append(key[1])
    rows = table.reindex(places).reset_index(drop=True)
    asked = np.isin(places, table.index)
    return rows.assign(
        id=ids,
        response=rows["answer"].where(rows["answer"].notna(), pd.Series(responses)),
        dropped=rows["dropped"].where(asked, NO_QUESTION),
    )
