"""`anchorscope check`: what would stop a run, or surprise, found before anything is downloaded."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from anchorscope.config.settings import Config
from anchorscope.models import loading, vocabulary
from anchorscope.models.loading import fits
from anchorscope.questions import datasets, hub, prompts, reading, revisions
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.around import check_room
from anchorscope.workflow.devices import gpus_here
from anchorscope.workflow.resources import activation_bytes, in_cache, samples
from anchorscope.workflow.studies import Cell


class Finding(NamedTuple):
    """One thing that was looked at: a config, target, disk, gpu, hub, model or dataset."""

    status: Literal["ok", "warning", "error"]
    about: str
    what: str
    do: str | None = None
    see: str | None = None


def tried(about: str, name: str, call: Callable[..., str], *given: Any) -> Finding:
    """What a call of the library comes to: the words that it returns, or its refusal."""
    try:
        return Finding("ok", about, f"{name}: {call(*given)}")
    except AnchorscopeError as error:
        where = f" ({error.where})" if error.where is not None else ""
        return Finding("error", about, f"{name}: {error.what}{where}", error.do, error.see)


def check(config: Config, work: Mapping[str, Sequence[Cell]]) -> Iterator[Finding]:
    """Everything that the targets need; `work` is target → cells, see `studies.cells_of`."""
    cells = [cell for named in work.values() for cell in named if not cell.built]
    left = list({(cell.study.root, cell.model, cell.dataset): cell for cell in cells}.values())
    models = list(dict.fromkeys(cell.model for cell in left))
    rows = list(dict.fromkeys(cell.dataset for cell in left))
    counted = [f"{len(getattr(config, c))} {c}" for c in ("models", "datasets", "figures")]
    yield Finding("ok", "config", f"valid: {', '.join(counted)}")
    for target, cells_of_it in work.items():
        yield target_finding(target, cells_of_it)
    yield tried("disk", config.results, disk, config, left)
    for name in models:
        yield from model(config, name)
    yield from gpu(config, models)
    for name in (name for name in rows if config.local_of(name) is not None):
        asked = {config.models[c.model].answers_of or c.model for c in left if c.dataset == name}
        styles = {config.models[model].prompt for model in asked}
        yield tried("dataset", name, dataset, config, name, styles)
    yield from access(config, models, rows)


def target_finding(target: str, cells: Sequence[Cell]) -> Finding:
    """What is left to do for a target."""
    left = [cell for cell in cells if not cell.built]
    if not left:
        what = f"{target}: all {len(cells)} cells are there"
        return Finding("ok", "target", what, "whether they are up to date, `snakemake -n` says")
    rows = sum(samples(cell.study.config, cell.dataset) for cell in left)
    what = (
        f"{target}: {len(left)} of {len(cells)} cells to measure, at most {rows:,} samples, "
        f"activations about {gigabytes(sum(map(_bytes, left)))}"
    )
    return Finding("ok", "target", what)


def _bytes(cell: Cell) -> int:
    return activation_bytes(cell.study.config, cell.model, cell.dataset)


def disk(config: Config, left: Iterable[Cell]) -> str:
    """Room for activations beside the results."""
    need = check_room(map(_bytes, left), config.keep_activations, config.results)
    return f"activations need about {gigabytes(need)}; the disk has room"


def gigabytes(count: float) -> str:
    """Bytes in words."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def model(config: Config, name: str) -> Iterator[Finding]:
    """Checkpoints on this machine: whether they are what the config says."""
    entry = config.models[name]
    places = [Path(entry.local)] if entry.local else []
    if entry.train:
        recipe = config.recipe_hash(name)
        trained = [Path(config.results, "models", name), Path("resources/models", name)]
        places = [place for place in trained if fits(place, recipe)]
        if not places:
            what = f"{name}: no checkpoint of the present recipe ({recipe}), it is trained first"
            yield Finding("warning", "model", what)
    for place in places[:1]:
        yield tried("model", name, checkpoint, place, entry.prompt)


def checkpoint(folder: Path, prompt: str) -> str:
    """Refuse a checkpoint that cannot be measured, or not with this style of prompt."""
    loading.check(folder)
    if prompt == "chat":
        prompts.check_template(vocabulary.load(folder))
    return str(folder)


