# What all stages share: the checked config, where products lie, and what a job may use.

import os
import sys

sys.path.insert(0, workflow.basedir)
# Scripts run in processes, environments and on machines of their own; all import the same library.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")])
)

from snakemake.exceptions import WorkflowError

from anchorscope.config import load
from anchorscope.errors import AnchorscopeError

try:
    cfg = load(config)
except AnchorscopeError as error:
    raise WorkflowError(str(error))

RESULTS = cfg.results
ROOT = cfg.root
RESOURCES = os.path.join(workflow.basedir, "resources")


wildcard_constraints:
    model="[a-z0-9][a-z0-9.-]*",
    dataset="[a-z0-9][a-z0-9.-]*",
    figure="[a-z0-9][a-z0-9.-]*",


def numbers(entry, *left_out):
    """A config section as plain data, without the keys that change no number."""
    return entry.model_dump(mode="json", exclude={"label", "resources", "gated", *left_out})


def gpu(model_resource):
    """A job's resource, read from its model's catalogue entry."""
    return lambda wildcards: getattr(cfg.models[wildcards.model].resources, model_resource)
