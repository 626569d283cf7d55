"""Passes of patching: replaced question tokens, and the scores behind them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from anchorscope.experiments.patching import ARMS, RANDOM, Patching
from anchorscope.experiments.patching.partners import partners
from anchorscope.experiments.scored import Cell, with_facts
from anchorscope.passes.batches import Sample
from anchorscope.passes.interventions import random_tokens, runs, seeded
from anchorscope.passes.partners import known

FACTS = ("id", "condition", "partner", "n_tokens", "changed", "source")


@dataclass(frozen=True)
class Patched:
    """A sample with some of its question's tokens replaced."""

    sample: Sample
    n_tokens: int  # number of replaced tokens
    changed: float | None = None  # share of the control's replaced tokens with a new id


def measure(cell: Cell, settings: Patching) -> pd.DataFrame:
    """Score the samples of a cell behind replaced question tokens.

    A partner has the sample's relation and fold (see `partners`), and its E_Q has as many spans.
    The first span replaces the first, and so on, whatever their lengths. Samples without a partner
    or without a donor for the control are left out.

    Returns:
        The rows of `clean`, the arms and the control: `measured.COLUMNS`, and `partner`, the id of
        the sample that gave the tokens; `changed`, see `Patched`; `source`, see
        `partners.Partners`.
    """
    exchanged = partners(cell.answers, cell.seed, cell.folds, tuple(ARMS))
    samples, donors = cell.samples, _donors(cell)
    patched: list[Sample] = []
    facts: list[tuple[object, ...]] = []
    for id_, sample in samples.items():
        prompts: dict[str, Patched] = {}
        for arm in settings.arms:
            partner = samples.get(exchanged.arms[arm].get(id_, ""))
            if partner and len(runs(partner.eq_tokens)) == len(runs(sample.eq_tokens)):
                prompts[ARMS[arm].name] = exact(sample, partner)
        if not prompts or not donors[id_]:
            continue
        donor = samples[seeded(f"{cell.seed}/{id_}/donor").choice(donors[id_])]
        prompts[RANDOM.name] = control(sample, donor, f"{cell.seed}/{id_}")
        patched.append(replace(sample, others={name: one.sample for name, one in prompts.items()}))
        for name, one in prompts.items():
            known = (one.sample.partner, one.n_tokens, one.changed, exchanged.source)
            facts.append((id_, name, *known))
    arms = [ARMS[arm] for arm in settings.arms]
    rows = cell.score(patched, [*arms, RANDOM])
    return with_facts(rows, pd.DataFrame(facts, columns=list(FACTS)))


def exact(sample: Sample, partner: Sample) -> Patched:
    """Replace the spans of a sample's E_Q by its partner's spans, in order."""
    tokens = [[partner.input_ids[at] for at in run] for run in runs(partner.eq_tokens)]
    moved = with_spans(sample, runs(sample.eq_tokens), tokens, partner.id)
    return Patched(moved, len({*sample.eq_tokens}))


def control(sample: Sample, donor: Sample, key: str) -> Patched:
    """Replace question tokens outside E_Q, as many as E_Q has, by such tokens of a donor.

    The replaced tokens and the donor's first token depend on `key`. The donor's other tokens follow
    in order and start again from the first when they run out. Fewer tokens are replaced if the
    question has fewer outside E_Q.
    """
    replaced = random_tokens(sample.question_tokens, sample.eq_tokens, f"0/{key}")
    given = [donor.input_ids[at] for at in donor.question_tokens if at not in donor.eq_tokens]
    first = seeded(key).randrange(len(given))
    tokens = [given[(first + n) % len(given)] for n in range(len(replaced))]
    changed = [sample.input_ids[at] != new for at, new in zip(replaced, tokens, strict=True)]
    moved = with_spans(sample, [[at] for at in replaced], [[new] for new in tokens], donor.id)
    return Patched(moved, len(replaced), sum(changed) / len(changed) if changed else 0.0)


def with_spans(
    sample: Sample, spans: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], partner: str
) -> Sample:
    """Replace spans of a sample's prompt, and shift all later positions.

    Args:
        sample: The sample.
        spans: Consecutive token indices of each span, before the answer, in order.
        tokens: New token ids of each span, at least one.
        partner: Id of the sample that gave the tokens.
    """
    ids: list[int] = []
    places: dict[int, list[int]] = {}  # old → new indices; a replaced span's are at its first
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


def _donors(cell: Cell) -> Mapping[str, list[str]]:
    """Return id → ids of the samples that can give the tokens of its control.

    Donors are in the same fold. Their questions have another relation, or another template if the
    cell has only one relation.
    """
    samples, folds = cell.samples, cell.folds
    questions, _ = known(cell.answers)
    kinds = {one.id: (one.relation, one.template) for one in questions if one.id in samples}
    several = len({relation for relation, _ in kinds.values()}) > 1
    kind = {id_: relation if several else template for id_, (relation, template) in kinds.items()}
    giving = [id_ for id_ in kind if {*samples[id_].question_tokens} - {*samples[id_].eq_tokens}]
    return {
        id_: [one for one in giving if kind[one] != kind[id_] and folds[one] == folds[id_]]
        for id_ in kind
    }
