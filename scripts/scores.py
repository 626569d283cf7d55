"""Fit one cell's probes and score every condition, out of fold."""

from functools import partial

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet, write_parquet_parts
from anchorscope.storage.progress import Progress
from anchorscope.workflow.stage import log, stage, use_threads

with stage(snakemake):
    import pandas as pd

    from anchorscope.models import activations
    from anchorscope.probes import draws, fitting, floors, scores, stored
    from anchorscope.probes.samples import kept
    from anchorscope.workflow import studies
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen, written = snakemake.params, snakemake.output
    device = best_device("cpu" if snakemake.resources.device == "cpu" else "cuda")
    folder = snakemake.input.activations
    answers = activations.measured(read_parquet(snakemake.input.answers), folder)
    settings = fitting.Settings(**chosen.probe, seed=chosen.seed)
    why_not = fitting.obstacle(kept(answers), settings)
    if why_not and studies.varies(snakemake.wildcards.root):
        # Other variants can be measured: this one's tables stay empty.
        log.warning("%s: no scores", why_not)
        write_parquet(pd.DataFrame(columns=list(scores.COLUMNS)), written.scores)
        write_parquet(pd.DataFrame(columns=list(floors.COLUMNS)), written.floors)
        draws.none().write(written.draws)
        stored.write(written.probes, [], [], {})
    else:
        conditions = activations.conditions_of(chosen.conditions)
        drawn, fitted = scores.drawn(answers, settings), {}
        tables = (
            frame
            for readout in Progress(chosen.readouts, unit="read-outs")
            for frame in scores.frames(
                partial(activations.read, folder, readout),
                answers,
                readout,
                conditions,
                settings,
                draws=drawn,
                fitted=fitted,
                device=device,
            )
        )
        write_parquet_parts(tables, written.scores)
        drawn.write(written.draws)
        stored.write(
            written.probes, drawn.ids, fitting.design(kept(answers), settings).fold, fitted
        )
        write_parquet(floors.floors(answers, settings), written.floors)
    provenance.of_stage(
        snakemake,
        written.scores,
        counts=provenance.counts_of(folder),
        device=device,
        dtype="float32",
    )
