"""`anchorscope check`: find what would stop or spoil a run, before anything is downloaded."""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from anchorscope import statements
from anchorscope.anchors import labels
from anchorscope.config.sections import Dataset, Model
from anchorscope.config.settings import Config
from anchorscope.experiments.registry import RunConfig
from anchorscope.models import contents, families, loading, vocabulary
from anchorscope.models.heard import heard
from anchorscope.passes import partners
from anchorscope.questions import datasets, hub, prompts, questions, reading, revisions
from anchorscope.statements import say
from anchorscope.storage.counts import BEYOND_LIMIT, in_words
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.styles import Example, style_of
from anchorscope.workflow import targets as known, trials
from anchorscope.workflow.around import check_room, check_writable
from anchorscope.workflow.devices import gpus_here
from anchorscope.workflow.resources import activation_bytes, asked, samples
from anchorscope.workflow.targets import Cell
from anchorscope.workflow.trials import Trial


class Finding(NamedTuple):
    """The result of one check; `do` and `see` are the same as in `AnchorscopeError`."""

    status: Literal["ok", "warning", "error"]
    about: str  # config, model, target, disk, gpu, time, dataset or hub
    what: str
    do: str | None = None
    see: str | None = None


def cells_of(config: RunConfig, target: str) -> list[Cell]:
    """Return the cells that `target` measures: a figure, or another target of Snakemake.

    Raises:
        AnchorscopeError: There is no such target.
    """
    if target in config.figures:
        return list(dict.fromkeys(config.cells(target)))
    if target in known.PROOF:
        raise known.elsewhere(target)
    if target not in known.TARGETS:
        names = nearest(Path(target).name, [*config.figures, *known.TARGETS])
        do = f"{names} (a figure of your own needs `--configfile` with its file)"
        raise AnchorscopeError(f"there is no target `{target}`", None, do, see="config")
    return [] if target == "reproduction" else known.shown_cells(config)


def is_built(config: Config, cell: Cell) -> bool:
    """Return whether a cell's last product exists, up to date or not (see `snakemake -n`)."""
    model, dataset = cell
    return Path(config.root, "delta_p", model, f"{dataset}.csv").is_file()


def tried(about: str, name: str, call: Callable[..., str], *arguments: Any) -> Finding:
    """Call a function, and return its text or its AnchorscopeError as a finding."""
    try:
        return Finding("ok", about, f"{name}: {call(*arguments)}")
    except AnchorscopeError as error:
        return refusal(about, name, error)


def refusal(about: str, name: str, error: AnchorscopeError) -> Finding:
    """Return an AnchorscopeError as a finding."""
    where = f" ({error.where})" if error.where is not None else ""
    return Finding("error", about, f"{name}: {error.what}{where}", error.do, error.see)


def check(
    config: RunConfig, work: Mapping[str, Sequence[Cell]], files: Iterable[str] = ()
) -> Iterator[Finding]:
    """Check everything that the targets need; `work` is target → cells, see `cells_of`.

    `files` are the config files named on the command line. Commands in advice repeat them.
    Models are checked first, because sizes on the disk can be given only for usable models.
    """
    # Models and rows are checked for built cells too, because they may have changed since.
    every = [cell for cells in work.values() for cell in cells]
    left = [cell for cell in dict.fromkeys(every) if not is_built(config, cell)]
    models = list(dict.fromkeys(model for model, _ in left))
    names = list(dict.fromkeys(dataset for _, dataset in left))
    sizes = [f"{len(getattr(config, c))} {c}" for c in ("models", "datasets", "figures")]
    yield Finding("ok", "config", f"valid, with {', '.join(sizes)}")
    if not Path("config.yaml").is_file():
        do = "to build a target, run `snakemake` with this config in the root of a clone"
        yield Finding("warning", "config", "this folder is no clone", do)
    for name in dict.fromkeys(model for model, _ in every):
        yield from model(config, name)
    targets = [tried("target", target, work_left, config, cells) for target, cells in work.items()]
    yield from targets
    if all(finding.status == "ok" for finding in targets):
        yield tried("disk", config.results, disk, config, left)
    made = trials.read()
    cards = trials.cards() if made else []
    known = {name: trial for name in models if (trial := trials.of(made, config, name, cards))}
    fitting = {name for name, trial in known.items() if trial.largest_batch_tokens}
    yield from gpu(config, [name for name in models if name not in fitting])
    for name, trial in known.items():
        yield from measured(config, trial, [cell for cell in left if cell[0] == name])
    for name in (name for name in models if name not in known):
        yield unknown_time(name, files)
    for name in dict.fromkeys(dataset for _, dataset in every):
        if config.local_of(name) is None:
            continue
        askers = {config.answering(asker) for asker, on in every if on == name}
        styles = {config.models[model].prompt for model in askers}
        yield from dataset(config, name, styles)
    yield from access(config, models, names)


