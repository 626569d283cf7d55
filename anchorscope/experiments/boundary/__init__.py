"""Boundary: what a model knows, and what it says it does not know, by group and layer.

The knowledge boundary of arXiv 2601.07422: whether Q-Anchored answers are those of well-known
facts. Control: groups by the random knockout's own flips, in which nothing should differ.
"""

from anchorscope.config.sections import Count, Text, key
from anchorscope.experiments.experiment import (
    FLAG_COLUMNS,
    READOUT_COLUMNS,
    SIZE_COLUMNS,
    Experiment,
    SampledSettings,
    recurring,
    with_interval,
)
from anchorscope.passes.interventions import REGISTRY

KNOCKOUT, RANDOM = REGISTRY["knockout"], REGISTRY["random"]
MEASURES = {
    "right": "share of right answers",
    "unknown": "share whose question the model refuses to answer once the prompt allows it",
    "logprob": "mean log-probability of a token of E_A, in nats, averaged over samples",
    "entropy": "mean entropy of the distribution that a token of E_A was taken from, in nats, "
    "averaged over samples",
    "popularity": "mean popularity of the subject; blank where the dataset has none",
}
COLUMNS = {
    **READOUT_COLUMNS,
    "groups": "whose flips form the groups: `knockout`, its control `random`, or "
    "`knockout-random`, the difference of the two",
    "facts": "`all`; in the calibration worlds also those `learned` and `unseen` in training",
    "anchor": "`Q`, `A` or `all`, by these flips at that layer; `Q-A`: the difference of the two",
    **SIZE_COLUMNS,
    "n_paired": "samples counted: those in which as many random tokens can be blocked as E_Q has",
    **{
        column: words
        for name, meaning in MEASURES.items()
        for column, words in with_interval(name, meaning).items()
    },
    **recurring("signal"),
    **FLAG_COLUMNS,
}


class Boundary(SampledSettings):
    """What a model knows, and what it says that it does not know."""

    permission: Text = key(
        'If you do not know the answer, answer "I don\'t know".',
        "The instruction that allows the model to refuse.",
    )
    max_new_tokens: Count = key(32, "Longest answer under this instruction, in tokens.")


EXPERIMENT = Experiment(
    name="boundary",
    about="Accuracy, confidence, popularity and refusals of the groups; the control forms the "
    "groups by the random knockout's own flips.",
    settings=Boundary,
    interventions=(KNOCKOUT, RANDOM),
    needs=("states", "prompts", "floors"),
    # clean, the control, the probabilities of tokens, and the answer under permission
    passes=lambda settings, draws, readouts: 1 + draws + 2,
    columns=COLUMNS,
    views={"layers": "What the model knows of Q- and A-Anchored answers"},
)
