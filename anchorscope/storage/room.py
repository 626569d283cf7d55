"""Run batches, and halve those that do not fit into the device's memory."""

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
"""Pattern of messages of out-of-memory errors that have no class of their own."""

log = logging.getLogger(__name__)


@dataclass
class Room:
    """Runs batches, and remembers the size of the smallest one that did not fit."""

    too_much: float = math.inf  # tokens of the smallest batch that did not fit; not tried again

    def run(
        self,
        samples: Sequence[int],
        tokens: Callable[[Sequence[int]], int],
        work: Callable[[Sequence[int]], Result],
    ) -> list[Result]:
        """Call `work` on `samples`. If they do not fit in memory, halve them until the parts fit.

        `tokens` counts the tokens of samples, padding included. Return the results of the parts, in
        the order of the samples.

        Raises:
            AnchorscopeError: A single sample does not fit.
        """
        size = tokens(samples)
        if size < self.too_much or len(samples) == 1:
            result = tried(lambda: work(samples))
            if result is not None:
                return [result]
            self.too_much = min(self.too_much, size)
            if len(samples) == 1:
                what = f"a single sample of {size} tokens does not fit in memory"
                do = "use a larger GPU, fewer draws and conditions, or lower `max_prompt_tokens`"
                raise AnchorscopeError(what, "memory of the device", do, see="out-of-memory")
            log.warning("a batch of %d tokens does not fit in memory: it is halved", size)
        middle = len(samples) // 2
        halves = samples[:middle], samples[middle:]
        return [part for half in halves for part in self.run(half, tokens, work)]


def tried(work: Callable[[], Result]) -> Result | None:
    """Return the result of `work`. If memory runs out, free it and return None."""
    try:
        return work()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    # Not in the handler: there, the traceback still holds the tensors of `work`.
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def out_of_memory(error: RuntimeError) -> bool:
    """Return whether a GPU, one of its libraries, or the CPU's allocator ran out of memory."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or bool(re.search(NO_ROOM, str(error)))
