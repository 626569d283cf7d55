# What all stages share: the checked config, where products lie, and what a job may use.

import os
import re
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, workflow.basedir)

from snakemake.exceptions import WorkflowError

from anchorscope.models.checkpoints import fits, parts
from anchorscope.workflow.config import load
from anchorscope.workflow.devices import ON_CPU, gpus_here
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest
from anchorscope.workflow.messages import Shown
from anchorscope.questions.reading import local_files
from anchorscope.storage import checksums, stale
from anchorscope.workflow import cluster, demand, studies
from anchorscope.report import report_settings
from anchorscope.workflow.stage import check_writable, scratch, share_library

share_library(workflow.basedir)

try:
    cfg = load(config, source=", ".join(map(str, workflow.configfiles)))
    # Where the cluster's jobs go: the lines of slurm/config.yaml that a user edits.
    site = cluster.site(workflow.resource_settings.default_resources)
except AnchorscopeError as error:
    raise WorkflowError(str(error))

# On one machine no more GPU jobs run than it has GPUs; a cluster has limits of its own.
on_this_machine = workflow.resource_settings.nodes is None
if on_this_machine and "gpu" not in workflow.global_resources and gpus_here():
    workflow.register_resource("gpu", gpus_here())

# Names and numbers for messages: {shown.cell:{wildcards.model}/{wildcards.dataset}/}.
shown = Shown(cfg)

RESULTS = cfg.results
ROOT = cfg.root
PICTURES = ("vl.json", "html", "svg", "pdf", "png")
TABLES = {
    "curve": ".csv",
    "contrasts": ".contrasts.csv",
    "controls": ".controls.csv",
    "interchange": ".interchange.csv",
    "strata": ".strata.csv",
    "density": ".density.csv",
}
READOUTS = {name: name.replace(os.sep, "-") for name in cfg.answer_readouts}
VIEWS = ["controls", "probes"] + (["readouts"] if len(READOUTS) > 1 else [])
STUDIES = studies.of(cfg)
CALIBRATION = studies.calibration_root(cfg)
RESOURCES = os.path.join(workflow.basedir, "resources")
# The page around a figure, by its content: an input would have the clone's place in its name.
FIGURE_PAGE = digest(sorted(Path(RESOURCES, "figure").iterdir()))[:12]


def one_of(names):
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    model=one_of(cfg.models),
    dataset=one_of(cfg.datasets),
    figure=one_of(cfg.figures),
    root=one_of(STUDIES),


def numbers(entry, *left_out):
    """A config section as plain data, without the keys that change no number."""
    return entry.model_dump(mode="json", exclude={"label", "resources", "gated", *left_out})


def gpus_of_model(wildcards):
    return cfg.models[wildcards.model].resources.gpus


def gpus_of_probes(wildcards):
    """Probes are fitted on one GPU, however many the model needs."""
    return min(1, gpus_of_model(wildcards))


def placed(gpus):
    """The resources that say where a job runs, from how many GPUs it asks for."""

    def device(wildcards):
        # What `best_device` is asked for; text, so that the limit on GPUs leaves it alone.
        return {0: "cpu", 1: "cuda"}.get(gpus(wildcards), "auto")

    return {
        "gpu": gpus,
        "device": device,
        "slurm_partition": lambda wildcards: site.partition_of(gpus(wildcards)),
        "gpu_model": lambda wildcards: site.gpu_type if gpus(wildcards) else None,
        # SLURM counts GPUs by the job: several may else come from more than one node.
        "nodes": lambda wildcards: 1 if gpus(wildcards) else None,
    }


def asks(stage, what, readouts=lambda w: study(w).readouts):
    """A job's memory or time: by the size of its model and cell, more with each attempt."""

    def asked(wildcards, attempt):
        wanted = wanted_by(stage, wildcards, len(readouts(wildcards)))
        limit = site.max_runtime
        if limit and stage in TOGETHER and together(wildcards):
            # The times of a group's jobs are added up, so they share what the partition allows.
            limit = limit * wanted.runtime // minutes_together(wildcards)
        return getattr(wanted.at(attempt, limit, site.max_mem_gb), what)

    return asked


