"""How often a long stage says how far it is."""

from __future__ import annotations

import time

SECONDS_BETWEEN_LINES = 5.0


class Pace:
    """Tells when the next line is due: every few seconds, and at the end."""

    def __init__(self) -> None:
        self.started = self.said = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the work began, never 0."""
        return max(time.monotonic() - self.started, 1e-9)

    def due(self, *, finished: bool) -> bool:
        """Whether to say something now; asking starts the time to the next line."""
        now = time.monotonic()
        if now - self.said < SECONDS_BETWEEN_LINES and not finished:
            return False
        self.said = now
        return True
