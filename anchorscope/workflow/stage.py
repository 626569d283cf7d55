"""Wrap the library call of every script: check its inputs, keep a log, and report errors."""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError, of_the_disk, redacted
from anchorscope.storage.progress import Lines, Progress
from anchorscope.storage.records import check_inputs
from anchorscope.workflow.interrupted.products import alone, job_of, lost_input

log = logging.getLogger("anchorscope")


class _Formatter(logging.Formatter):
    """Formatter that marks warnings, and removes the user's hub token from all text."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        mark = "warning: " if record.levelno == logging.WARNING else ""
        return f"{record.asctime} {mark}{record.message}"

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


@contextmanager
def stage(snakemake: Any) -> Iterator[None]:
    """Log to the rule's log file and the terminal, check the inputs, and report errors.

    Inputs are refused if the share of dropped samples is above `most_dropped`. An
    AnchorscopeError, or any error after an input was deleted, is printed without a traceback and
    ends the job with exit code 1. Any other error is a bug, is printed with its traceback, and ends
    the job with exit code 2. A job that makes a checkpoint or a product of a cell holds the
    product's lock, see `interrupted.products`.
    """
    gc.set_threshold(100_000)  # at 700, collection takes a fifth of the time of loading torch
    _log_to(*snakemake.log[:1])
    try:
        inputs = list(getattr(snakemake, "input", ()))
        config = getattr(snakemake, "config", {})
        most = config.get("most_dropped", 0.5)
        check_inputs(inputs, float(most))  # YAML reads 5e-1 as text
        Progress.job = " ".join([snakemake.rule, *dict(snakemake.wildcards.items()).values()])
        with alone(snakemake):
            if not config.get("keep_activations", True):
                partial.drop(path for path in inputs if Path(path).is_dir())  # activations
            yield
    except KeyboardInterrupt:
        log.info("interrupted: %s", job_of(snakemake))
        raise SystemExit(130) from None
    except Exception as error:
        known = error if isinstance(error, AnchorscopeError) else of_the_disk(error)
        user_error = lost_input(snakemake) or known
        if user_error is None:
            log.exception("anchorscope failed in %s", job_of(snakemake))
            raise SystemExit(2) from None
        log.error("error: %s\n  in:    %s", user_error, job_of(snakemake))
        raise SystemExit(1) from None
    finally:
        Progress.job = ""


def _log_to(path: str | None = None) -> None:
    logging.raiseExceptions = False  # `stage` reports a full disk
    handlers: list[logging.Handler] = [Lines(sys.stderr)]
    if path:
        with suppress(OSError):
            handlers.append(logging.FileHandler(path, mode="w", encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(_Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.handlers, log.propagate = handlers, False
    log.setLevel(logging.INFO)


def share_library(folder: str) -> None:
    """Make child processes, also in conda environments, import the library from `folder`."""
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
