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
    outputs = token_probabilities.features(activations.outputs(given.activations))
    if given.p_true:
        outputs = outputs.merge(read_parquet(given.p_true), on=["id", "condition"], how="left")
    methods, scored, predicted, notes = named(chosen.methods), [], [], {}
    for readout in activations.readouts(given.activations, chosen.readouts):
        of_cell = cell.read(given.activations, answers, probes, settings, readout, outputs, device)
        scored.append(out_of_fold.scores(of_cell, methods))
        for path in given.given:
            frame, counted = given_scores.scores(of_cell, given_scores.read(path), path)
            scored.append(frame)
            notes |= counted
        predicted.append(self_awareness.predictions(of_cell))
    write_parquet(stacked(scored, out_of_fold.COLUMNS), written.scores)
    write_parquet(stacked(predicted, self_awareness.SCORES), written.pathways)
    provenance.of_stage(
        snakemake,
        written.scores,
        counts=provenance.counts_of(given.activations),
        content=[digest([path]) for path in given.given],
        device=device,
        given_scores=notes,
    )
