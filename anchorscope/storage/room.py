"""Batches that do not fit into the device's memory are halved, and the run goes on."""

import gc
import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from anchorscope.storage.errors import AnchorscopeError

Result = TypeVar("Result")

NO_ROOM = "DefaultCPUAllocator.*allocate|_STATUS_ALLOC_FAILED|CUDA error: out of memory"
"""How errors without a type of their own report a lack of memory."""

log = logging.getLogger(__name__)


@dataclass
class Room:
    """Runs batches, and remembers which size did not fit."""

    too_much: float = math.inf  # tokens of the smallest batch that did not fit; not tried again
    halved: int = 0  # number of batches that were halved

    def run(
        self,
        samples: Sequence[int],
        tokens: Callable[[Sequence[int]], int],
        work: Callable[[Sequence[int]], Result],
    ) -> list[Result]:
        """Do the work for a batch, in as many parts as it takes to fit.

        Args:
            samples: numbers of the batch's samples.
            tokens: how many tokens some samples take as one batch, padding included.
            work: does the work for some samples.

        Returns:
            The results of the parts, in the order of the samples.

        Raises:
            AnchorscopeError: a single sample does not fit.
        """
        size = tokens(samples)
        if size < self.too_much or len(samples) == 1:
            result = tried(lambda: work(samples))
            if result is not None:
                return [result]
            self.too_much = min(self.too_much, size)
            if len(samples) == 1:
                what = f"one sample of {size} tokens does not fit by itself"
                do = (
                    "use a larger GPU or several, fewer draws and conditions, or lower "
                    "`max_prompt_tokens`"
                )
                raise AnchorscopeError(what, "memory of the device", do, see="out-of-memory")
            log.warning("a batch of %d tokens does not fit in memory: it is halved", size)
        self.halved += 1
        middle = len(samples) // 2
        halves = samples[:middle], samples[middle:]
        return [part for half in halves for part in self.run(half, tokens, work)]


def tried(work: Callable[[], Result]) -> Result | None:
    """The result of `work`; None if memory ran out, with the memory of the try freed again."""
    try:
        return work()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    # Outside of the handler, since until then the traceback holds the tensors of the try.
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU, one of its libraries, or the CPU's allocator had no more memory."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or bool(re.search(NO_ROOM, str(error)))
