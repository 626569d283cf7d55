"""Write the mean of one cell's fold probes as a detector."""

from pathlib import Path

from anchorscope.config.readouts import Pair, available
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_json, read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors import card, served
    from anchorscope.detectors.detector import Origin, export, out_of_fold_auc, shape_of
    from anchorscope.models.loading import read_config
    from anchorscope.models.rows import arounds_of
    from anchorscope.passes import activations
    from anchorscope.probes import fitting, stored
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.detector
    located, folder = read_json(given.model), given.activations
    from_hub = located["source"] != "local"
    probes = stored.read(given.probes)
    sites = {Pair.of(one).site for one in probes.fitted}
    readout = available(chosen.readout, sites)
    settings = fitting.ProbeSettings(**chosen.probe, seed=chosen.seed)
    answers = activations.measured(read_parquet(given.answers), folder)
    design = probes.design(answers, settings, folder)
    if readout in probes.fitted:
        fitted, (_, states) = probes.fitted[readout], activations.read(folder, readout, "clean")
    else:
        located, loaded = jobs.model_of(snakemake)
        states = served.states(loaded, answers, readout)
        fitted = served.fit(states, design, loaded.device)
    origin = Origin(
        model=located["source"] if from_hub else located["path"],
        revision=located["revision"] if from_hub else None,
        dtype=chosen.dtype,
        shape=shape_of(read_config(Path(located["path"])), located["path"]),
        style=chosen.style,
        around=arounds_of(read_parquet(given.prompts), answers),
        settings=chosen.settings,
    )
    # the numbers of the run are those of a read-out of the run
    judged = readout if readout in probes.fitted else available(chosen.main, sites)
    table = card.numbers(read_csv(given.summary), judged)
    table |= {card.AT_LAYER: out_of_fold_auc(fitted, design, states)}
    export(fitted, readout, answers, states, origin, data=chosen.data, table=table).save(written)
    counts = provenance.counts_of(folder)
    provenance.of_stage(snakemake, written, counts=counts, model=located)
