"""The tables of detection in one cell."""

from anchorscope.config.settings import Bootstrap
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors import cell_tables

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    tables = cell_tables.tables(
        read_parquet(given.detection),
        read_parquet(given.pathways),
        read_parquet(given.scores),
        read_parquet(given.answers),
        Bootstrap(**chosen.bootstrap),
        chosen.seed,
    )
    for name, table in tables.items():
        write_csv(table, written[name])
    counts = provenance.counts_of(given.detection)
    provenance.of_stage(snakemake, written.detection, counts=counts)
