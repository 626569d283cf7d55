"""The pictures of a figure by their view, the suffix of their file name.

Snakemake reads this module at every start, so drawing code is imported only when it draws.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from anchorscope.figures.figure_view import View

FIGURE = View("", "figures.figure_main:chart", ("", "crossing", "claims"))
EVIDENCE = View(
    "Evidence: what the probes know, and what flips them",
    "experiments.knockout.figure_evidence:evidence_chart",
    ("controls", ""),
)
"""The picture of the main run beside the figure itself."""
READOUTS = View("ΔP at every read-out", "figures.figure_readouts:readouts_chart", ("",))
"""The figure at several read-outs."""


def pictures(readouts: Mapping[str, str]) -> dict[str, View]:
    """Map each view to its picture; the figure's own view is empty.

    `readouts` maps each read-out that has a view to that view.
    """
    from anchorscope.detectors.registry import VIEWS
    from anchorscope.experiments.registry import EXPERIMENTS

    found = {"": FIGURE, "evidence": EVIDENCE}
    if len(readouts) > 1:
        found["readouts"] = READOUTS
    found |= dict.fromkeys(readouts.values(), FIGURE)
    for experiment in EXPERIMENTS.values():
        found |= experiment.pictures
    return found | {name: replace(one, of_main_run=False) for name, one in VIEWS.items()}


def draw(
    view: str,
    picture: View,
    tables: Mapping[str, pd.DataFrame],
    request: dict[str, Any],
    made: Mapping[str, Any],
) -> dict[str, Any]:
    """Draw a picture; return its chart, then all others that its page can switch to, by label.

    Figure and evidence offer every read-out, and the figure also its conditions at its own one.

    `tables` are the picture's inputs, by the suffix of their file names. `request` holds the
    keywords of a chart, and `made` the records of all products on the way to the first table.
    """
    if picture.of_main_run:
        from anchorscope.figures.figure_notes import no_answer_note

        request["no_answers"] = no_answer_note(made, request["panels"], request["datasets"])
    drawn, own = [tables[name] for name in picture.tables], request["readout"]
    if picture == FIGURE:
        from anchorscope.figures.figure_main import choices

        figures = choices(*drawn, **request)
    else:
        figures = {"/".join(own): picture.chart(*drawn, **request)}
    if view in ("", "evidence"):
        measured = tables[""][["site", "position"]].drop_duplicates()
        for readout in measured.itertuples(index=False, name=None):
            if readout != own:
                other = request | {"readout": readout}
                figures["/".join(readout)] = picture.chart(*drawn, **other)
    return figures
