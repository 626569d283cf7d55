"""Write the means of one cell's fold probes as detectors: at its read-out, and at one to serve."""

from dataclasses import replace
from pathlib import Path

from anchorscope.config.readouts import Location, available
from anchorscope.storage import provenance
from anchorscope.storage.files import read_csv, read_json, read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.answers.rows import arounds_of
    from anchorscope.detectors import card
    from anchorscope.detectors.detector import Origin, shape_of
    from anchorscope.detectors.export import SERVED, export, out_of_fold_auc, states_of
    from anchorscope.models.loading import read_config
    from anchorscope.passes import activations
    from anchorscope.probes import fitting, stored
    from anchorscope.workflow import jobs

    given, chosen, folder = snakemake.input, snakemake.params, snakemake.input.activations
    located = read_json(given.model)
    from_hub = located["source"] != "local"
    probes = stored.read(given.probes)
    settings = fitting.ProbeSettings(**chosen.probe, seed=chosen.seed)
    answers = activations.measured(read_parquet(given.answers), folder)
    design = probes.design(answers, settings, folder)
    origin = Origin(
        model=located["source"] if from_hub else located["path"],
        revision=located["revision"] if from_hub else None,
        dtype=chosen.dtype,
        shape=shape_of(read_config(Path(located["path"])), located["path"]),
        style=chosen.style,
        around=arounds_of(read_parquet(given.prompts), answers),
        settings=chosen.settings,
    )
    main = available(chosen.readout, {Location.of(one).site for one in probes.fitted})
    written = {snakemake.output.probe: main, snakemake.output.resid: SERVED}
    if not {*written.values()} <= probes.fitted.keys():
        located, loaded = jobs.model_of(snakemake)
    counts = provenance.counts_of(folder)
    for product, readout in written.items():
        if readout in probes.fitted:
            fitted, (_, states) = probes.fitted[readout], activations.read(folder, readout, "clean")
        else:
            states = states_of(loaded, answers, readout)
            fitted = fitting.fit(states, design, device=loaded.device)
        # the numbers of the run are those of a read-out of the run
        table = card.numbers(read_csv(given.summary), readout if readout in probes.fitted else main)
        table |= {card.AT_LAYER: out_of_fold_auc(fitted, design, states)}
        made = export(fitted, readout, answers, states, origin)
        replace(made, data=chosen.data, table=table).save(product)
        provenance.of_stage(snakemake, product, counts=counts, model=located)
