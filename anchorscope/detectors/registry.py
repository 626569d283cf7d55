"""Methods, tables and pictures of detection, by name. Snakemake reads them at every start."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal

from anchorscope.figures.view import View
from anchorscope.storage.errors import AnchorscopeError, nearest

if TYPE_CHECKING:
    from anchorscope.detectors.method import Fit

Need = Literal["before", "knockout", "p-true"]
"""Measurements that some cells lack: clean states at the prompt's end (`before`), states under the
knockout, and the probability that the model calls its answer true (`p-true`).
"""


@dataclass(frozen=True)
class Method:
    """A record of a detection method."""

    name: str  # in tables
    label: str  # in figures
    source: str  # function that fits it: `<module of methods/>:<function>`
    needs: tuple[Need, ...] = ()

    @property
    def fit(self) -> Fit:
        """The function that fits the method."""
        fit: Fit = resolve_name(f"anchorscope.detectors.methods.{self.source}")
        return fit


RECORDS = (
    Method("text", "text", "text:fit_text"),
    Method("question", "question's text", "text:fit_question"),
    Method("answer", "answer's text", "text:fit_answer"),
    Method("response", "response's text", "text:fit_response"),
    Method("output", "token probabilities", "output:fit_output"),
    Method("output+probe", "token probabilities and probe", "output:fit_output_and_probe"),
    Method("p-true", "P(True)", "output:fit_p_true", ("p-true",)),
    Method("before", "probe before the answer", "probe:fit_before", ("before",)),
    Method("probe", "probe", "probe:fit_probe"),
    Method("layer-ensemble", "probes of all layers", "probe:fit_ensemble"),
    Method("mass-mean", "mass-mean", "mass_mean:fit"),
    Method("saplma", "SAPLMA", "saplma:fit"),
    Method("mixture-of-probes", "mixture of probes", "mixture:fit_mixture", ("knockout",)),
    Method("random-gate", "mixture: random gate", "mixture:fit_random_gate", ("knockout",)),
    Method(
        "vanilla-experts", "mixture: like experts", "mixture:fit_vanilla_experts", ("knockout",)
    ),
)
METHODS: dict[str, Method] = {one.name: one for one in RECORDS}
"""Name → record, in the order of tables and figures."""
TABLES = ("detection", "detection-reads", "self-awareness")
"""Suffixes of the names of a figure's tables. Each table has the rows of all the figure's cells."""
COMPARISONS = "detectors.comparisons"
VIEWS = {
    "detection": View(
        "How well each method detects wrong answers", f"{COMPARISONS}:forest", ("detection",)
    ),
    "detection-reads": View("What each method reads", f"{COMPARISONS}:reads", ("detection-reads",)),
}
"""Suffix of a picture's file name → the picture, in the order of the report."""


def named(names: Collection[str] | None) -> list[Method]:
    """Return the methods with these names in the order of the registry. None means all methods.

    Raises:
        AnchorscopeError: There is no such method.
    """
    chosen = METHODS if names is None else names
    if unknown := [name for name in chosen if name not in METHODS]:
        what, do = f"there is no detection method `{unknown[0]}`", nearest(unknown[0], METHODS)
        raise AnchorscopeError(what, "detection.methods", do, see="config")
    return [method for name, method in METHODS.items() if name in chosen]


def label_of(detector: str) -> str:
    """Return a detector's name in pictures: its method's label, or the name given by the user."""
    return METHODS[detector].label if detector in METHODS else detector


def in_order(detectors: Iterable[str]) -> list[str]:
    """Return each name once: methods in the order of the registry, then other detectors."""
    there = list(dict.fromkeys(map(str, detectors)))
    return [name for name in METHODS if name in there] + [n for n in there if n not in METHODS]
