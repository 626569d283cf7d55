"""Draw the calibration: where the instrument can be trusted and where it cannot."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration.figure_calibration import calibration_chart
    from anchorscope.figures.figure_files import keywords, save

    request = keywords(snakemake.params, "The instrument against known truth")
    stem = Path(snakemake.output.html).with_suffix("")
    save(calibration_chart(read_csv(snakemake.input[0]), **request), stem)
    provenance.of_stage(snakemake, stem)
