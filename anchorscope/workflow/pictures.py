"""The pictures of a figure. The *view* of a picture is the suffix of its file name.

Snakemake imports this module at every start. To save time, drawing code is imported only when used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from anchorscope.config.readouts import Location
from anchorscope.figures.view import View

FIGURE = View("", "figures.main:chart", ("", "controls", "crossing", "claims"))
EVIDENCE = View(
    "Evidence: gold and wrong answers swapped, and what flips the probes",
    "curve.evidence:evidence_chart",
    ("controls", "crossing", "", "claims"),
)
"""The picture of swap shares and flips in the main run."""


def pictures(readouts: Mapping[str, str]) -> dict[str, View]:
    """Return view → picture. The figure itself has the view "".

    `readouts` maps read-outs to their views, such as `mlp/final` → `mlp-final`.
    """
    from anchorscope.detectors.registry import VIEWS
    from anchorscope.experiments.registry import EXPERIMENTS

    found = {"": FIGURE, "evidence": EVIDENCE}
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
    """Return label → chart: first the picture, then the alternatives that its page offers.

    The figure and the evidence offer the other read-outs. The figure also offers the other
    conditions at its own read-out. `tables` maps the suffix of each table's file name to the table.
    `request` holds the keywords of a chart. `made` is the provenance of all products behind the
    first table.
    """
    if picture.of_main_run:
        from anchorscope.figures.notes import no_answer_note

        request["no_answers"] = no_answer_note(made, request["panels"], request["datasets"])
    drawn = [tables[name] for name in picture.tables]
    request |= _where(drawn[0], request)
    if picture == FIGURE:
        from anchorscope.figures.main import choices

        figures = choices(*drawn, **request)
    else:
        figures = {"/".join(request["readout"]): picture.chart(*drawn, **request)}
    if view in ("", "evidence"):
        for readout in _others(tables[""], request["readout"]):
            other = request | _where(tables[""], request | {"readout": readout})
            figures["/".join(readout)] = picture.chart(*drawn, **other)
    return figures


def _where(table: pd.DataFrame, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the read-out to draw, and the labels of models that are read at `resid` instead."""
    site, position = request["readout"]
    has_site = {*table["model"][table["site"] == site]}
    if not has_site:
        return {"readout": ("resid", position), "at_resid": []}
    at_resid = [label for key, label in request["panels"] if key not in has_site]
    return {"readout": (site, position), "at_resid": at_resid}


def _others(table: pd.DataFrame, own: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the further read-outs that together show all rows of a table."""
    from anchorscope.figures.data import measured_in, rows_at

    left = table.drop(rows_at(table, own).index)
    while readouts := measured_in(left):
        readout = Location.of(readouts[0])
        yield readout
        left = left.drop(rows_at(left, readout).index)