def wanted_by(stage, wildcards, readouts):
    """What the first attempt of a job asks for."""
    entry = cfg.models[wildcards.model].resources
    share = demand.Share(
        demand.samples(cfg, wildcards.dataset), rows_of_root(wildcards.root), readouts
    )
    gpus = min(1, entry.gpus) if stage in ("scores", "refits") else entry.gpus
    size = size_of(wildcards.model)
    wanted = demand.demand(stage, size, share, gpus)
    if stage == "delta_p":  # what the catalogue says is of jobs with the model
        return wanted
    return wanted.unless(entry.mem_gb, entry.runtime_min)


def size_of(model):
    """By the checkpoint; before it is there, by what is known of such a model."""
    from anchorscope.workflow import sizes

    # not needed by most jobs, which read these rules too

    entry = cfg.models[model]
    held = sizes.BYTES[entry.dtype]
    found = demand.size_of(Path(RESULTS) / "models" / f"{model}.json", held)
    return found or expected_size(model, held)


@cache
def expected_size(model, held):
    """Of a model that is not here yet."""
    from anchorscope.workflow import sizes

    entry = cfg.models[model]
    if shape := sizes.of_model(entry):
        return demand.Size(shape.parameters, shape.layers, shape.width, held)
    return demand.guess(entry.resources.gpu_mem_gb, entry.resources.gpus)


@cache
def rows_of_root(root):
    """Passes per sample of a study, looked up for every job."""
    return demand.rows(STUDIES[root].config.conditions)


# The stages that a model without a GPU does in one job a cell.
TOGETHER = ("answers", "activations", "truth", "scores", "refits")


def together(wildcards):
    """On a cluster the passes and probes of a model that needs no GPU are one job a cell."""
    entry = cfg.models[wildcards.model].resources
    if entry.gpus:
        return None
    if site.max_runtime and minutes_together(wildcards) > site.max_runtime:
        return None
    return "-".join([wildcards.root.replace(os.sep, "-"), wildcards.model, wildcards.dataset])


def minutes_together(wildcards):
    """Time of all stages of a cell, one after another."""
    refitted = len(drawn_readouts(wildcards))
    readouts = dict.fromkeys(TOGETHER, len(study(wildcards).readouts)) | {"refits": refitted}
    if not cfg.models[wildcards.model].train:
        del readouts["truth"]  # which is known of models trained here only
    return sum(wanted_by(stage, wildcards, n).runtime for stage, n in readouts.items())


def cores(wildcards):
    """Several for a model that runs on the CPU; the tiny ones trained here gain nothing by it."""
    entry = cfg.models[wildcards.model]
    # A cluster's job has the cores that it asked for, wherever it landed.
    here = on_this_machine and "SLURM_JOB_ID" not in os.environ
    without = os.environ.get(ON_CPU) == "1" or (here and not gpus_here())
    return 4 if (without or entry.resources.gpus == 0) and not entry.train else 1


def drawn_readouts(wildcards):
    return sorted({cfg.figures[figure].readout for figure in cfg.targets})


def study(wildcards):
    """The settings that hold under a root."""
    return STUDIES[wildcards.root].config


def partner_folds(wildcards):
    """What decides the folds, where a sample's partners are of its own."""
    conditions, probe = study(wildcards).conditions, cfg.probe
    arms = conditions.matched or conditions.placebo
    return [probe.folds, probe.disjoint] if arms else None


def home(wildcards, stage):
    """The root in which a stage's product lies: the study's own, or the main one."""
    return wildcards.root if STUDIES[wildcards.root].owns(stage) else ROOT


