# What all stages share: the checked config, where products lie, and what a job may use.

import os
import re
import sys

sys.path.insert(0, workflow.basedir)

from snakemake.exceptions import WorkflowError

from anchorscope.checkpoints import fits
from anchorscope.config import load
from anchorscope.errors import AnchorscopeError
from anchorscope.stage import share_library

share_library(workflow.basedir)

try:
    cfg = load(config, source=", ".join(map(str, workflow.configfiles)))
except AnchorscopeError as error:
    raise WorkflowError(str(error))

RESULTS = cfg.results
ROOT = cfg.root
PICTURES = ("vl.json", "html", "svg", "pdf", "png")
RESOURCES = os.path.join(workflow.basedir, "resources")


def one_of(names):
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    model=one_of(cfg.models),
    dataset=one_of(cfg.datasets),
    figure=one_of(cfg.figures),


def numbers(entry, *left_out):
    """A config section as plain data, without the keys that change no number."""
    return entry.model_dump(mode="json", exclude={"label", "resources", "gated", *left_out})


def gpu(model_resource):
    """A job's resource, read from its model's catalogue entry."""
    return lambda wildcards: getattr(cfg.models[wildcards.model].resources, model_resource)


def pictures(figure):
    return expand(f"{ROOT}/figures/{figure}.{{kind}}", kind=PICTURES)


def passing(product):
    """Activations, deleted once nothing needs them any more, unless the config keeps them."""
    return product if cfg.keep_activations else temp(product)


def local_rows(wildcards):
    # A path that is not there gets the script's message, which says more than Snakemake's.
    source = cfg.local_of(wildcards.dataset)
    return [source] if source and os.path.exists(source) else []


def taught(wildcards):
    # A recipe names what is learned; newer files with the same content need no new training.
    return ancient(
        [f"{RESULTS}/data/{name}.parquet" for name in cfg.models[wildcards.model].train.datasets]
    )


def checkpoint(wildcards):
    entry = cfg.models[wildcards.model]
    if not entry.train:
        return []
    here, shipped = f"{RESULTS}/models/{wildcards.model}", f"{RESOURCES}/models/{wildcards.model}"
    recipe = cfg.recipe_hash(wildcards.model)
    return shipped if fits(shipped, recipe) and not fits(here, recipe) else here


def template(wildcards):
    chat = cfg.models[wildcards.model].prompt == "chat"
    return [f"{RESULTS}/models/{wildcards.model}.json"] if chat else []


def cells(pattern):
    return lambda w: [
        f"{ROOT}/delta_p/{model}/{dataset}{pattern}" for model, dataset in cfg.cells(w.figure)
    ]