def work_left(config: Config, cells: Sequence[Cell]) -> str:
    """Describe how many cells a target has left to measure, with samples and disk space."""
    left = [cell for cell in cells if not is_built(config, cell)]
    if not left:
        return "all cells were measured; `snakemake -n` tells whether they are out of date"
    n_asked, n = (sum(_counted(count, config, left)) for count in (asked, samples))
    size = gigabytes(sum(_bytes(config, left)))
    return str(say.cells_left(len(left), len(cells), n_asked, n, size))


def _counted(
    count: Callable[[Config, str], int], config: Config, cells: Iterable[Cell]
) -> list[int]:
    """Return the number of questions or samples (`count`) of each cell."""
    return [count(config, dataset) for _, dataset in cells]


def _bytes(config: Config, cells: Iterable[Cell]) -> list[int]:
    """Return the size of each cell's activations."""
    return [activation_bytes(config, *cell) for cell in cells]


def disk(config: Config, left: Iterable[Cell]) -> str:
    """Describe disk space for activations. Raise if space is short or the folder is read-only."""
    check_writable(config.results)
    need = check_room(_bytes(config, left), config.keep_activations, config.results)
    room = f"the disk has room for the activations, about {gigabytes(need)}"
    return room if need else "no activations are left to write"


def gigabytes(count: float) -> str:
    """Format bytes as GB or MB."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def model(config: Config, name: str) -> Iterator[Finding]:
    """Check a model's checkpoint, if it is on this machine, against the config."""
    entry = config.models[name]
    if entry.local:
        place = Path(entry.local)
        finding, *warnings = heard_of("model", name, place, entry, entry.prompt)
        yield finding
        yield from warnings
        if finding.status == "ok" and (newer := contents.newer_pickles(place)):
            which = f"newer than the safetensors in {place}, but not read: {', '.join(newer)}"
            do = "to measure these weights, load them and save them with `save_pretrained`"
            yield Finding("warning", "model", f"{name}: {which}", do, "no-safetensors")


def heard_of(about: str, name: str, folder: Path, entry: Model, prompt: str) -> list[Finding]:
    """Check a checkpoint. Return the finding, and those on what transformers warns of."""
    with heard() as warnings:
        finding = tried(about, name, checkpoint, folder, entry, prompt)
    texts = [f"{name}: transformers warns: {text}" for text in warnings]
    return [finding, *(Finding("warning", about, text) for text in texts)]


def checkpoint(folder: Path, entry: Model, prompt: str) -> str:
    """Return a checkpoint's folder. Raise if it cannot be used at all or with this prompt style."""
    loading.check(folder, entry.parts.model_dump() if entry.parts else None)
    loading.check_prompt(folder, entry.names_prompt)
    tokenizer = vocabulary.load(folder)
    vocabulary.check_begin(tokenizer, folder)
    if (style := style_of(prompt)).templated:
        style.around([Example("Who wrote it?", "Ann Bo")], tokenizer)
    return str(folder)


def measured(config: Config, trial: Trial, left: Iterable[Cell]) -> Iterator[Finding]:
    """Say how long a model's cells take and whether batches fit, from its trial on this machine."""
    cells = list(left)
    n_asked, n = (sum(_counted(count, config, cells)) for count in (asked, samples))
    time = trials.duration(trial.time(n_asked, n))
    yield Finding("ok", "time", say.time_needed(trial.model, time, trial.card))
    wanted = families.batch_tokens(config.batch_tokens, "cuda")
    if trial.limit is not None and trial.limit < wanted:
        what = say.batches_halved(trial.model, wanted)
        yield Finding("warning", "gpu", what, f"set `batch_tokens: {trial.limit}`")


def unknown_time(name: str, files: Iterable[str]) -> Finding:
    """Say that no trial tells how long a model takes here, and how to make one."""
    words = ["anchorscope", "selftest", "--like", name]
    for file in files:
        words += ["--configfile", file]
    do = f"to measure it, run `{shlex.join(words)}`"
    return Finding("ok", "time", f"{name}: time unknown", do)


