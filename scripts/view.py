"""Draw one picture that belongs beside a figure."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.figure_controls import controls_chart
    from anchorscope.experiments.figure_probes import probes_chart
    from anchorscope.figures.figure_data import at_readout
    from anchorscope.figures.figure_readouts import readouts_chart
    from anchorscope.figures.figures import CUTS, chart, choices, save

    chosen, view = snakemake.params, snakemake.wildcards.view
    given = snakemake.input
    curve, contrasts, controls, density = (
        read_csv(path) for path in (given.curve, given.contrasts, given.controls, given.density)
    )
    readout = tuple(chosen.readout.split("/"))
    switched = []
    looks = {
        "panels": [(name, chosen.label["models"][name]) for name in chosen.models],
        "datasets": [(name, chosen.label["datasets"][name]) for name in chosen.datasets],
        "style": chosen.chart,
        "level": chosen.level,
    }
    if view == "controls":
        title = "What flips by itself, and what the probes know"
        drawn = controls_chart(controls, contrasts, title=title, readout=readout, **looks)
    elif view == "probes":
        looks["grouping"] = chosen.grouping
        drawn = probes_chart(controls, curve, density, title="The probes", readout=readout, **looks)
    elif view == "readouts":
        title = "ΔP at every read-out"
        drawn = readouts_chart(curve, title=title, grouping=chosen.grouping, **looks)
    else:
        looks |= {"readout": tuple(view.split("-")), "grouping": chosen.grouping}
        looks["title"] = CUTS["knockout"]
        drawn = chart(curve, **looks)
        # the figure's own page switches between all read-outs
        switched = choices(at_readout(curve, looks["readout"]), **looks)
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem, switched)
    counts = provenance.read(given.curve)["counts_by_cell"]
    provenance.of_stage(snakemake, stem, counts_by_cell=counts)
