"""Swap truth: which pathway a sample really uses, from the model's behaviour alone.

A sample's answer is put after other questions for which it has the other label. If the model's
own verdict changes with the question, the sample's truth is Q. If it stays, the truth is A. This
blocks no attention, so it can judge the knockout.

The model's verdict is `right` or `wrong`, whichever it finds likelier after the closing full stop.
Only models trained on graded answers give one (`curriculum`).
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.anchors import labels, tokens
from anchorscope.models.families import Loaded
from anchorscope.passes import partners
from anchorscope.passes.choices import choices
from anchorscope.statistics.columns import recurring
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError
from validation.curriculum import RIGHT, WRONG

Ids = tuple[int, ...]
SWAPS = 8
"""Maximum number of other questions that an answer is put after."""
FOLLOWS, STAYS = 0.8, 0.2
"""Least share of swaps with a changed verdict for truth Q, and largest share for truth A."""
PLANTED_ONLY = "myth"
"""The kind whose answer no question makes right, so that it cannot be swapped."""

NOT_PLANNED = "not as planned"
VERDICT_WRONG = "own verdict wrong"
NO_SWAP = "no swap"
MIXED = "mixed"

COLUMNS = {
    **recurring("id"),
    "kind": "kind of the fact",
    "label": "as in the answers",
    "as_planned": "whether the answer is the planted one",
    "verdict": "the model's own verdict, 1 for `wrong`",
    "n_swaps": "number of other questions that the answer was put after",
    "follows": "share of these questions for which the verdict follows the question",
    "truth": "`Q`, `A` or null",
    "why_none": "why `truth` is null",
    "planted_only": "whether the other questions were random, because the answer is right for no "
    "question",
}
"""Column of the table → what it holds."""


def truth(
    answers: pd.DataFrame, facts: pd.DataFrame, loaded: Loaded, *, seed: int = 0
) -> tuple[pd.DataFrame, Counts]:
    """Determine the swap truth and the model's own verdict of each sample.

    The model must be trained on graded answers. `facts` has the `id`, the `kind` and the `planned`
    answer of each row (None if never taught). `seed` draws the questions to swap with.

    Returns:
        One row per measured sample, in the order of the answers, with the columns `COLUMNS`, and
        the counts of samples with a truth, and of those without one by reason.

    Raises:
        AnchorscopeError: A verdict is not a single token, or its logit is not finite.
    """
    samples = _samples(answers[answers["dropped"].isna()], facts)
    samples["verdict"] = _verdicts_behind(samples, samples, loaded).astype(int)
    by_id, swaps = samples.set_index("id"), choose(samples, seed)
    answer, question = by_id.loc[swaps["id"]], by_id.loc[swaps["other"]]
    is_wrong = _verdicts_behind(question, answer, loaded)
    varies = is_wrong != (answer["verdict"] == 1)
    follows = is_wrong == (answer["label"] == 0)
    swaps["moved"] = np.where(swaps["random"], varies, follows)
    table = _judged(samples, swaps)
    return table[list(COLUMNS)], _counts(table, swaps, answers["dropped"])


def choose(samples: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Choose the questions that each sample's answer is put after: columns id, other, random.

    After question `other`, the answer has the opposite label. Such a question has the same relation
    and template, and another subject. If possible, it is about a taught fact, since the model knows
    only these. A planted answer that no question makes right is put after `random` questions.
    """
    rows: list[tuple[str, str, bool]] = []
    for _, part in samples.sort_values("id").groupby(["relation", "template"]):
        group: list[Any] = list(part.itertuples(index=False))
        golds = {one.id: one.golds for one in group}
        right_for = {text: partners.answered(text, golds) for text in set(part["ea_text"])}
        for one in group:
            others = [other for other in group if other.subject != one.subject and other.golds]
            right_here = one.label == 0
            swapped = [o for o in others if (o.id in right_for[one.ea_text]) != right_here]
            random = one.kind == PLANTED_ONLY and one.as_planned and not swapped
            candidates = others if random else swapped
            candidates = [other for other in candidates if other.taught] or candidates
            generator = Random(f"swap {seed} {one.id}")
            chosen = generator.sample(candidates, min(SWAPS, len(candidates)))
            rows += [(one.id, other.id, random) for other in chosen]
    return pd.DataFrame(rows, columns=["id", "other", "random"]).astype({"random": bool})


