"""The pictures of a figure, by what stands behind its name: what each draws, and how.

Read whenever Snakemake starts, so what draws is imported when a picture is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from anchorscope.detectors.pictures import views as detection
from anchorscope.experiments import registry
from anchorscope.experiments.knockout import views as knockout

Tables = Mapping[str, pd.DataFrame]
Drawn = tuple[Any, Callable[[], Sequence[Any]]]
"""A chart, and what gives all that its page can switch to."""
OF_FIGURE = ("", "controls", "contrasts", "crossing", "density")
"""What stands behind a figure's name in the tables of its main run that are drawn."""


@dataclass(frozen=True)
class Drawing:
    """One picture; `draw` is given its view, its tables, the keywords of a chart, and the records
    of all products on the way to the first table."""

    draw: Callable[[str, Tables, dict[str, Any], Mapping[str, Any]], Drawn]
    tables: tuple[str, ...]  # what stands behind the figure's name in theirs
    category: str  # in Snakemake's own report
    title: str = ""  # empty: the figure's
    grouped: bool = False  # whether it shows one grouping, that of the config


def pictures(readouts: Mapping[str, str]) -> dict[str, Drawing]:
    """View → picture; the figure's own is the empty one. `readouts` are those with a view."""
    beside = [view for view in knockout.VIEWS if view != "readouts" or len(readouts) > 1]
    found = {"": Drawing(_figure, ("", "crossing", "strata"), "Figures", grouped=True)}
    for view in (*beside, *readouts.values()):
        found[view] = Drawing(_view, OF_FIGURE, "Controls and probes", grouped=True)
    for stem, (name, view) in registry.pictures().items():
        title = registry.EXPERIMENTS[name].views[view]
        found[stem] = Drawing(_experiment, (name,), "Experiments", title)
    for stem, one in detection.VIEWS.items():
        found[stem] = Drawing(_detection, one.tables, "Detection", one.title)
    return found


def _figure(view: str, tables: Tables, request: dict[str, Any], made: Mapping[str, Any]) -> Drawn:
    from anchorscope.figures import figure_answers as answers
    from anchorscope.figures.figure_main import chart, choices
    from anchorscope.figures.figure_notes import model_notes
    from anchorscope.figures.figure_request import request_of

    curve, crossing, strata = tables.values()
    cells = answers.responses_of(made, request["panels"], request["datasets"])
    sure = answers.sure_note(curve, strata, request_of(**request))
    request["no_answers"] = " ".join(filter(None, (answers.no_answer_note(cells), sure)))
    request["notes"] = [*answers.answer_details(cells), *model_notes(made, request["panels"])]
    return chart(curve, crossing, **request), partial(choices, curve, crossing, **request)


def _view(view: str, tables: Tables, request: dict[str, Any], made: Mapping[str, Any]) -> Drawn:
    from anchorscope.figures.figure_data import at_readout
    from anchorscope.figures.figure_main import chart, choices
    from anchorscope.figures.figure_notes import model_notes

    request["notes"] = model_notes(made, request["panels"])
    if one := knockout.VIEWS.get(view):
        drawn = [tables[name] for name in one.tables]
        return one.chart(*drawn, **request | {"title": one.title}), tuple
    site, position = view.split("-")
    at = request | {"readout": (site, position)}
    # the figure's own page switches between all read-outs
    curve, crossing = at_readout(tables[""], (site, position)), tables["crossing"]
    return chart(curve, crossing, **at), partial(choices, curve, crossing, **at)


def _experiment(view: str, tables: Tables, request: dict[str, Any], made: Any) -> Drawn:
    name, chart = registry.pictures()[view]
    return registry.EXPERIMENTS[name].chart(chart)(*tables.values(), **request), tuple


def _detection(view: str, tables: Tables, request: dict[str, Any], made: Any) -> Drawn:
    return detection.VIEWS[view].chart(*tables.values(), **request), tuple