def gpu(config: Config, models: Iterable[str]) -> Iterator[Finding]:
    """Check the GPUs of this machine, if a model asks for one."""
    here, needs = gpus_here(), {name: config.models[name].resources.gpus for name in models}
    if short := [name for name, gpus in needs.items() if gpus > here]:
        if here:
            do = (
                "use a larger machine (`snakemake --profile slurm`), or set `resources: {gpus: 0}` "
                "to run on the CPU; otherwise the layers are spread over the GPUs of this machine"
            )
        else:
            do = (
                "use a machine with a GPU (`snakemake --profile slurm`); without a GPU, the run "
                "uses the CPU, which may take days for a large model"
            )
        what = f"this machine has too few GPUs ({here}) for {', '.join(short)}"
        yield Finding("warning", "gpu", what, do)


def dataset(config: Config, name: str, styles: Collection[str]) -> Iterator[Finding]:
    """Check the user's own rows: can they be read, shown in prompts, and used to fit probes?"""
    local = str(config.local_of(name))
    shows_examples = any(style_of(style).shows_examples for style in styles)
    try:
        prepared = datasets.prepare(
            config.datasets[name].numbers() | {"local": local},
            sample_size=config.pool_size_of(name),
            seed=config.seed,
            hold_back=shows_examples,
        )
        if shows_examples:
            prompts.checked_examples(prepared.few_shot)
    except AnchorscopeError as error:
        yield refusal("dataset", name, error)
        return
    counts, rows = prepared.counts, prepared.sampled.head(asked(config, name))
    beyond = {BEYOND_LIMIT: n} if (n := counts.kept - len(rows)) else {}
    left_out = in_words({**counts.dropped, **beyond})
    usable = say.rows_usable(name, len(rows), counts.total, local, left_out)
    if obstacle := no_folds(rows, config):
        what = f"{usable}; no probe can be fitted: {obstacle.what}"
        yield Finding("error", "dataset", what, obstacle.do, obstacle.see)
    else:
        yield Finding("ok", "dataset", usable)
        if config.conditions.crossed is not None:
            yield pairs(name, rows.head(samples(config, name)), config)
        n = min(len(rows), samples(config, name))
        if sentence := statements.too_small(n):
            all_rows = counts.total <= samples(config, name)
            do = "Add rows." if all_rows else "Raise `sample_size` or `limit`, or add rows."
            yield Finding("warning", "dataset", f"{name}: {sentence}", do)
        else:
            yield Finding("ok", "dataset", statements.detectable(name, len(rows), n))
    for begin, do in questions.WARNINGS.items():
        for note in (note for note in counts.notes if note.startswith(begin)):
            yield Finding("warning", "dataset", f"{name}: {counts.notes[note]:,} {note}", do)
    yield from contradicted_labels(name, rows)


def no_folds(rows: pd.DataFrame, config: Config) -> AnchorscopeError | None:
    """Return the error if `rows` cannot be cut into folds, whatever a model answers; else None."""
    from anchorscope.probes import fitting  # loads torch

    if (groups := rows["component"].nunique()) < config.probe.folds:
        what = say.no_folds(config.probe.folds, groups)
        do = "add rows, raise `sample_size` or `limit`, or lower `probe.folds`"
        return AnchorscopeError(what, None, do, see="too-few-samples")
    try:
        fitting.design(supposed(rows), _folding(config))
    except AnchorscopeError as error:
        return error
    return None


def supposed(rows: pd.DataFrame) -> pd.DataFrame:
    """Fill in the answers and labels that are not known yet, in the most favourable way.

    Every second group of linked questions is labelled right. The answer is the first gold answer.
    """
    group = pd.factorize(rows["component"])[0]
    label = rows["label"].astype("Int64").fillna(pd.Series(group % 2, index=rows.index))
    gold = rows["answers"].map(lambda golds: next(iter(golds), ""))
    answer = rows["response"].fillna(gold)
    return rows.assign(label=label, golds=rows["answers"], ea_text=answer, dropped=None)


def _folding(config: Config) -> Any:
    """Return settings of folds that share no subject. Answers link no rows, as they are unknown."""
    from anchorscope.probes import fitting

    probe = config.probe.model_dump() | {"disjoint": "subject"}
    return fitting.ProbeSettings(**probe, seed=config.seed)


