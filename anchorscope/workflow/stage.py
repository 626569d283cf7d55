"""What every script does around its one library call: a log, a clear error, a non-zero exit."""

import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from anchorscope.storage import partial
from anchorscope.storage.agreement import check_inputs
from anchorscope.storage.errors import AnchorscopeError, of_the_disk, redacted
from anchorscope.storage.funnel import check_funnel
from anchorscope.storage.progress import Lines
from anchorscope.storage.provenance import beside

MOST_DROPPED = 0.5
"""Of `most_dropped`, where the config does not say."""

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
    _log_to(*snakemake.log[:1])
    try:
        inputs = list(getattr(snakemake, "input", ()))
        check_inputs(inputs)
        check_losses(inputs, getattr(snakemake, "config", {}))
        partial.drop(inputs)
        yield
    except Exception as error:
        known = error if isinstance(error, AnchorscopeError) else of_the_disk(error)
        if known is None:
            log.exception("anchorscope failed in %s", job_of(snakemake))
            raise SystemExit(2) from None
        log.error("error: %s\n  in:    %s", known, job_of(snakemake))
        raise SystemExit(1) from None


def check_losses(inputs: Iterable[str | Path], config: Mapping[str, Any]) -> None:
    """Refuse inputs on whose way samples were not counted, or more were lost than is allowed.

    Args:
        inputs: products; those without a record are passed over.
        config: of the run; its `most_dropped` counts.

    Raises:
        AnchorscopeError: counts do not add up, or a stage lost too much, with the reasons.
    """
    most = config.get("most_dropped")
    for path in inputs:
        if beside(path).is_file():
            check_funnel(path, MOST_DROPPED if most is None else float(most))


class _File(logging.FileHandler):
    """A log that cannot be written stays behind; the terminal has the same lines."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: a full disk is the stage's to report."""


def _log_to(path: str | None = None) -> None:
    handlers: list[logging.Handler] = [Lines(sys.stderr)]
    if path:
        with suppress(OSError):
            handlers.append(_File(path, mode="w", encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(_Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.handlers, log.propagate = handlers, False
    log.setLevel(logging.INFO)


def check_writable(folder: str | Path) -> None:
    """Refuse to start a run whose products could not be written.

    Raises:
        AnchorscopeError: the folder, or where it is to be made, is read-only, closed or full.
    """
    there = Path(folder).absolute()
    there = next(path for path in (there, *there.parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there) as trial:
            trial.write(b"x")
    except OSError as error:
        known = of_the_disk(error)
        if known is None:
            raise
        raise AnchorscopeError(known.what, there, known.do, see="not-writable") from None


def scratch() -> str:
    """Where Snakemake's scheduler, and nodes with a disk of their own, write what they throw away.

    Not `tempfile.gettempdir()`, which passes over a full disk without a word.
    """
    return os.environ.get("TMPDIR", "/tmp")


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
