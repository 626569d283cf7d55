"""Fit one cell's probes and score every condition, out of fold."""

import functools

from anchorscope import partial, provenance
from anchorscope.files import read_parquet, write_parquet, write_parquet_parts
from anchorscope.stage import stage, use_threads

with stage(snakemake), partial.given_back(snakemake.input.activations):
    from anchorscope import activations, baseline, scores
    from anchorscope.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    wanted = "cpu" if snakemake.resources.device == "cpu" else "cuda"
    device = best_device(wanted)
    folder = snakemake.input.activations
    answers = activations.measured(read_parquet(snakemake.input.answers), folder)
    settings = {**chosen.probe, "seed": chosen.seed}
    found = (
        frame
        for readout in chosen.readouts
        for frame in scores.frames(
            functools.partial(activations.read, folder, readout),
            answers,
            readout,
            activations.conditions_of(chosen.conditions),
            settings,
            device=device,
        )
    )
    write_parquet_parts(found, snakemake.output.scores)
    text = baseline.text_baseline(answers, settings, device=device)
    write_parquet(text, snakemake.output.text)
    provenance.of_stage(
        snakemake,
        snakemake.output.scores,
        counts=provenance.counts_of(folder),
        device=device,
        dtype="float32",
    )
