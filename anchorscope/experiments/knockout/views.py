"""The pictures beside a figure, by their names. Read whenever Snakemake starts."""

from anchorscope.figures.figure_view import View

VIEWS = {
    "controls": View(
        "Controls: what else flips, and how good the probes are",
        "experiments.knockout.figure_controls:controls_chart",
        ("controls", "contrasts"),
    ),
    "crossing": View(
        "What the probes read: question, answer, pair",
        "experiments.crossing.figure:crossing_chart",
        ("crossing",),
    ),
    "probes": View(
        "The probes", "experiments.knockout.figure_probes:probes_chart", ("controls", "", "density")
    ),
    "readouts": View("ΔP at every read-out", "figures.figure_readouts:readouts_chart", ("",)),
}
