"""The passes of patching: whose tokens replace a sample's, and the scores behind them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pandas as pd

from anchorscope.experiments.patching import ARMS, RANDOM
from anchorscope.experiments.scored import COLUMNS, Cell
from anchorscope.passes import partners
from anchorscope.passes.batches import Sample
from anchorscope.passes.interventions import random_tokens, runs, seeded


def measure(cell: Cell) -> pd.DataFrame:
    """Score the samples of a cell behind replaced question tokens.

    A partner is of the sample's own relation and fold (see `partners.interchange`), and its E_Q has
    as many spans as the sample's: the first replaces the first, and so on, whatever their lengths.
    `scored.COLUMNS` of `clean`, the arms and the control, and with them `partner`, the id of the
    sample whose tokens were put in; `changed`, the share of the control's replaced ids that are
    not what they were; `source`, see `partners.Interchange`.
    """
    found = partners.interchange(cell.answers, cell.seed, cell.folds, tuple(ARMS))
    samples, donors = cell.samples, _donors(cell)
    patched: list[Sample] = []
    facts: list[tuple[object, ...]] = []
    for id_, sample in samples.items():
        others: dict[str, Sample] = {}
        for arm, one in ARMS.items():
            partner = samples.get(found.arms[arm].get(id_, ""))
            if partner and len(runs(partner.eq_tokens)) == len(runs(sample.eq_tokens)):
                others[one.name] = exact(sample, partner)
                facts.append((id_, one.name, partner.id, None, found.source))
        if others and (possible := donors(id_)):
            donor = samples[seeded(f"{cell.seed}/{id_}/donor").choice(possible)]
            others[RANDOM.name], share = control(sample, donor, f"{cell.seed}/{id_}")
            facts.append((id_, RANDOM.name, donor.id, share, found.source))
            patched.append(replace(sample, others=others))
    none = pd.DataFrame(columns=list(COLUMNS))
    rows = cell.score(patched, (*ARMS.values(), RANDOM)) if patched else none
    columns = ["id", "condition", "partner", "changed", "source"]
    return rows.merge(pd.DataFrame(facts, columns=columns), how="left")


def exact(sample: Sample, partner: Sample) -> Sample:
    """A sample with the spans of its E_Q replaced by its partner's, in turn."""
    ids = partner.input_ids
    tokens = [[ids[place] for place in run] for run in runs(partner.eq_tokens)]
    return with_spans(sample, runs(sample.eq_tokens), tokens, partner.id)


def control(sample: Sample, donor: Sample, key: str) -> tuple[Sample, float]:
    """A sample with as many tokens outside E_Q replaced by a donor's, and what share changed."""
    places = random_tokens(sample.question_tokens, sample.eq_tokens, f"0/{key}")
    outside = [donor.input_ids[n] for n in donor.question_tokens if n not in donor.eq_tokens]
    first = seeded(key).randrange(len(outside))
    tokens = [outside[(first + n) % len(outside)] for n in range(len(places))]
    changed = [sample.input_ids[at] != token for at, token in zip(places, tokens, strict=True)]
    moved = with_spans(sample, [[at] for at in places], [[token] for token in tokens], donor.id)
    return moved, sum(changed) / len(changed) if changed else 0.0


def with_spans(
    sample: Sample, spans: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]], partner: str
) -> Sample:
    """A sample with some spans of its prompt replaced; all that lies behind them moves along.

    `spans` holds consecutive token indices before the answer, first to last, `tokens` the ids that
    stand there instead, of any length but none, `partner` the id of the sample that gave them.
    """
    ids: list[int] = []
    places: dict[int, list[int]] = {}  # old index → new ones; a replaced span's lie at its first
    instead = {span[0]: new for span, new in zip(spans, tokens, strict=True)}
    inside = {place for span in spans for place in span[1:]}
    for place, token in enumerate(sample.input_ids):
        new = [] if place in inside else list(instead.get(place, [token]))
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


def _donors(cell: Cell) -> Callable[[str], list[str]]:
    """Id → samples in its fold with tokens to give whose questions are unlike its own.

    Of another relation, or of another template of the only one.
    """
    samples, folds = cell.samples, cell.folds
    asked, _ = partners.known(cell.answers)
    kinds = {one.id: (one.relation, one.template) for one in asked if one.id in samples}
    several = len({relation for relation, _ in kinds.values()}) > 1
    kind = {id_: relation if several else template for id_, (relation, template) in kinds.items()}
    giving = [id_ for id_ in kind if {*samples[id_].question_tokens} - {*samples[id_].eq_tokens}]
    return lambda id_: [
        one for one in giving if kind[one] != kind[id_] and folds[one] == folds[id_]
    ]
