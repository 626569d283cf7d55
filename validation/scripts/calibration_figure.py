"""Draw the calibration figure: where the method can be trusted and where it cannot."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.figures.files import keywords, save
    from validation.figure_calibration import calibration_chart

    request = keywords(snakemake.params, "The instrument against known truth")
    stem = Path(snakemake.output.html).with_suffix("")
    save({"": calibration_chart(read_csv(snakemake.input[0]), **request)}, stem)
    provenance.of_stage(snakemake, stem)
