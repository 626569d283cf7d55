"""Fit one cell's probes and score every condition, out of fold."""

import functools

from anchorscope.probes.samples import kept
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet, write_parquet_parts
from anchorscope.storage.progress import Progress
from anchorscope.workflow.stage import log, stage, use_threads

with stage(snakemake):
    import pandas as pd

    from anchorscope.models import activations
    from anchorscope.probes import draws, fitting, floors, scores
    from anchorscope.workflow import studies
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    wanted = "cpu" if snakemake.resources.device == "cpu" else "cuda"
    device = best_device(wanted)
    folder = snakemake.input.activations
    answers = activations.measured(read_parquet(snakemake.input.answers), folder)
    settings = {**chosen.probe, "seed": chosen.seed}
    product = snakemake.output.scores
    why_not = fitting.obstacle(kept(answers), fitting.Settings(**settings))
    if why_not and studies.varies(snakemake.wildcards.root):
        # Other variants can be measured: this one's tables stay empty.
        log.warning("%s: no scores", why_not)
        write_parquet(pd.DataFrame(columns=list(scores.COLUMNS)), product)
        write_parquet(pd.DataFrame(columns=list(floors.COLUMNS)), snakemake.output.floors)
        draws.none().write(snakemake.output.draws)
    else:
        conditions = activations.conditions_of(chosen.conditions)
        drawn = scores.drawn(answers, settings)
        depth = len(activations.read(folder, chosen.readouts[0], "clean")[1])
        total = len(chosen.readouts) * depth
        total *= scores.to_fit(answers, conditions, settings, draws=len(drawn))
        found = (
            frame
            for readout in chosen.readouts
            for frame in scores.frames(
                functools.partial(activations.read, folder, readout),
                answers,
                readout,
                conditions,
                settings,
                draws=drawn,
                device=device,
            )
        )
        with Progress(total=total, unit="probes"):
            write_parquet_parts(found, product)
        drawn.write(snakemake.output.draws)
        write_parquet(floors.floors(answers, settings), snakemake.output.floors)
    provenance.of_stage(
        snakemake,
        product,
        counts=provenance.counts_of(folder),
        device=device,
        dtype="float32",
    )
