"""Generate the answers of one cell, find their exact tokens (E_A), and label them."""

from dataclasses import asdict

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.answers.answers import Settings, answer
    from anchorscope.questions.pool import Choice
    from anchorscope.workflow import jobs

    chosen, product = snakemake.params, snakemake.output.answers
    located, loaded = jobs.model_of(snakemake)
    names = ("style", "max_new_tokens", "max_prompt_tokens", "no_answer")
    settings = Settings(**{name: chosen[name] for name in names})
    tables = [read_parquet(snakemake.input[name]) for name in ("prompts", "questions")]
    device = loaded.device.type
    # The signature of a batch shows its prompts. So more questions leave old batches valid.
    of_model = provenance.read(snakemake.input.model)["identity"]
    how = [chosen.method, chosen.dtype, chosen.batch_tokens, asdict(settings)]
    waits = partial.folder_for(snakemake, product, device, how, of_model)
    chosen_from = Choice(**choice) if (choice := chosen.get("choice")) else None
    answers, counts = answer(*tables, loaded, settings, keep=waits, choice=chosen_from)
    write_parquet(answers, product)
    partial.settle(waits)
    facts = {"model": located, "device": device, "dtype": chosen.dtype, "counts": counts}
    provenance.of_stage(snakemake, product, **facts)
