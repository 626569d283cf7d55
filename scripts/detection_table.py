"""Join the tables of detection of a figure's cells."""

import pandas as pd

from anchorscope.detectors.pictures.views import TABLES
from anchorscope.experiments.tables import join
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, write_csv
from anchorscope.storage.records import check_settings
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    check_settings(given.detection)
    for name in TABLES:
        write_csv(join(chosen.cells, [read_csv(path) for path in given[name]]), written[name])
    of_models = [
        read_csv(path).assign(model=model)
        for model, path in zip(chosen.models, given.transfer, strict=True)
    ]
    transfer = pd.concat(of_models, ignore_index=True)
    columns = ["model", *(name for name in transfer if name != "model")]
    write_csv(transfer[columns], written.transfer)
    provenance.of_stage(snakemake, written.detection)
