"""Fit every detection method in one cell, and score its samples out of fold."""

from anchorscope.storage import provenance
from anchorscope.storage.files import digest, read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors import (
        cell,
        given_scores,
        out_of_fold,
        self_awareness,
        token_probabilities,
    )
    from anchorscope.detectors.registry import named
    from anchorscope.passes import activations
    from anchorscope.probes import fitting, stored
    from anchorscope.statistics.analysis import stacked
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    device = jobs.device_of(snakemake)
    settings = fitting.ProbeSettings(**chosen.probe, seed=chosen.seed)
    answers = activations.measured(read_parquet(given.answers), given.activations)
    probes = stored.read(given.probes)
    outputs = [token_probabilities.features(activations.outputs(given.activations))]
    if given.p_true:
        outputs.append(read_parquet(given.p_true))
    methods, frames, notes = named(chosen.methods), [], {}
    users = given_scores.read(given.given) if given.given else None
    for readout in activations.readouts(given.activations, chosen.readouts):
        of_cell = cell.read(given.activations, answers, probes, settings, readout, outputs, device)
        scored = out_of_fold.scores(of_cell, methods).assign(**self_awareness.predictions(of_cell))
        if given.given:
            columns, notes = given_scores.scores(of_cell, users)
            scored = scored.assign(**columns)
        frames.append(scored)
    write_parquet(stacked(frames), written.scores)
    provenance.of_stage(
        snakemake,
        written.scores,
        counts=provenance.counts_of(given.activations),
        content=[digest([path]) for path in given.given],
        device=device,
        given_scores=notes,
    )
