"""Partners: whose question stands before a sample's frozen answer in another pass.

Behind the question of a `matched` partner the answer has the other label, behind that of a
`placebo` partner it keeps its own; `replicate` is another wording of the same question. All need
the subject and the relation of a question; the first two take what its wording tells in place of
these where a dataset has neither.
"""

import itertools
import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from anchorscope.anchors import labels
from anchorscope.passes import interventions
from anchorscope.passes.interventions import seeded
from anchorscope.questions import folds, wording
from anchorscope.questions.world import UNSEEN


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
class Asked:
    """A sample whose subject and relation are known."""

    id: str
    question: str
    subject: str  # folded, so that two spellings of one subject are equal
    relation: str
    template: str  # the question with the subject taken out
    answer: str  # E_A's text, what the model said
    label: int  # 1 if that is wrong, 0 if right
    golds: tuple[str, ...]
    taught: bool = True  # False for a fact of a calibration world that no training shows


@dataclass(frozen=True)
class Interchange:
    """The partners of a cell."""

    # arm → id → id of the partner, for the samples that have one
    arms: Mapping[str, Mapping[str, str]]
    # what subjects and relations are: the dataset's own (`relations`), or read off the questions
    # (`wording`); None where too few right answers find a matched partner by these, and the arms
    # are empty
    source: str | None


def interchange(
    answers: pd.DataFrame,
    seed: int,
    folds_of: Mapping[str, int] | None = None,
    arms: Sequence[str] | None = None,
) -> Interchange:
    """The questions that each sample's answer is put behind.

    A partner is a question of the same relation and another subject, as the arm's rule has it
    (`RULES`; right is what `labels.matches`). Where there is one, it is of the same template.
    Chosen by the seed and the sample's id among all there are.

    Args:
        answers: the answers table; rows with a `dropped` reason have and are no partner.
        folds_of: id → outer fold of the probes; a partner is then of the sample's own fold. The
            probe that scores the sample would else have learned from the partner's question, and
            where the answers are the same word, from this very row.
        arms: keys of `RULES`, `matched` among them; by default those of the main run.
    """
    arms = interventions.arms() if arms is None else arms
    asked, source = known(answers)
    groups: dict[tuple[str, int], list[Asked]] = defaultdict(list)
    for one in asked:
        groups[one.relation, folds_of[one.id] if folds_of else 0].append(one)
    found: dict[str, dict[str, str]] = {arm: {} for arm in arms}
    for group in groups.values():
        golds = {one.id: one.golds for one in group}
        right_for = {text: answered(text, golds) for text in {one.answer for one in group}}
        for one, arm in itertools.product(group, arms):
            if candidates := _candidates(RULES[arm], one, group, right_for[one.answer]):
                found[arm][one.id] = seeded(f"{seed}/{one.id}").choice(candidates)
    right = [one.id in found["matched"] for one in asked if one.label == 0]
    coverage = sum(right) / len(right) if right else 0.0
    if source == "relations" or coverage >= LEAST_COVERAGE:
        return Interchange(found, source)
    log.warning(
        "%s: not run; %.0f %% of the right answers find a matched partner by the wording of the "
        "questions, and %.0f %% must",
        *(" and ".join(arms), 100 * coverage, 100 * LEAST_COVERAGE),
    )
    return Interchange({arm: {} for arm in arms}, None)


def _candidates(
    rule: Rule, one: Asked, group: Sequence[Asked], right_for: frozenset[str]
) -> list[str]:
    """Ids of a sample's possible partners, of its own template where there are such.

    Not of facts that a model never met: what is right there was dealt out, and it cannot know.
    `group` are questions of its relation, `right_for` the ids of those its answer is right for.
    """
    right_there = (one.label == 0) != rule.turns
    found = [
        other
        for other in group
        if one.label in rule.labels
        and other.subject != one.subject
        and other.golds
        and other.taught
        and (other.label == one.label) == rule.same_label
        and (other.id in right_for) == right_there
    ]
    alike = [other.id for other in found if other.template == one.template]
    return alike or [other.id for other in found]


def answered(answer: str, golds: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Ids of the questions that an answer is right for; `golds` are theirs by id."""
    right = {
        gold for gold in set(itertools.chain(*golds.values())) if labels.matches(answer, [gold])
    }
    return frozenset(id_ for id_, theirs in golds.items() if not right.isdisjoint(theirs))


def replicate(answers: pd.DataFrame) -> dict[str, str]:
    """Another wording of a question, id → id of the partner: same subject and relation, other text.

    Where the partner's gold answers are known, the answer has the same label under them: two
    subjects of one name ask different questions. Of several wordings the next by id is taken.
    """
    wordings: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for one in _asked(answers):
        wordings[one.relation, one.subject].append(one)
    found: dict[str, str] = {}
    for group in wordings.values():
        for place, one in enumerate(group):
            for other in (*group[place + 1 :], *group[:place]):
                right = labels.matches(one.answer, other.golds)
                same_label = not other.golds or right == (one.label == 0)
                if same_label and other.question != one.question:
                    found[one.id] = other.id
                    break
    return found


def template(question: str, subject: str) -> str:
    """The question with the subject taken out, folded."""
    asked, name = (" ".join(text.casefold().split()) for text in (question, subject))
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "{}", asked)


def known(answers: pd.DataFrame) -> tuple[list[Asked], str]:
    """The samples by the dataset's subjects and relations; where it has none, by their wording."""
    if asked := _asked(answers):
        return asked, "relations"
    found = wording.proxies(answers)
    named = answers.assign(**{name: found[name].to_numpy() for name in ("subject", "relation")})
    return _asked(named), "wording"


def _asked(answers: pd.DataFrame) -> list[Asked]:
    """The samples that can have a partner, by id: the order of the rows must not matter."""
    named = answers[answers["dropped"].isna() & answers["relation"].notna()]
    found = [
        Asked(
            id=str(row["id"]),
            question=row["question"],
            subject=subject,
            relation=str(row["relation"]),
            template=template(row["question"], row["subject"]),
            answer=row["ea_text"],
            label=int(row["label"]),
            golds=tuple(row["golds"]),
            taught=row.get("kind") != UNSEEN,
        )
        for row in named.to_dict("records")
        if (subject := folds.key(row["subject"])) is not None
    ]
    return sorted(found, key=lambda one: one.id)
