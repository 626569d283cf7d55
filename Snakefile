# Anchorscope: from a question to the figure of ΔP against layer, in running order.
#
#   snakemake --cores all             builds `targets` of config.yaml (the demo, as shipped)
#   snakemake --cores all llama-3.2   one figure and only what it needs

import os
import sys

from snakemake.utils import min_version

min_version("9.0")

sys.path.insert(0, workflow.current_basedir.get_path_or_uri(secret_free=True))

from anchorscope.workflow.config import folder_of, sources_of

# The folder of this project. It may differ from the working directory, and from the folder of a
# Snakefile that uses this one as a module.
HERE = folder_of(workflow.current_basedir)
CONFIG = "config.yaml" if os.path.exists("config.yaml") else os.path.join(HERE, "config.yaml")

# Read before `configfile`: Snakemake reports neither the line of a YAML error nor a repeated key.
config_sources = sources_of(workflow, CONFIG)


configfile: CONFIG


include: "rules/common.smk"


rule all:
    input:
        [paths.pictures(figure) + paths.views_of(figure) for figure in cfg.targets],
        [texts(figure) for figure in cfg.targets],
        lambda _: lost(cfg, cfg.targets, BEHIND),
    message:
        "all figures of `targets` and their methods texts are done"


include: "rules/questions.smk"
include: "rules/models.smk"
include: "rules/answers.smk"
include: "rules/activations.smk"
include: "rules/scores.smk"
include: "rules/tables.smk"
include: "rules/pictures.smk"
include: "rules/experiments.smk"
include: "rules/detection.smk"
include: "rules/report.smk"
include: "validation/reproduction.smk"
include: "rules/targets.smk"


if cfg.validation:

    include: "validation/rules.smk"