def pairs(name: str, rows: pd.DataFrame, config: Config) -> Finding:
    """Estimate how many pairs of answers can be swapped.

    Pairs of right and of wrong answers are counted separately if all labels are given. Otherwise
    half of the answers are assumed to be right.
    """
    from anchorscope.probes import fitting

    table = supposed(rows).assign(response=None)
    fold = fitting.design(table, _folding(config)).fold
    found = partners.crossing(table, dict(zip(table["id"], fold, strict=True))).partners
    label = table.set_index("id")["label"]
    counts = Counter(label[id_] for id_ in found)
    right, wrong = (counts[value] // 2 for value in (0, 1))
    labelled = rows["label"].notna().all()
    n = right if labelled else max(right, wrong)
    least = partners.LEAST_PAIRS if n < partners.LEAST_PAIRS else None
    what = say.pairs(name, n, wrong if labelled else None, least)
    if least is None:
        return Finding("ok", "dataset", what)
    do = (
        "add rows" if rows["relation"].notna().any() else "name a column as `relation`, or add rows"
    )
    return Finding("warning", "dataset", what, do, "too-few-pairs")


def contradicted_labels(name: str, rows: pd.DataFrame) -> Iterator[Finding]:
    """Warn if gold answers contradict most labels, and say if 1 and 0 look swapped."""
    both = rows[rows["response"].notna() & rows["label"].notna() & rows["answers"].map(bool)]
    said = zip(both["response"], both["question"], both["answers"], strict=True)
    right = pd.Series([labels.judge(*one) for one in said], index=both.index, dtype=bool)
    wrong = both["label"] == 1
    if 2 * (agree := int((wrong != right).sum())) >= len(both):
        return
    what = say.labels_disagree(name, agree, len(both))
    do = "look at some of these rows: `fields` may name the wrong column"
    if right[wrong].mean() > 0.5 and right[~wrong].mean() < 0.5:
        matching, failing = right[wrong].sum(), (~right[~wrong]).sum()
        swapped = say.labels_swapped(matching, wrong.sum(), failing, (~wrong).sum())
        what = f"{what}; {swapped}"
        do = "1 and 0 look swapped: write 1 for a hallucinated answer and 0 for a right one"
    yield Finding("warning", "dataset", what, do, "label-or-popularity")


def access(config: Config, models: Iterable[str], names: Iterable[str]) -> Iterator[Finding]:
    """Check that models and datasets that are not on this machine can be downloaded."""
    wanted: list[tuple[str, str, Model | Dataset]] = [
        *(("model", name, config.models[name]) for name in models),
        *(("dataset", name, config.datasets[name]) for name in names),
    ]
    for kind, name, entry in wanted:
        if (hub_id := entry.hub) is None:
            continue
        if warning := revisions.unpinned(f"{kind}s", hub_id, entry.revision):
            yield Finding("warning", "hub", f"{kind} {name}: {warning}")
        found = here(config, kind, name, entry)
        finding, *warnings = found or [tried("hub", f"{kind} {name}", ask, kind, hub_id)]
        yield from warnings
        if finding.status == "error" and getattr(entry, "gated", False):
            terms = f"its terms are at https://huggingface.co/{hub_id}"
            finding = finding._replace(do=f"{finding.do}; {terms}" if finding.do else terms)
        yield finding


def here(config: Config, kind: str, name: str, entry: Model | Dataset) -> list[Finding]:
    """Check a hub model or dataset if it is complete on this machine. Otherwise return []."""
    hub_id = str(entry.hub)
    if isinstance(entry, Model):
        folder = loading.cached(hub_id, entry.revision)
        if folder is None or loading.missing(folder):
            return []
        return heard_of("hub", f"{kind} {name}", folder, entry, "plain")
    commit = revisions.known_commit("datasets", hub_id, entry.revision)
    cached = commit is not None and reading.prepared(hub_id, entry.config, commit)
    there = cached or Path(config.results, "data", f"{name}.parquet").is_file()
    return [Finding("ok", "hub", f"{kind} {name}: already on this machine")] if there else []


def ask(kind: str, hub_id: str) -> str:
    """Ask the hub whether a model or dataset can be downloaded. `check` makes no other request."""
    from huggingface_hub import HfApi

    with hub.errors(kind, hub_id):
        HfApi().auth_check(hub_id, repo_type=kind)
    return f"{hub_id} can be downloaded"
