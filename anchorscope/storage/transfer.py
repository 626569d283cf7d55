"""Transfer: tensors go to a GPU, and come back, while it works on; on a CPU nothing is copied.

A plain copy waits until the GPU has done all that it was given, and leaves it idle until the next
pass is there. Copies from and to pinned memory wait for nothing; but then what has come back may be
read only after the copy's own event, which `Arriving.wait` sees to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import torch


class UnderWay(Protocol):
    """What a device may still be working on."""

    @property
    def under_way(self) -> bool:
        """Whether it is."""


Flight = TypeVar("Flight", bound=UnderWay)


def up(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """A tensor in CPU memory, on the device that is to compute with it next.

    The copy is in turn before whatever the device is given after it. Torch does not hand out its
    pinned memory again before the copy is over.
    """
    import torch

    device = torch.device(device)
    if not _far(device):
        return tensor.to(device)
    return tensor.contiguous().pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Arriving:
    """Tensors on their way to CPU memory.

    Attributes:
        under_way: whether anything is being copied; what was in CPU memory already is not.
    """

    _near: Mapping[str, torch.Tensor]
    _events: tuple[torch.cuda.Event, ...]
    _far: tuple[torch.Tensor, ...]  # their memory must not be used again before they are copied

    @property
    def under_way(self) -> bool:
        return bool(self._events)

    def wait(self) -> dict[str, torch.Tensor]:
        """The tensors, once all have arrived."""
        for event in self._events:
            event.synchronize()
        return dict(self._near)


def down(tensors: Mapping[str, torch.Tensor]) -> Arriving:
    """Send tensors to CPU memory, as soon as the device has computed them; waits for nothing."""
    far = {name: tensor for name, tensor in tensors.items() if _far(tensor.device)}
    copies = {name: _copied(tensor) for name, tensor in far.items()}
    near = {name: copies[name][0] if name in far else tensor for name, tensor in tensors.items()}
    return Arriving(near, tuple(event for _, event in copies.values()), tuple(far.values()))


def one_behind(flights: Iterable[Flight]) -> Iterator[Flight]:
    """Hand on what a device has been given once it has been given the next as well.

    So it works while the caller writes. What is not under way, as nothing is on a CPU, is handed on
    at once. If giving the next fails, the one before is handed on first.
    """
    before: Flight | None = None
    try:
        for flight in flights:
            if before is not None:
                yield before
            before = flight if flight.under_way else None
            if before is None:
                yield flight
    except Exception:
        if before is not None:
            yield before
        raise
    if before is not None:
        yield before


def _far(device: torch.device) -> bool:
    """Whether a device computes on by itself and has memory of its own."""
    return device.type == "cuda"


def _copied(source: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event]:
    """A copy in pinned memory, and the event after which it may be read.

    In a stream of its own, so that passes given to the device later need not wait for it.
    """
    import torch

    near = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
    stream = _stream(source.device)
    stream.wait_stream(torch.cuda.current_stream(source.device))
    with torch.cuda.stream(stream):
        near.copy_(source, non_blocking=True)
    return near, stream.record_event()


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of a device's copies to CPU memory."""
    import torch

    return torch.cuda.Stream(device)
