"""Passes of patching: choose partners, replace question tokens, and score the answers again.

After the question of a `matched` partner, right answers become wrong, and wrong answers right.
After the question of a `placebo` partner, answers keep their label. `published` is for right
answers only: they become wrong after the partner's question, which the model answered wrongly.
"""

import itertools
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anchorscope.experiments.measured import Measurements
from anchorscope.experiments.patching import ARMS, RANDOM, Patching
from anchorscope.experiments.scored import Cell
from anchorscope.passes.batches import Sample
from anchorscope.passes.interventions import random_tokens, runs, seeded
from anchorscope.passes.partners import Known, answered, known


@dataclass(frozen=True)
class Rule:
    """Requirements on the partners of an arm, and the labels of the samples that get one."""

    turns: bool  # whether the sample's answer has the other label after the partner's question
    same_label: bool = True  # whether the partner's own answer has the sample's label
    labels: tuple[int, ...] = (0, 1)


RULES = {
    "matched": Rule(turns=True),
    "placebo": Rule(turns=False),
    "published": Rule(turns=True, same_label=False, labels=(0,)),
}
LEAST_COVERAGE = 0.2
"""If relations come from wording, at least this share of right answers needs a matched partner."""

log = logging.getLogger(__name__)


def partners(
    answers: pd.DataFrame, seed: int, folds_of: Mapping[str, int]
) -> tuple[dict[str, dict[str, str]], str]:
    """Choose each sample's partner in each arm.

    A partner has the same relation and another subject, and follows the arm's rule. Partners of the
    same template are preferred. Among several, `seed` and the sample's id decide. A partner is in
    the sample's outer fold (`folds_of`: id → fold). Otherwise the probe that scores the sample
    would have learned from the partner's question, and even from the patched text itself if both
    samples have the same answer.

    Returns:
        (chosen, source). `chosen` is arm → id → id of the partner. `source` is where relations are
        from: `relations` (the dataset) or `wording` (the questions). If they are from wording and
        too few right answers have a matched partner, no arm has partners.
    """
    samples, source = known(answers)
    groups: dict[tuple[str, int], list[Known]] = defaultdict(list)
    for one in samples:
        groups[one.relation, folds_of[one.id]].append(one)
    chosen: dict[str, dict[str, str]] = {arm: {} for arm in RULES}
    for group in groups.values():
        golds = {one.id: one.golds for one in group}
        right_for = {text: answered(text, golds) for text in {one.answer for one in group}}
        for one, (arm, rule) in itertools.product(group, RULES.items()):
            if candidates := _candidates(rule, one, group, right_for[one.answer]):
                chosen[arm][one.id] = seeded(f"{seed}/{one.id}").choice(candidates)
    right = [one.id in chosen["matched"] for one in samples if one.label == 0]
    coverage = sum(right) / len(right) if right else 0.0
    if source == "relations" or coverage >= LEAST_COVERAGE:
        return chosen, source
    log.warning(
        "patching: not run, because only %.0f %% of the right answers have a matched partner by "
        "the wording of the questions; at least %.0f %% are needed",
        *(100 * coverage, 100 * LEAST_COVERAGE),
    )
    return {arm: {} for arm in RULES}, source


def _candidates(
    rule: Rule, one: Known, group: Sequence[Known], right_for: frozenset[str]
) -> list[str]:
    """Return ids of a sample's possible partners. If some share its template, return only those.

    A sample that the dataset keeps out of swaps is no partner. `right_for` holds the ids of
    questions for which the sample's answer is right.
    """
    right_there = (one.label == 0) != rule.turns
    possible = [
        other
        for other in group
        if one.label in rule.labels
        and other.subject != one.subject
        and other.golds
        and other.swaps
        and (other.label == one.label) == rule.same_label
        and (other.id in right_for) == right_there
    ]
    alike = [other.id for other in possible if other.template == one.template]
    return alike or [other.id for other in possible]


