"""The picture `readouts`: ΔP by layer at each read-out, drawn as in the main figure."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from anchorscope.config.readouts import POSITIONS, SITES
from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_data import Request
from anchorscope.figures.figure_main import curves, delta_panel
from anchorscope.figures.figure_picture import Column, Picture, as_chart, small


@as_chart
def readouts_chart(curve: pd.DataFrame, request: Request) -> Picture:
    """Draw ΔP at every read-out in the table, as in the main figure.

    All panels of a model have the same axis of ΔP. The request's `readout` is ignored.

    Raises:
        AnchorscopeError: Columns are missing.
    """
    rows = data.select(curve, None)
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
    layout = small(columns, max(1, len(positions)), request.look)
    series, caption = draw.paper_series(request.datasets), _readouts_caption(rows, places, request)
    return Picture(layout, series, [delta_panel(curves(rows))], caption)


def _readouts_caption(rows: pd.DataFrame, places: Sequence[str], request: Request) -> notes.Caption:
    """Write the main figure's caption, as if each read-out of a cell were a separate cell."""
    panels = [("", f"{model} at {at}") for _, model in request.panels for at in places]
    named = rows.assign(model=rows["model"] + " at " + rows["readout"])
    measured = rows["readout"].nunique()
    subject = f"{measured} read-out{'s' if measured != 1 else ''}"
    return notes.delta_p_caption(replace(request, panels=panels), named, subject)
