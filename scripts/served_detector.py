"""Write a detector at the residual stream, from the cell's probes or from one more pass."""

from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors import served
    from anchorscope.workflow import detectors, jobs

    cell = detectors.cell(snakemake)
    readout = judged = served.READOUT
    if readout in cell.probes.fitted:
        probes, states = detectors.fitted(snakemake, cell, readout)
    else:
        _, loaded = jobs.model_of(snakemake)
        states = served.states(loaded, cell.answers, readout)
        probes = served.fit(states, cell.design, loaded.device)
        judged = cell.readout(snakemake.params.main)
    detectors.write(snakemake, cell, readout, probes, states, judged=judged)
