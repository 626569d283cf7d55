"""What every script does around its one library call: a log, a clear error, a non-zero exit."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anchorscope.errors import AnchorscopeError, redacted
from anchorscope.progress import Lines
from anchorscope.provenance import check_inputs

log = logging.getLogger("anchorscope")


class _Formatter(logging.Formatter):
    """Leaves the user's hub token out of messages and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


@contextmanager
def stage(snakemake: Any) -> Iterator[None]:
    """Log to the rule's log file and the terminal; turn an AnchorscopeError into exit code 1.

    Anything else that goes wrong is a bug of ours and keeps its traceback.
    """
    handlers: list[logging.Handler] = [Lines(sys.stderr)]
    if snakemake.log:
        handlers.append(logging.FileHandler(snakemake.log[0], mode="w", encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(_Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.handlers, log.propagate = handlers, False
    log.setLevel(logging.INFO)
    try:
        check_inputs(getattr(snakemake, "input", ()))
        yield
    except AnchorscopeError as error:
        log.error("error: %s\n  in:    %s", error, job_of(snakemake))
        raise SystemExit(1) from None
    except Exception:
        log.exception("anchorscope failed in %s", job_of(snakemake))
        raise SystemExit(2) from None


def job_of(snakemake: Any) -> str:
    """A job in words, for example `rule scores, model qwen3-8b, dataset popqa`."""
    wildcards = dict(snakemake.wildcards.items())
    # The root says which study it is; it stands last, since most runs have one only.
    root = {"root": wildcards.pop("root")} if "root" in wildcards else {}
    cell = [f"{name} {value}" for name, value in (wildcards | root).items()]
    return ", ".join([f"rule {snakemake.rule}", *cell])


def share_library(folder: str) -> None:
    """Let the scripts, in processes and environments of their own, import this same library."""
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def use_threads(snakemake: Any) -> None:
    """Keep torch to the threads that the rule was given."""
    import torch

    torch.set_num_threads(max(1, snakemake.threads))
