# What all stages share: the checked config, where products lie, and what a job may use.

import os
import re
import sys

sys.path.insert(0, workflow.basedir)
# Scripts run in processes, environments and on machines of their own; all import the same library.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")])
)

from snakemake.exceptions import WorkflowError

from anchorscope.checkpoints import fits
from anchorscope.config import load
from anchorscope.errors import AnchorscopeError

try:
    cfg = load(config)
except AnchorscopeError as error:
    raise WorkflowError(str(error))

RESULTS = cfg.results
ROOT = cfg.root
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


PICTURES = ("vl.json", "html", "svg", "pdf", "png")


def pictures(figure):
    return expand(f"{ROOT}/figures/{figure}.{{kind}}", kind=PICTURES)
