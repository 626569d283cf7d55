"""The figure `probes`: how good the probes are, and whom the groups hold, layer by layer."""

from functools import partial

import pandas as pd

from anchorscope.experiments.knockout.figure_controls import NEEDED
from anchorscope.figures import figure_data as data, figure_notes as notes, figure_style as draw
from anchorscope.figures.figure_axis import PERCENT, Axis, auc_axis, axis_of, ticks_of
from anchorscope.figures.figure_picture import Caption, Panel, Picture, Request, as_chart, by_model

CONTROLS = f"{NEEDED} floor_auc prompt_end_auc added_auc added_low added_high ece"
DENSITY = "model dataset site position condition layer x density"
TIPS = draw.LAYER | {"series": ("line", ""), "measure": ("of", ""), "value": ("value", ".3~f")}
# dotted beside the read-out's own AUC: column → what it is; the floor has no markers
BESIDE = {"prompt_end_auc": "AUC at the prompt's end", "floor_auc": "AUC of the hardest floor"}
COLOURS_DETAIL = "AUC, calibration error and density are in the colour of the Q-Anchored line."
AUC = partial(auc_axis, title="Probe AUC", least=0.5)
RIGHT = Axis("Right (%)", PERCENT)
POPULARITY = partial(axis_of, title="Popularity", least=1)
ERROR = partial(axis_of, title="Error", least=0.1)
HUMPS = "A bimodal density is not evidence of two mechanisms."


@as_chart
def probes_chart(
    controls: pd.DataFrame, curve: pd.DataFrame, density: pd.DataFrame, request: Request
) -> Picture:
    """A column per model: AUC, the groups' answer accuracy and popularity, calibration, Δlogit.

    Of the rows of `results/tables/<figure>.controls.csv`, `.csv` and `.density.csv`; panels of
    which these have nothing are left out. Raises AnchorscopeError: missing columns, or nothing
    measured at this read-out.
    """
    checked = data.shown(controls, request, CONTROLS.split())
    changes = data.shown(density, request, DENSITY.split())
    groups = data.select(curve, request.readout)
    groups = data.labelled(groups[groups["condition"] == "knockout"], request)
    measure = partial(Panel, tips=TIPS, height=0.65)
    accuracy, popularity = (
        _of_groups(groups, *one) for one in (("answer_accuracy", 100), ("popularity", 1))
    )
    ece = "Calibration error of the probes"
    panels = [
        Panel("auc", _aucs(checked), AUC, TIPS, height=0.9),
        measure("accuracy", accuracy, RIGHT, heading="Answer accuracy of the groups"),
        measure("popularity", popularity, POPULARITY, heading="Mean popularity of the groups"),
        measure("ece", _of_probes(checked, "ece", ece), ERROR, heading=ece),
        _density_panel(changes, checked),
    ]
    panels = [one for one in panels if len(one.rows) or one.name in ("auc", "density")]
    series = draw.paper_series(request.datasets)
    caption = _caption(checked, groups, request)
    return Picture(by_model(request), series, panels, caption)


def _aucs(checked: pd.DataFrame) -> pd.DataFrame:
    """The AUC of each cell's probe, and dotted what it is held against."""
    parts = [_of_probes(checked, "probe_auc", "Probe AUC", ends="auc").assign(chance=False)]
    for column, about in BESIDE.items():
        lines = _of_probes(checked.assign(signal=True), column, about).assign(chance=True)
        parts.append(lines.assign(mark=lines["mark"] & (column != "floor_auc")))
    return pd.concat(parts)


def _of_probes(checked: pd.DataFrame, column: str, about: str, ends: str = "") -> pd.DataFrame:
    """Lines of the probes' cells, in the colour of the Q-Anchored groups."""
    rows = data.numbered(checked, column, n="n", ends=ends, measure=about, condition=column)
    return data.in_runs(data.by_group(rows, draw.ANCHORS[0]), ["measure", "condition"])


def _of_groups(groups: pd.DataFrame, column: str, factor: float) -> pd.DataFrame:
    """Lines of the groups."""
    rows = groups[groups["anchor"].isin(draw.ANCHORS)]
    about = f"{column.replace('_', ' ').capitalize()} of the groups"
    rows = data.numbered(rows, column, factor, n="n", measure=about)
    return data.in_runs(data.by_group(rows), ["measure", "condition"])


def _density_panel(changes: pd.DataFrame, checked: pd.DataFrame) -> Panel:
    """Densities of Δlogit; square roots, so that a wide hump shows beside a narrow one."""
    place = ["model", "dataset", "layer"]
    rows = changes.merge(checked[[*place, "signal"]], on=place, how="left")
    rows = rows.assign(signal=data.true(rows["signal"]), x=rows["x"].round(4))
    rows = rows.assign(value=rows["density"].astype(float), measure="Density of Δlogit")
    lines = data.in_runs(
        data.by_group(rows, draw.ANCHORS[0]), ["measure", "condition"], ["layer"], x="x", digits=6
    )
    lines = lines.assign(chance=lines["condition"] == "random")
    places = list(lines["x"]) or [0.0, 1.0]
    ends = min(places), max(places)
    step = 2 if ends[1] - ends[0] <= 16 else 5
    ticks = [step * k for k in range(int(ends[0] // step) + 1, int(ends[1] // step) + 1)]
    below = Axis("Δlogit", (ends, ticks), field="x")

    def up(rows: pd.DataFrame) -> Axis:
        return Axis("Density (√)", ticks_of(rows["value"].dropna(), 1e-3), kind="sqrt")

    heading = "Density of Δlogit, layer of best AUC (solid: knockout, dotted: random tokens)"
    return Panel("density", lines, up, TIPS, below, height=0.65, heading=heading)


def _caption(checked: pd.DataFrame, groups: pd.DataFrame, request: Request) -> Caption:
    """Read-out and n, what is dotted, what the answer adds."""
    of_groups = data.cells_of(groups, request)
    measured = checked["prompt_end_auc"].notna().any()
    before = "; hollow markers: probe at the prompt's end" if measured else ""
    sizes = checked.groupby(["model", "dataset"])["n"].max()
    return notes.caption(
        request,
        checked,
        f"{request.where}; {notes.GROUPS}",
        f"{notes.size_note(sizes)} samples per cell",
        [notes.cross_note(of_groups), f"Dotted AUC: hardest text model{before}.", _added(checked)],
        [HUMPS, COLOURS_DETAIL, *notes.thin_note(of_groups)],
        intervals=notes.FIXED,
    )


def _added(checked: pd.DataFrame) -> str:
    """What reading the answer adds to the AUC at the headline layers."""
    values = checked["added_auc"][checked["headline"]].dropna()
    if values.empty:
        return ""
    ends = dict.fromkeys(_signed(value) for value in (values.min(), values.max()))
    return f"At the headline layer reading the answer adds {' to '.join(ends)} to the AUC."


def _signed(value: float) -> str:
    """A number with two digits and a true minus."""
    return f"{value:.2f}".replace("-", "\u2212")
