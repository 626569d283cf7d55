"""Collect what transformers warns of while it loads a tokenizer or a model."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class _Collector(logging.Handler):
    """A handler that keeps the texts of warnings, each once and in one line."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.texts[" ".join(record.getMessage().split())] = None


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings that transformers logs in this context; the list is full at its end.

    They are logged as our own, and not printed by transformers, whose lines no log file keeps.
    """
    from transformers.utils import logging as theirs

    found, collector = list[str](), _Collector()
    theirs.disable_default_handler()
    theirs.add_handler(collector)
    try:
        yield found
    finally:
        theirs.remove_handler(collector)
        theirs.enable_default_handler()
        found += collector.texts
        for text in found:
            log.warning("transformers warns: %s", text)
