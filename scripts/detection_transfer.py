"""Fit the detection methods on each dataset of a model, and test them on the other datasets."""

from anchorscope.config.settings import Bootstrap
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors import cell, transfer
    from anchorscope.passes.activations import measured, readouts
    from anchorscope.probes import fitting, stored
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.table
    device = jobs.device_of(snakemake)
    settings = fitting.ProbeSettings(**chosen.probe, seed=chosen.seed)
    cells, diagonal = {}, {}
    for number, dataset in enumerate(chosen.datasets):
        folder = given.activations[number]
        (readout,) = readouts(folder, [chosen.readout])
        answers = measured(read_parquet(given.answers[number]), folder)
        probes = stored.read(given.probes[number])
        of_cell = cell.read(folder, answers, probes, settings, readout, None, device)
        cells[dataset] = of_cell
        rows = read_parquet(given.scores[number])
        diagonal[dataset] = rows[rows["readout"] == readout]
    table = transfer.table(cells, diagonal, Bootstrap(**chosen.bootstrap), chosen.seed)
    write_csv(table, written)
    provenance.of_stage(snakemake, written, device=device)
