"""The overview of read-outs: sites below one another, positions side by side, for each model."""

from dataclasses import replace

import pandas as pd

from anchorscope.figures import figure_data as data, figure_style as draw
from anchorscope.figures.figure_main import curves, delta_panel
from anchorscope.figures.figure_picture import Caption, Column, Layout, Picture, Request, as_chart
from anchorscope.figures.figure_style import Style
from anchorscope.figures.figure_verdict import caption_of

SITES = ("attn", "mlp", "resid")
POSITIONS = {
    "final": "final token",
    "before_answer": "token before the answer",
    "last_answer": "last answer token",
    "prompt_end": "last token of the prompt",
}


@as_chart
def readouts_chart(curve: pd.DataFrame, request: Request) -> Picture:
    """Every read-out in the table at once: ΔP, as in the main figure.

    A model's panels have one range of ΔP, so that read-outs can be compared by eye. `curve` holds
    rows of `results/tables/<figure>.csv`, of any number of read-outs; `readout` tells
    nothing here.
    Raises AnchorscopeError: missing columns, or nothing measured with this grouping.
    """
    rows, grouping = data.select(curve, None, request.grouping)
    rows = data.labelled(rows[rows["condition"] == "knockout"], request)
    sites = [site for site in SITES if site in set(rows["site"])]
    positions = [at for at in POSITIONS if at in set(rows["position"])]
    places = [f"{site}/{at}" for site in sites for at in positions]
    rows = rows.assign(readout=rows["site"] + "/" + rows["position"])
    columns = [
        Column({"model": model, "readout": at}, at, model)
        for _, model in request.panels
        for at in places
    ]
    look = _smaller(request.look)
    delta_p = curves(rows)
    series = draw.paper_series(request.datasets)
    layout = Layout(columns, max(1, len(positions)), look, labelled=False)
    return Picture(
        layout, series, [delta_panel(delta_p)], _caption(rows, places, grouping, request)
    )


def _smaller(look: Style) -> Style:
    """The sizes of panels of single read-outs."""
    sizes = {
        "panel_width": round(0.6 * look.panel_width),
        "panel_height": round(0.6 * look.panel_height),
        "marker_size": 0.6 * look.marker_size,
        "line_width": 0.75 * look.line_width,
        "panel_title_size": look.label_size,
    }
    return look.model_copy(update=sizes)


def _caption(rows: pd.DataFrame, places: list[str], grouping: str, request: Request) -> Caption:
    """The words of the main figure; each read-out of a cell is a cell of its own."""
    panels = [("", f"{model} at {at}") for _, model in request.panels for at in places]
    named = rows.assign(model=rows["model"] + " at " + rows["readout"])
    measured = rows["readout"].nunique()
    subject = f"{measured} read-out{'s' if measured != 1 else ''}"
    return caption_of(replace(request, panels=panels), named, subject, grouping)
