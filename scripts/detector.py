"""Write the mean of one cell's fold probes as a detector."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_json, read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors.detector import Origin, export, shape_of
    from anchorscope.models.loading import read_config
    from anchorscope.models.rows import arounds_of
    from anchorscope.passes import activations
    from anchorscope.probes import stored
    from anchorscope.probes.samples import kept

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.detector
    located, folder = read_json(given.model), given.activations
    from_hub = located["source"] not in ("trained", "local")
    answers = kept(activations.measured(read_parquet(given.answers), folder))
    origin = Origin(
        model=located["source"] if from_hub else located["path"],
        revision=located["revision"] if from_hub else None,
        dtype=chosen.dtype,
        shape=shape_of(read_config(Path(located["path"])), located["path"]),
        style=chosen.style,
        around=arounds_of(read_parquet(given.prompts), answers),
        settings=chosen.settings,
    )
    fitted = stored.read(given.probes).fitted[chosen.readout]
    _, states = activations.read(folder, chosen.readout, "clean")
    export(fitted, chosen.readout, answers, states, origin).save(written)
    counts = provenance.counts_of(folder)
    provenance.of_stage(snakemake, written, counts=counts, model=located)
