"""Write the mean of one cell's fold probes as a detector."""

from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow import detectors

    cell = detectors.cell(snakemake)
    readout = cell.readout(snakemake.params.readout)
    probes, states = detectors.fitted(snakemake, cell, readout)
    detectors.write(snakemake, cell, readout, probes, states, judged=readout)