def measure(cell: Cell, settings: Patching) -> Measurements:
    """Score the answers of a cell with tokens of their questions replaced.

    A partner (see `partners`) is used only if its E_Q has as many spans as the sample's. The
    partner's first span replaces the sample's first, and so on, whatever their lengths. Samples
    without a partner, or without a donor for the control (see `_donors`), are left out.

    Returns:
        The scores of `clean`, the arms and the control, and some facts. `<arm>/partner`, int64 [n]:
        index of the sample's partner, -1 if it has none. `changed`, float64 [n]: share of the
        tokens replaced by the control that got a new id. `by_wording`: whether relations are from
        the wording of the questions, see `partners`.
    """
    exchanged, source = partners(cell.answers, cell.seed, cell.folds)
    samples, donors = cell.samples, _donors(cell)
    patched: list[Sample] = []
    changed: dict[str, float] = {}
    for id_, sample in samples.items():
        others: dict[str, Sample] = {}
        for arm in settings.arms:
            partner = samples.get(exchanged[arm].get(id_, ""))
            if partner and len(runs(partner.eq_tokens)) == len(runs(sample.eq_tokens)):
                others[ARMS[arm].name] = exact(sample, partner)
        if others and donors[id_]:
            donor = samples[seeded(f"{cell.seed}/{id_}/donor").choice(donors[id_])]
            others[RANDOM.name], changed[id_] = control(sample, donor, f"{cell.seed}/{id_}")
            patched.append(replace(sample, others=others))
    measured = cell.score(patched, [*(ARMS[arm] for arm in settings.arms), RANDOM])
    rows, facts = measured.rows, measured.arrays
    for arm in settings.arms:
        chosen = exchanged[arm]
        facts[f"{arm}/partner"] = np.array([rows.get(chosen.get(id_, ""), -1) for id_ in rows])
    facts["changed"] = np.array([changed.get(id_, np.nan) for id_ in rows])
    facts["by_wording"] = np.array(source == "wording")
    return measured


def exact(sample: Sample, partner: Sample) -> Sample:
    """Replace the spans of a sample's E_Q by its partner's spans, in order."""
    tokens = [[partner.input_ids[at] for at in run] for run in runs(partner.eq_tokens)]
    return with_spans(sample, runs(sample.eq_tokens), tokens, partner.id)


def control(sample: Sample, donor: Sample, key: str) -> tuple[Sample, float]:
    """Replace question tokens outside E_Q by question tokens outside the donor's E_Q.

    As many are replaced as E_Q has, or all if there are fewer. `key` seeds two choices: the
    replaced tokens, and the donor's token to start from. From there, the donor's tokens are taken
    in order, and the last is followed by the first.

    Returns:
        The sample with tokens replaced, and the share of these tokens that got a new id.
    """
    replaced = random_tokens(sample.question_tokens, sample.eq_tokens, f"0/{key}")
    given = [donor.input_ids[at] for at in donor.question_tokens if at not in donor.eq_tokens]
    first = seeded(key).randrange(len(given))
    tokens = [given[(first + n) % len(given)] for n in range(len(replaced))]
    changed = [sample.input_ids[at] != new for at, new in zip(replaced, tokens, strict=True)]
    moved = with_spans(sample, [[at] for at in replaced], [[new] for new in tokens], donor.id)
    return moved, sum(changed) / len(changed) if changed else 0.0


def with_spans(
    sample: Sample, spans: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], partner: str
) -> Sample:
    """Replace spans of a sample's prompt by tokens of a partner, and shift all later positions.

    `spans` are runs of token indices before the answer, in order. With `spans` [[3, 4], [7]] and
    `tokens` [[90], [80, 81]], id 90 replaces the tokens 3 and 4, and ids 80, 81 replace token 7.
    """
    ids: list[int] = []
    places: dict[int, list[int]] = {}  # old → new indices; for a replaced span, at its first
    replacement = {span[0]: new for span, new in zip(spans, tokens, strict=True)}
    inside = {place for span in spans for place in span[1:]}
    for place, token in enumerate(sample.input_ids):
        new = [] if place in inside else list(replacement.get(place, [token]))
        places[place] = list(range(len(ids), len(ids) + len(new)))
        ids += new

    def moved(old: Iterable[int]) -> tuple[int, ...]:
        return tuple(new for place in old for new in places[place])

    return replace(
        sample,
        input_ids=tuple(ids),
        positions={name: places[place][0] for name, place in sample.positions.items()},
        question_tokens=moved(sample.question_tokens),
        eq_tokens=moved(sample.eq_tokens),
        answer_start=places[sample.answer_start][0],
        partner=partner,
        others={},
    )


def _donors(cell: Cell) -> dict[str, list[str]]:
    """Map each sample's id to its donors: samples whose tokens the control may put into it.

    Donors are in the sample's fold. Their questions have another relation. If the cell has only one
    relation, they have another template instead.
    """
    samples, folds = cell.samples, cell.folds
    questions, _ = known(cell.answers)
    several = len({one.relation for one in questions}) > 1
    kind = {one.id: one.relation if several else one.template for one in questions}
    giving = [id_ for id_ in kind if {*samples[id_].question_tokens} - {*samples[id_].eq_tokens}]
    return {
        id_: [one for one in giving if kind[one] != kind[id_] and folds[one] == folds[id_]]
        for id_ in kind
    }
