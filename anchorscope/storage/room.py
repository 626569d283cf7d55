"""Room: a batch that does not fit the device's memory is halved, and the run goes on."""

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
"""In errors that say it in words only."""

log = logging.getLogger(__name__)


@dataclass
class Room:
    """How much has been found to fit."""

    too_much: float = math.inf  # tokens of the smallest batch that did not fit: not tried again
    halved: int = 0  # batches that were halved

    def run(
        self,
        samples: Sequence[int],
        tokens: Callable[[Sequence[int]], int],
        work: Callable[[Sequence[int]], Result],
    ) -> list[Result]:
        """What `work` gives for a batch's samples, in as many parts as it takes to fit, in order.

        `tokens` says how many some of the samples pass, padding included. Raises AnchorscopeError:
        a single sample does not fit.
        """
        size = tokens(samples)
        if size < self.too_much or len(samples) == 1:
            done = tried(lambda: work(samples))
            if done is not None:
                return [done]
            self.too_much = min(self.too_much, size)
            if len(samples) == 1:
                what = f"one sample of {size} tokens does not fit by itself"
                do = "use a larger GPU or several, fewer draws and conditions, or lower "
                do += "`max_prompt_tokens`"
                raise AnchorscopeError(what, "memory of the device", do, see="out-of-memory")
            log.warning("a batch of %d tokens does not fit in memory: it is halved", size)
        self.halved += 1
        middle = len(samples) // 2
        halves = samples[:middle], samples[middle:]
        return [part for half in halves for part in self.run(half, tokens, work)]


def tried(work: Callable[[], Result]) -> Result | None:
    """The result; None if memory ran out, all that the try had taken being free again."""
    try:
        return work()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    # Only here, past the handler, has the traceback let go of the try's tensors.
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def out_of_memory(error: RuntimeError) -> bool:
    """Whether a device, one of its libraries, or the allocator of the CPU had no more memory."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or bool(re.search(NO_ROOM, str(error)))
