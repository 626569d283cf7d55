"""The overview of read-outs: sites below one another, positions side by side, for each model."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from anchorscope.figures import figure_data as data, figure_panel, figure_style as draw
from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_fit import Request, fitted
from anchorscope.figures.figure_main import column, delta_axis, panel_parts
from anchorscope.figures.figure_style import Figure, Style
from anchorscope.figures.figure_verdict import caption_of, flip_note

SITES = ("attn", "mlp", "resid")
POSITIONS = {
    "final": "final token",
    "before_answer": "token before the answer",
    "last_answer": "last answer token",
    "prompt_end": "last token of the prompt",
}


@fitted
def readouts_chart(curve: pd.DataFrame, request: Request) -> Figure:
    """Every read-out in the table at once: ΔP above flips, as in the main figure.

    A model's panels have one range of ΔP, so that read-outs can be compared by eye. `curve` holds
    rows of `results/tables/<figure>.csv`, of any number of read-outs; `readout` tells
    nothing here.
    Raises AnchorscopeError: missing columns, or nothing measured with this grouping.
    """
    look, datasets = request.look, request.datasets
    rows, grouping = data.select(curve, None, request.grouping)
    sites = [site for site in SITES if site in set(rows["site"])]
    across = [at for at in POSITIONS if at in set(rows["position"])]
    grid = {f"{site}/{at}": data.rows_at(rows, (site, at)) for site in sites for at in across}
    small = _smaller(look)
    width = len(across) * (small.panel_width + 0.7 * look.spacing) + 5 * look.label_size
    parts_by_model: list[dict[str, list[pd.DataFrame]]] = []
    cells: dict[str, pd.DataFrame] = {}
    for model, label in request.panels:
        panels = {at: (model, f"{label} at {at}") for at in grid}
        parts_by_model.append({at: panel_parts(grid[at], panels[at], datasets) for at in grid})
        for at, rows_here in grid.items():
            cells |= data.cells_of(rows_here, [panels[at]], datasets)
    curves = pd.concat([parts[0] for by_place in parts_by_model for parts in by_place.values()])
    shared = draw.encodings(draw.paper_series(datasets, curves), look, width)
    views = []
    for i, ((model, label), by_place) in enumerate(
        zip(request.panels, parts_by_model, strict=True)
    ):
        layers = data.layer_count(rows[rows["model"] == model])
        views.append(_model(label, by_place, len(across), layers, shared, small, name=str(i)))
    measured = sum(len(rows_here) > 0 for rows_here in grid.values())
    subject = f"{measured} read-out{'s' if measured != 1 else ''}; {flip_note(rows).lower()}"
    caption = caption_of(cells, subject, grouping, request.level)
    caption = Caption(caption.sentences, [*caption.details, *request.notes])
    return draw.figure_of(views, 1, width, request.title, caption, look)


def _smaller(look: Style) -> Style:
    """The sizes of panels of single read-outs."""
    sizes = {
        "panel_width": round(0.6 * look.panel_width),
        "panel_height": round(0.6 * look.panel_height),
        "share_height": round(0.6 * look.share_height),
        "marker_size": 0.6 * look.marker_size,
        "line_width": 0.75 * look.line_width,
        "panel_title_size": look.label_size,
    }
    return look.model_copy(update=sizes)


def _model(
    label: str,
    parts: Mapping[str, Sequence[pd.DataFrame]],
    across: int,
    layers: int,
    shared: draw.Encodings,
    look: Style,
    *,
    name: str,
) -> alt.ConcatChart:
    """One model's read-outs; the first of a row carries the labels of the y axes."""
    axis = delta_axis(pd.concat([panels[0] for panels in parts.values()]))
    views = []
    for k, (readout, panels) in enumerate(parts.items()):
        last = k + across >= len(parts)
        xs = [
            figure_panel.layer_axis(layers, None, labels=False),
            figure_panel.layer_axis(layers, "Layer" if last else None),
        ]
        headings = [draw.panel_heading(readout, look), None]
        labels = k % across == 0
        here = f"{name}_{k}"
        views.append(column(panels, axis, xs, headings, shared, look, name=here, labels=labels))
    whole = look.model_copy(update={"panel_width": across * look.panel_width})
    return alt.ConcatChart(
        concat=views,
        columns=across,
        spacing={"row": 10, "column": 0.7 * look.spacing},
        resolve=draw.one_legend(),
        title=draw.panel_heading(label, whole),
    )
