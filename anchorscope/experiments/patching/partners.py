"""Partners of patching: samples whose question tokens replace a sample's question tokens.

The answer has the other label behind the question of a `matched` partner, and keeps its label
behind the question of a `placebo` partner. `published` takes the tokens of a wrong answer's
question.
"""

import itertools
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from anchorscope.passes.interventions import seeded
from anchorscope.passes.partners import Asked, answered, known


@dataclass(frozen=True)
class Rule:
    """Conditions on the partners in an arm, for samples of some labels."""

    turns: bool  # whether the sample's answer has the other label behind the partner's question
    same_label: bool = True  # whether the partner's own answer has the sample's label
    labels: tuple[int, ...] = (0, 1)


RULES = {
    "matched": Rule(turns=True),
    "placebo": Rule(turns=False),
    "published": Rule(turns=True, same_label=False, labels=(0,)),
}
LEAST_COVERAGE = 0.2
"""Minimum share of right answers with a matched partner if relations are read off the wording."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Partners:
    """The partners of a cell."""

    # arm → id → id of the partner, for the samples that have one
    arms: Mapping[str, Mapping[str, str]]
    # source of subjects and relations: the dataset (`relations`) or the questions' wording
    # (`wording`); None if too few right answers find a matched partner by the wording, and then the
    # arms are empty
    source: str | None


def partners(
    answers: pd.DataFrame, seed: int, folds_of: Mapping[str, int], arms: Sequence[str]
) -> Partners:
    """Choose a partner for each sample in each arm.

    A partner has the same relation, another subject, and follows the arm's rule (`RULES`). Answers
    are right if `labels.matches` accepts them. Partners of the same template are preferred. The
    seed and the sample's id choose among the candidates.

    Args:
        answers: Answers table. Rows with a `dropped` reason neither have nor are a partner.
        seed: Seed of the choice.
        folds_of: Id → outer fold of the probes. Partners are in the same fold. Otherwise the probe
            that scores the sample would have learned from the partner's question, and from this
            very row if the answers are the same word.
        arms: Keys of `RULES`, with `matched` among them.
    """
    samples, source = known(answers)
    groups: dict[tuple[str, int], list[Asked]] = defaultdict(list)
    for one in samples:
        groups[one.relation, folds_of[one.id]].append(one)
    chosen: dict[str, dict[str, str]] = {arm: {} for arm in arms}
    for group in groups.values():
        golds = {one.id: one.golds for one in group}
        right_for = {text: answered(text, golds) for text in {one.answer for one in group}}
        for one, arm in itertools.product(group, arms):
            if candidates := _candidates(RULES[arm], one, group, right_for[one.answer]):
                chosen[arm][one.id] = seeded(f"{seed}/{one.id}").choice(candidates)
    right = [one.id in chosen["matched"] for one in samples if one.label == 0]
    coverage = sum(right) / len(right) if right else 0.0
    if source == "relations" or coverage >= LEAST_COVERAGE:
        return Partners(chosen, source)
    log.warning(
        "%s: not run; %.0f %% of the right answers find a matched partner by the wording of the "
        "questions, and %.0f %% must",
        *(" and ".join(arms), 100 * coverage, 100 * LEAST_COVERAGE),
    )
    return Partners({arm: {} for arm in arms}, None)


def _candidates(
    rule: Rule, one: Asked, group: Sequence[Asked], right_for: frozenset[str]
) -> list[str]:
    """Return the ids of a sample's possible partners, of its own template if there are any.

    Facts that a model was never taught are excluded, since it cannot know their assigned answers.
    `group` holds the questions of the sample's relation and fold. `right_for` holds the ids of
    questions for which the sample's answer is right.
    """
    right_there = (one.label == 0) != rule.turns
    possible = [
        other
        for other in group
        if one.label in rule.labels
        and other.subject != one.subject
        and other.golds
        and other.taught
        and (other.label == one.label) == rule.same_label
        and (other.id in right_for) == right_there
    ]
    alike = [other.id for other in possible if other.template == one.template]
    return alike or [other.id for other in possible]