def product(stage, suffix=""):
    return lambda w: f"{home(w, stage)}/{stage}/{w.model}/{w.dataset}{suffix}"


def frozen_answers(wildcards):
    """The answers that a model is measured on: its own, unless its entry names another's."""
    answering = cfg.models[wildcards.model].answers_of or wildcards.model
    return f"{home(wildcards, 'answers')}/answers/{answering}/{wildcards.dataset}.parquet"


def pictures(figure):
    return expand(f"{ROOT}/figures/{figure}.{{kind}}", kind=PICTURES)


def drawn(stem, caption, category):
    """A figure's pictures, the vector one captioned for `snakemake --report`."""
    paths = {kind.replace(".", "_"): f"{ROOT}/figures/{stem}.{kind}" for kind in PICTURES}
    text = os.path.join(RESOURCES, "report", "captions", f"{caption}.rst")

    def said(wildcards, output):
        # Called when Snakemake writes its report; it puts the wildcards in.
        return report_settings.labels(stem, output.provenance)

    return paths | {"svg": report(paths["svg"], caption=text, category=category, labels=said)}


def views(figure):
    """The pictures beside a figure: its controls, its probes, and every other read-out."""
    drawn = cfg.figures[figure].readout
    names = VIEWS + [view for name, view in READOUTS.items() if name != drawn]
    return [path for name in names for path in pictures(f"{figure}.{name}")]


def passing(product):
    """Activations, deleted once nothing needs them any more, unless the config keeps them."""
    return product if cfg.keep_activations else temp(product)


def local_rows(wildcards):
    # A path that is not there gets the script's message, which says more than Snakemake's.
    source, entry = cfg.local_of(wildcards.dataset), cfg.datasets[wildcards.dataset]
    if not source or not os.path.exists(source):
        return []
    splits = {entry.split, entry.few_shot.split or entry.split}
    try:
        return sorted({str(f) for split in splits for f in local_files(Path(source), None, split)})
    except AnchorscopeError:
        return [source]


def few_shot_file(wildcards):
    """A file of examples, from here on or from the project's root."""
    name = cfg.datasets[wildcards.dataset].few_shot.file
    places = [name, os.path.join(workflow.basedir, name)] if name else []
    return [path for path in places if os.path.exists(path)][:1]


def taught(wildcards):
    # A recipe says all about a world; newer files of it need no new training. Real rows may change.
    tables = {
        f"{RESULTS}/data/{name}.parquet": cfg.datasets[name].world
        for name in cfg.models[wildcards.model].train.datasets
    }
    return [ancient(path) if world else path for path, world in tables.items()]


def checkpoint(wildcards):
    entry = cfg.models[wildcards.model]
    if not entry.train:
        return [str(path) for path in parts(entry.local)] if entry.local else []
    here, shipped = f"{RESULTS}/models/{wildcards.model}", f"{RESOURCES}/models/{wildcards.model}"
    recipe = cfg.recipe_hash(wildcards.model)
    return shipped if fits(shipped, recipe) and not fits(here, recipe) else here


def template(wildcards):
    chat = cfg.models[wildcards.model].prompt == "chat"
    return [f"{RESULTS}/models/{wildcards.model}.json"] if chat else []


def labels(wildcards):
    """The names that a figure shows, apart from what its numbers depend on."""
    entry = cfg.figures[wildcards.figure]
    return {
        "models": {name: cfg.models[name].label for name in entry.models},
        "datasets": {name: cfg.datasets[name].label for name in entry.datasets},
    }


def cells(pattern):
    return lambda w: [
        f"{ROOT}/delta_p/{model}/{dataset}{pattern}" for model, dataset in cfg.cells(w.figure)
    ]


calibration_cells = cfg.calibrated()


def calibrated(stage, suffix):
    """A product of every cell of the calibration."""
    return [
        f"{CALIBRATION}/{stage}/{model}/{dataset}{suffix}" for model, dataset in calibration_cells
    ]


