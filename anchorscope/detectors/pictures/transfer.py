"""Trained on one dataset, tried on another: a heat map."""

from itertools import product

import altair as alt
import pandas as pd

from anchorscope.detectors.pictures import figure_words as words, panels
from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_data import Row
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_style import Figure


@fitted
def transfer(table: pd.DataFrame, request: Request) -> Figure:
    """AUC on each dataset of the probe and the text model of each other one, by model."""
    data.require(table, "model dataset trained_on detector auroc n n_shared site position")
    rows = data.rows_at(table, request.readout)
    detectors = words.in_order(rows["detector"]) or ["probe"]
    across = len(detectors)
    look = panels.sized(request.look, across, 2 * len(request.datasets))
    width = panels.width_of(across, look) + 10 * look.label_size
    labels = dict(request.datasets)
    scale = alt.Scale(domain=[0.3, 0.5, 1], range=["#d6604d", "#f7f7f7", "#4393c3"])
    colour = alt.Color("value:Q", scale=scale, legend=None)
    tips = {
        "trained": ("trained on", ""), "value": ("AUC", ".3f"), "low": ("from", ".3f"),
        "high": ("to", ".3f"), "n": ("n", ",d"), "shared": ("left out, shared", ",d"),
    }  # fmt: skip
    views = []
    for place, ((model, label), detector) in enumerate(product(request.panels, detectors)):
        here = rows[(rows["model"] == model) & (rows["detector"] == detector)]
        cells: list[Row] = [
            panels.with_ends(row, "auroc", "auroc_low", "auroc_high", 1)
            | {"trained": labels.get(row["trained_on"], row["trained_on"]), "model": label,
               "dataset": labels.get(row["dataset"], row["dataset"]), "n": int(row["n"]),
               "shared": int(row["n_shared"])}
            for row in here.to_dict("records")
        ]  # fmt: skip
        last = place + across >= len(request.panels) * across
        turned = alt.Axis(title="trained on" if last else None, labelAngle=-40, grid=False)
        x = alt.X("trained:N", scale=alt.Scale(domain=[*labels.values()]), axis=turned)
        axis = alt.Axis(title="tested on" if place % across == 0 else None, grid=False)
        if place % across:
            axis = alt.Axis(title=None, labels=False, ticks=False, grid=False)
        y = alt.Y("dataset:N", scale=alt.Scale(domain=[*labels.values()]), axis=axis)
        view = figure_panel.heat_panel(cells, x, y, colour, look, tips, name=f"transfer_{place}")
        heading = draw.panel_heading(words.label_of(detector), look, below=label)
        views.append(view.properties(title=heading))
    caption = words.transfer_caption(rows, request)
    return draw.figure_of(views, across, width, request.title, caption, look)
