"""Partners of patching: whose question tokens replace a sample's.

Behind the question of a `matched` partner the answer has the other label, behind that of a
`placebo` partner it keeps its own; `published` takes the tokens of a wrong answer's question.
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
    """Who can be a sample's partner in an arm, for samples of these labels."""

    turns: bool  # whether the sample's answer has the other label behind the partner's question
    same_label: bool = True  # whether the partner's own answer has the sample's label, or the other
    labels: tuple[int, ...] = (0, 1)


RULES = {
    "matched": Rule(turns=True),
    "placebo": Rule(turns=False),
    "published": Rule(turns=True, same_label=False, labels=(0,)),
}
LEAST_COVERAGE = 0.2
"""Share of the right answers that must find a matched partner by the questions' wording."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Partners:
    """The partners of a cell."""

    # arm → id → id of the partner, for the samples that have one
    arms: Mapping[str, Mapping[str, str]]
    # what subjects and relations are: the dataset's own (`relations`), or read off the questions
    # (`wording`); None where too few right answers find a matched partner by these, and the arms
    # are empty
    source: str | None


def partners(
    answers: pd.DataFrame, seed: int, folds_of: Mapping[str, int], arms: Sequence[str]
) -> Partners:
    """Find whose question tokens replace a sample's, in each arm.

    A partner is a question of the same relation and another subject, as the arm's rule has it
    (`RULES`; right is what `labels.matches`). Where there is one, it is of the same template.
    Chosen by the seed and the sample's id among all there are.

    Args:
        answers: the answers table; rows with a `dropped` reason have and are no partner.
        folds_of: id → outer fold of the probes; a partner is of the sample's own fold. The probe
            that scores the sample would else have learned from the partner's question, and where
            the answers are the same word, from this very row.
        arms: keys of `RULES`, `matched` among them.
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
    """Ids of a sample's possible partners, of its own template where there are such.

    Not of facts that a model never met: what is right there was dealt out, and it cannot know.
    `group` are questions of its relation, `right_for` the ids of those its answer is right for.
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