varied = cfg.sensitivity or cfg.calibration
varied_datasets = varied.datasets if cfg.sensitivity else varied.datasets[:1]
varied_cells = [(model, dataset) for model in varied.models for dataset in varied_datasets]
VARIANTS = studies.sensitivity_roots(cfg)


def varied_tables(name):
    """A table of every cell of the sensitivity, under the main settings and each variant."""
    return [
        f"{root}/delta_p/{model}/{dataset}{TABLES[name]}"
        for root in [ROOT, *VARIANTS.values()]
        for model, dataset in varied_cells
    ]


def built(suffix):
    """Tables of the figures that are there."""
    paths = [f"{ROOT}/tables/{figure}{suffix}" for figure in cfg.figures]
    return [path for path in paths if os.path.exists(path)]


def beside(*names):
    """Products of other targets that are there; the report shows them and never makes them."""
    paths = [os.path.join(ROOT, name) for name in names]
    return {path: digest([path])[:12] for path in paths if os.path.exists(path)}


def cells_of_targets(stage, end=".parquet"):
    """A stage's product of every cell shown; some models read another's prompts and answers."""

    def own(model):
        frozen = stage in ("prompts", "answers")
        return (frozen and cfg.models[model].answers_of) or model

    pairs = dict.fromkeys(cell for figure in cfg.targets for cell in cfg.cells(figure))
    return [f"{ROOT}/{stage}/{own(model)}/{dataset}{end}" for model, dataset in pairs]


def on_a_cluster():
    return hasattr(workflow.executor_settings, "status_command")


def before_run():
    """What can be known to fail is said before the first job."""
    jobs = list(workflow.dag.needrun_jobs())
    try:
        check_writable(RESULTS)
        check_writable(scratch())
        refuse_stale(jobs)
        say_if_no_gpu(jobs)
        check_room(jobs)
        if on_a_cluster():
            settings = workflow.executor_settings
            cluster.before_queue(
                cluster.asks_of(jobs, workflow.dag.get_job_group),
                settings.status_command,
                settings.init_seconds_before_status_checks,
                site.max_mem_gb,
            )
    except AnchorscopeError as error:
        raise WorkflowError(str(error))


def refuse_stale(jobs):
    """What is finished must be what this config makes: what runs now is made of it."""
    running = set(jobs)
    for job in workflow.dag.jobs:
        records = [path for path in job.output if path.endswith(checksums.RECORD)]
        if records and job not in running:
            stale.refuse(records[0], dict(job.params.items()))


def say_if_no_gpu(jobs):
    """What asks for a GPU that this machine has not got runs on the CPU: not without a word."""
    if on_a_cluster() or gpus_here() or os.environ.get(ON_CPU) == "1":
        return
    from anchorscope.workflow import cost

    said = cost.without_gpu(cells_of(jobs, "answers", "activations", "scores"))
    if said:
        print(said, file=sys.stderr)


def cells_of(jobs, *rules):
    """The cells of some rules' jobs, as what they cost is reckoned."""
    from anchorscope.workflow import cost

    # not needed by the jobs, which read these rules too

    return [
        cost.Work(w.root, STUDIES[w.root].config, w.model, w.dataset)
        for w in (job.wildcards for job in jobs if job.rule.name in rules)
    ]


def check_room(jobs):
    """Announce what the activations of a run take, and refuse what cannot fit."""
    from anchorscope.workflow import cost

    measured = cells_of(jobs, "activations")
    asked = workflow.resource_settings
    room = cost.room_needed(measured, cfg.keep_activations, asked.nodes or asked.cores or 1)
    cost.check_room(room.must, RESULTS)
    if measured:
        print(room.words(RESULTS), file=sys.stderr)


def leave_no_job():
    """Jobs that were being submitted while the run was interrupted, which the plugin overlooks."""
    if on_a_cluster():
        cluster.cancel_orphans(Path.cwd())
