# Anchorscope: from a question to the figure of ΔP against layer, in running order.
#
#   snakemake --cores all             builds `targets` of config.yaml (the demo, as shipped)
#   snakemake --cores all llama-3.2   one figure and only what it needs

import gc
import os
import sys

from snakemake.utils import min_version

min_version("9.0")

# A DAG is many objects that all stay: looking for garbage among them takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)

sys.path.insert(0, workflow.current_basedir.get_path_or_uri(secret_free=True))

from anchorscope.workflow.config import sources_of
from anchorscope.workflow.module import folder_of

# The project's folder: not that of the run, nor of a Snakefile that uses this one as a module.
HERE = folder_of(workflow.current_basedir)
CONFIG = "config.yaml" if os.path.exists("config.yaml") else os.path.join(HERE, "config.yaml")

# Read here first: Snakemake says neither where a file is broken nor that a key is given twice.
config_sources = sources_of(workflow, CONFIG)


configfile: CONFIG


report: "resources/report/workflow.rst"


include: "rules/common.smk"


rule all:
    input:
        [paths.pictures(figure) + paths.views_of(figure) for figure in cfg.targets],
    message:
        "all figures of `targets` are drawn"


include: "rules/dataset.smk"
include: "rules/train.smk"
include: "rules/dequantise.smk"
include: "rules/model.smk"
include: "rules/prompts.smk"
include: "rules/answers.smk"
include: "rules/activations.smk"
include: "rules/scores.smk"
include: "rules/delta_p.smk"
include: "rules/table.smk"
include: "rules/figure.smk"
include: "rules/view.smk"
include: "rules/experiments.smk"
include: "rules/detection.smk"
include: "rules/detectors.smk"
include: "rules/truth.smk"
include: "rules/calibration.smk"
include: "rules/sensitivity.smk"
include: "rules/reproduction.smk"
include: "rules/report.smk"
include: "rules/targets.smk"


onstart:
    before_run()


onsuccess:
    after_run()


onerror:
    leave_no_job()