def gpu(config: Config, models: Iterable[str]) -> Iterator[Finding]:
    """GPUs, where a model asks for one."""
    asked = {name: config.models[name].resources for name in models}
    asked = {name: wanted for name, wanted in asked.items() if wanted.gpus}
    if not asked:
        return
    here, memory = gpus_here(), gpu_memory()
    what = f"{here} here, of {', '.join(map(gigabytes, memory)) or 'unknown size'}"
    few = [name for name, wanted in asked.items() if wanted.gpus > here]
    small = [n for n, wanted in asked.items() if memory and wanted.gpu_mem_gb * 1e9 > min(memory)]
    if not here:
        do = "run where there is a GPU, or on a cluster with `snakemake --profile slurm`"
        yield Finding("warning", "gpu", f"none here, {', '.join(few)} would run on the CPU", do)
    elif few:
        do = "layers are spread over those there are; ask for more where it runs"
        yield Finding("warning", "gpu", f"{what}; too few for {', '.join(few)}", do)
    elif small:
        do = "lower `batch_tokens`, or ask for a larger GPU"
        yield Finding("warning", "gpu", f"{what}; too small for {', '.join(small)}", do)
    else:
        yield Finding("ok", "gpu", what)


def gpu_memory() -> list[int]:
    """Bytes of each GPU that torch can use; none with a build of torch for the CPU."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [int(torch.cuda.get_device_properties(i).total_memory) for i in range(count)]


def dataset(config: Config, name: str, styles: Collection[str]) -> str:
    """Refuse rows of the user's own that cannot be read, shown in prompts or learned from."""
    local = str(config.local_of(name))
    counts = datasets.preflight(
        config.datasets[name].numbers() | {"local": local},
        sample_size=samples(config, name),
        seed=config.seed,
        hold_back="few_shot" in styles,
        n_folds=config.probe.folds,
        where=local,
    )
    left = [f"{count:,} {reason}" for reason, count in counts.dropped.items()]
    without = f"; left out: {', '.join(left)}" if left else ""
    return f"{counts.kept:,} of {counts.total:,} rows of {local} are usable{without}"


def access(config: Config, models: Iterable[str], rows: Iterable[str]) -> Iterator[Finding]:
    """What is still to be had from the hub, and whether it can be; asks it for these alone."""
    wanted = [("model", name, config.models[name].hub) for name in models]
    wanted += [("dataset", name, config.datasets[name].hub) for name in rows]
    reached = True
    for kind, name, hub_id in wanted:
        if hub_id is None:
            continue
        entry = config.models[name] if kind == "model" else config.datasets[name]
        if said := revisions.unpinned(f"{kind}s", hub_id, entry.revision):
            yield Finding("warning", "hub", f"{kind} {name}: {said}")
        if here(config, kind, name):
            continue
        found = Finding("error", "hub", f"{kind} {name}: not here, and the hub cannot be reached")
        if reached:
            found = tried("hub", f"{kind} {name}", ask, kind, hub_id)
            reached = found.see != "hub-unreachable"
        if found.status == "error" and getattr(entry, "gated", False):
            terms = f"its terms are at https://huggingface.co/{hub_id}"
            found = found._replace(do=f"{found.do}; {terms}" if found.do else terms)
        yield found


def here(config: Config, kind: str, name: str) -> bool:
    """Whether a hub model or dataset is on this machine."""
    if kind == "dataset":
        rows = config.datasets[name]
        commit = revisions.known_commit(str(rows.hub), rows.revision)
        cached = commit is not None and reading.prepared(str(rows.hub), rows.config, commit)
        return cached or Path(config.results, "data", f"{name}.parquet").is_file()
    folder = in_cache(str(config.models[name].hub), config.models[name].revision)
    # Weights that were cut short are fetched again.
    return folder is not None and tried("", "", checkpoint, folder, "").status == "ok"


def ask(kind: str, hub_id: str) -> str:
    """Ask whether the hub lets us have a model or dataset: the only call to the network here."""
    from huggingface_hub import HfApi

    hub.limit_silence()
    with hub.errors(kind, hub_id):
        HfApi().auth_check(hub_id, repo_type=kind)
    return f"{hub_id} can be downloaded"
