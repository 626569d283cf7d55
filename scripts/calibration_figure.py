"""Draw the calibration: where the instrument can be trusted and where it cannot."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration.figure_calibration import calibration_chart
    from anchorscope.figures.figures import save

    chosen = snakemake.params
    drawn = calibration_chart(
        read_csv(snakemake.input[0]),
        title="The instrument against known truth",
        panels=[(name, chosen.label["models"][name]) for name in chosen.models],
        datasets=[(name, chosen.label["datasets"][name]) for name in chosen.datasets],
        style=chosen.chart,
        level=chosen.level,
    )
    stem = Path(snakemake.output.html).with_suffix("")
    save(drawn, stem)
    provenance.of_stage(snakemake, stem)