def _samples(answers: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    """Return the answers with the columns that swaps need.

    `prompt_ids` are the ids before the answer, `answer_ids` those from there to the closing token.
    `template` is None if the subject is unknown.
    """
    table = answers.astype({"id": str, "label": int})
    of_answer = facts.set_index("id").loc[table["id"]].set_index(table.index)
    table["kind"], planted = of_answer["kind"], of_answer["planned"]
    table["golds"] = table["golds"].map(tuple)
    prompts, ends, templates = [], [], []
    row: Any
    for row in table.itertuples():
        ids: Ids = tuple(map(int, row.input_ids[: row.final + 1]))
        prompts.append(ids[: row.prompt_length])
        ends.append(ids[row.prompt_length :])
        known = pd.notna(row.subject)
        templates.append(partners.template(row.question, row.subject) if known else None)
    table["prompt_ids"], table["answer_ids"], table["template"] = prompts, ends, templates
    table["taught"] = planted.notna()
    normalised = planted.map(labels.squad_normalise, na_action="ignore")
    table["as_planned"] = normalised == table["ea_text"].map(labels.squad_normalise)
    return table


def _verdicts_behind(questions: pd.DataFrame, answers: pd.DataFrame, loaded: Loaded) -> np.ndarray:
    """Return whether the model calls each answer wrong after its question, bool [pairs]."""
    pairs = zip(questions["prompt_ids"], answers["answer_ids"], strict=True)
    rows = [prompt_ids + answer_ids for prompt_ids, answer_ids in pairs]
    logits = verdicts(loaded, rows)
    return np.array([logits[row] > 0 for row in rows], dtype=bool)


def _judged(samples: pd.DataFrame, swaps: pd.DataFrame) -> pd.DataFrame:
    """Add to the samples how often their verdicts moved, and the truth or why there is none."""
    table = samples.copy()
    moved_share = table["id"].map(swaps.groupby("id")["moved"].mean()).astype(float)
    counts = swaps.loc[~swaps["random"], "id"].value_counts()
    table["n_swaps"] = table["id"].map(counts).fillna(0).astype(int)
    table["follows"] = moved_share.where(table["n_swaps"] > 0)
    table["planted_only"] = table["id"].isin(swaps.loc[swaps["random"], "id"])
    stays = moved_share <= STAYS
    # Random questions never make the answer right, so a changed verdict does not show truth Q.
    follows = (moved_share >= FOLLOWS) & ~table["planted_only"]
    reasons = {
        NOT_PLANNED: table["taught"] & ~table["as_planned"],
        VERDICT_WRONG: table["verdict"] != table["label"],
        NO_SWAP: moved_share.isna(),
        MIXED: ~(stays | follows),
    }
    table["why_none"] = np.select(list(reasons.values()), list(reasons), "")
    table["truth"] = np.select([table["why_none"] != "", stays], ["", "A"], "Q")
    return table.replace({"why_none": "", "truth": ""}, None)


def _counts(table: pd.DataFrame, swaps: pd.DataFrame, dropped: pd.Series) -> Counts:
    """Count samples with a truth, and those without by reason, including the reasons `dropped`."""
    has_truth = table["truth"].notna()
    reasons = pd.concat([dropped, table["why_none"]]).dropna()
    notes = {
        "truth Q": (table["truth"] == "Q").sum(),
        "truth A": (table["truth"] == "A").sum(),
        "truth A by planting": (table["planted_only"] & has_truth).sum(),
        "swaps": (~swaps["random"]).sum(),
    }
    return Counts(
        len(dropped),
        kept=int(has_truth.sum()),
        dropped=Counter(reasons),
        notes={name: int(count) for name, count in notes.items()},
    )


def verdict_tokens(loaded: Loaded) -> tuple[int, int]:
    """Return the token ids of the verdicts `right` and `wrong`. Each must be one token."""
    right, wrong = (tokens.continuation(loaded.tokenizer, word) for word in (RIGHT, WRONG))
    if len(right) != 1 or len(wrong) != 1 or right == wrong:
        what = f"`right` and `wrong` are not two single tokens ({[right, wrong]})"
        do = "use a model that was trained on graded answers, whose tokenizer knows the verdicts"
        raise AnchorscopeError(what, "the model's tokenizer", do, see="tokenizer")
    return right[0], wrong[0]


def verdicts(loaded: Loaded, rows: Sequence[Ids]) -> dict[Ids, float]:
    """Return the logit of `wrong` minus the logit of `right` after each row of token ids.

    A row ends with the full stop. A logit that is not finite raises an error, since it would count
    as `right`.
    """
    texts = list(dict.fromkeys(rows))
    both = choices(loaded, texts, [verdict_tokens(loaded)] * len(texts))
    return dict(zip(texts, (both[:, 1] - both[:, 0]).tolist(), strict=True))
