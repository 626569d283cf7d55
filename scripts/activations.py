"""Measure one cell's hidden states at the read-out positions, under every condition."""

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import log, stage

with stage(snakemake):
    from anchorscope import statements
    from anchorscope.models.vocabulary import check_tokens
    from anchorscope.passes import activations
    from anchorscope.probes import fitting
    from anchorscope.questions.pool import Choice
    from anchorscope.workflow import jobs

    path, chosen = snakemake.input.answers, snakemake.params
    located, loaded = jobs.model_of(snakemake)
    answers = read_parquet(path)
    check_tokens(loaded.tokenizer, answers, path)
    planned = fitting.plan_passes(
        loaded,
        answers,
        path,
        conditions=chosen.conditions,
        # Inner folds are cut when the probes are fitted, so changing them needs no new passes.
        probe=fitting.ProbeSettings(**chosen.folds, scoring="published", seed=chosen.seed),
        choice=Choice(**choice) if (choice := chosen.get("choice")) else None,
    )
    cell = f"{snakemake.wildcards.model} on {snakemake.wildcards.dataset}"
    log.info("%s: %s", cell, statements.chosen(answers, planned))
    labels = answers.set_index("id")["label"][[sample.id for sample in planned.samples]]
    if sentence := statements.hopeless(labels):
        log.warning("%s: %s", cell, sentence)
    product = snakemake.output.activations
    device = loaded.device.type
    waits = partial.folder_for(snakemake, product, device, planned)
    activations.write(waits, loaded, planned, chosen.readouts)
    facts = {"model": located, "device": device, "dtype": chosen.dtype, "counts": planned.counts}
    provenance.of_stage(snakemake, product, **facts)
    partial.publish(waits, product)
