"""Methods, tables and pictures of detection, by name. Snakemake reads them at every start."""

from collections.abc import Collection, Iterable

from anchorscope.detectors.method import Method
from anchorscope.figures.figure_view import View
from anchorscope.storage.errors import AnchorscopeError, nearest

RECORDS = (
    Method(
        "text", "text", "a model of the words of question and answer, added up", "text:fit_text"
    ),
    Method("question", "question's text", "a model of the question's words", "text:fit_question"),
    Method("answer", "answer's text", "a model of the exact answer's words", "text:fit_answer"),
    Method("response", "response's text", "a model of the response's words", "text:fit_response"),
    Method(
        "output",
        "token probabilities",
        "a regression on the probabilities of the answer's tokens: the model's own confidence",
        "output:fit_output",
    ),
    Method(
        "output+probe",
        "token probabilities and probe",
        "a regression on the token probabilities and the probe's logit",
        "output:fit_output_and_probe",
    ),
    Method(
        "p-true",
        "P(True)",
        "the probability that the model calls its answer true when asked",
        "output:fit_p_true",
        ("p-true",),
    ),
    Method(
        "before",
        "probe before the answer",
        "the probe at the prompt's end: how hard the question looks",
        "probe:fit_before",
        ("before",),
    ),
    Method("probe", "probe", "the read-out's probe at the headline layer", "probe:fit_probe"),
    Method(
        "layer-ensemble",
        "probes of all layers",
        "the mean logit of the probes of all layers that have a signal",
        "probe:fit_ensemble",
    ),
    Method(
        "mass-mean", "mass-mean", "the difference of the classes' means, whitened", "mass_mean:fit"
    ),
    Method("saplma", "SAPLMA", "a network of three hidden layers on the states", "saplma:fit"),
    Method(
        "mixture-of-probes",
        "mixture of probes",
        "probes of the Q- and of the A-Anchored answers, weighted by the predicted pathway",
        "mixture:fit_mixture",
        ("knockout",),
    ),
    Method(
        "random-gate",
        "mixture: random gate",
        "the same two probes, weighted at random",
        "mixture:fit_random_gate",
        ("knockout",),
    ),
    Method(
        "vanilla-experts",
        "mixture: like experts",
        "two probes fitted to draws of all answers, weighted by the predicted pathway",
        "mixture:fit_vanilla_experts",
        ("knockout",),
    ),
)
"""Records of all methods, in the order of tables and figures. A new method takes a module and its
record here.
"""
METHODS: dict[str, Method] = {one.name: one for one in RECORDS}
"""Name → record."""
TABLES = ("detection", "detection-reads", "self-awareness")
"""Suffixes of the file names of tables that are joined from cells."""
COMPARISONS = "detectors.comparisons"
VIEWS = {
    "detection": View(
        "How well each method detects wrong answers", f"{COMPARISONS}:forest", ("detection",)
    ),
    "detection-reads": View("What each method reads", f"{COMPARISONS}:reads", ("detection-reads",)),
    "detection-transfer": View(
        "Trained on one dataset, tried on another", f"{COMPARISONS}:transfer", ("transfer",)
    ),
}
"""Suffix of a picture's file name → the picture, in the order of the report."""


def named(names: Collection[str] | None) -> list[Method]:
    """Return the methods of these names, or all, in the order of the registry.

    Raises:
        AnchorscopeError: There is no such method.
    """
    chosen = METHODS if names is None else names
    if unknown := [name for name in chosen if name not in METHODS]:
        what, do = f"there is no detection method `{unknown[0]}`", nearest(unknown[0], METHODS)
        raise AnchorscopeError(what, "detection.methods", do, see="config")
    return [method for name, method in METHODS.items() if name in chosen]


def label_of(detector: str) -> str:
    """Return the label of a method in pictures; a given detector keeps its own name."""
    return METHODS[detector].label if detector in METHODS else str(detector)


def in_order(detectors: Iterable[str]) -> list[str]:
    """Return each name once: methods in the order of the registry, then given detectors."""
    there = list(dict.fromkeys(map(str, detectors)))
    return [name for name in METHODS if name in there] + [n for n in there if n not in METHODS]
