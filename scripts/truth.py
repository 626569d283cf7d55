"""Find which pathway each sample of one calibration cell really uses."""

from pathlib import Path

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import digest, read_json, read_parquet, write_parquet
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    from anchorscope.calibration import truth
    from anchorscope.models.models import load
    from anchorscope.storage.room import Room
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    located = read_json(snakemake.input.model)
    device = best_device(snakemake.resources.device, snakemake.resources.gpu)
    loaded = load(located["path"], dtype=chosen.dtype, device=device)
    answers = read_parquet(snakemake.input.answers)
    taught = {Path(path).stem: read_parquet(path) for path in snakemake.input.taught}
    room = Room()
    passes = {"batch_tokens": chosen.batch_tokens, "blocks": chosen.blocks, "seed": chosen.seed}
    product = snakemake.output.truth
    waits = partial.folder_for(snakemake, product, loaded.device.type, digest(snakemake.input))
    found, counts = truth.truth(
        answers,
        read_parquet(snakemake.input.questions),
        loaded,
        train_rows=truth.graded_pairs(taught, chosen.worlds, chosen.train),
        conditions=chosen.conditions,
        **passes,
        room=room,
        keep=waits,
    )
    seal = truth.seal(loaded, answers, **passes, room=room)
    write_parquet(found, product)
    provenance.of_stage(
        snakemake,
        product,
        counts=counts,
        model=located,
        seal=seal,
        halved_batches=room.halved,
    )
