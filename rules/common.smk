# Shared by all stages: the checked config, the paths of products, and the resources of jobs.

import gc
import atexit
import os
import re
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError

from anchorscope.detectors import registry as detection_views
from anchorscope.experiments import registry
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.records import METHOD
from anchorscope.workflow import around, targets
from anchorscope.workflow.config import load
from anchorscope.workflow.devices import gpus_here
from anchorscope.workflow.interrupted import cluster, resume
from anchorscope.workflow.interrupted.products import changed, lost
from anchorscope.workflow.paths import PICTURES, TABLES, Paths
from anchorscope.workflow.resources import Jobs, site_of, trials_on
from anchorscope.workflow.stage import share_library

share_library(HERE)

BEGIN = time.time()

# The DAG consists of many long-lived objects. Garbage collection would add a tenth of the time.
gc.set_threshold(100_000, 50, 100)

if workflow.modifier.modify_rulename("scores") != "scores":
    # Provenance is recorded and checked by the names of rules.
    raise WorkflowError("use the rules of this module under their own names, without `as`")

# On one machine, the GPUs of the jobs that run together are at most those of the machine.
on_this_machine = workflow.resource_settings.nodes is None
if on_this_machine and "gpu" not in workflow.global_resources and gpus_here():
    workflow.register_resource("gpu", gpus_here())

if not on_this_machine and workflow.is_main_process:
    # Jobs must not inherit the resources of a SLURM session that starts the run. The plugin itself
    # would unset all of these variables, also SLURM_CONF, which says where the cluster is.
    for name in [n for n in os.environ if n.startswith("SLURM_") and n != "SLURM_CONF"]:
        del os.environ[name]

try:
    cfg = load(config, config_sources)
    # The partitions and limits of jobs: the keys of slurm/config.yaml that a user edits.
    site = site_of(workflow.resource_settings.default_resources)
except AnchorscopeError as error:
    sys.exit(f"error: {error}")

paths = Paths(cfg, HERE)
jobs = Jobs(cfg, site, here=on_this_machine, trials=trials_on(site))
RESULTS, ROOT = cfg.results, cfg.root
EXPERIMENTS = registry.EXPERIMENTS


def one_of(names):
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    model=one_of(cfg.models),
    dataset=one_of(cfg.datasets),
    figure=one_of(cfg.figures),
    experiment=one_of(EXPERIMENTS),


def picture_files(stem):
    """Return the files of a figure's picture by format."""
    return {kind.replace(".", "_"): f"{ROOT}/figures/{stem}.{kind}" for kind in PICTURES}


def texts(figure):
    """Return the files of a figure's methods text and its references."""
    return [f"{ROOT}/figures/{figure}.{kind}" for kind in ("methods.md", "bib")]


def passing(product):
    """Mark activations as temporary unless the config keeps them."""
    return product if cfg.keep_activations else temp(product)


# Only if answers are chosen at all, so that answers of runs without a choice stay up to date.
CHOICE = {"choice": lambda w: cfg.choice_of(w.dataset)} if cfg.chooses else {}


def before_run():
    """Refuse a run that is known to fail, before the first job."""
    resume.end_on_interrupt(end_jobs=on_this_machine)
    try:
        around.check(workflow, cfg, here=on_this_machine)
    except AnchorscopeError as error:
        sys.exit(f"error: {error}")


def without_a_job():
    """Refuse finished products that do not fit the config, where `before_run` is not called."""
    try:
        around.check_made(workflow, cfg.most_dropped)
    except AnchorscopeError as error:
        sys.exit(f"error: {error}")


def after_run():
    """Print the paths of new pictures, paragraphs for a paper and report, below all output."""
    figures = {
        name: f"{ROOT}/figures/{name}.html"
        for figure in cfg.figures
        for name in [figure, *(f"{figure}.{view}" for view in paths.extra_views)]
    }
    figures |= {f"{name}, for a paper": f"{ROOT}/figures/{name}.methods.md" for name in cfg.figures}
    figures["report"] = f"{ROOT}/report/index.html"
    if new := [f"{name}: {path}" for name, path in figures.items() if changed(path) > BEGIN]:
        atexit.register(print, *new, sep="\n", file=sys.stderr)


def after_failure():
    """Print why jobs failed, below Snakemake's output."""
    if not on_this_machine:
        # The plugin overlooks jobs that were being submitted when the run was interrupted.
        cluster.cancel_orphans(Path.cwd())
    if failed := workflow.scheduler.failed:
        sys.exit("\n".join(map(around.why_failed, failed)))


around.if_nothing_to_do(without_a_job)


onstart:
    before_run()


onsuccess:
    after_run()


onerror:
    after_failure()
