"""Pages in a real browser: the system's chromium, headless, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium") if find_spec("playwright") else None
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium or playwright is not on this machine"
)
FAULTS = ("error", "warning")
PATIENCE = 300_000
"""Milliseconds: a busy machine takes long to draw a page."""


@dataclass(frozen=True)
class Opened:
    """A page, and what it did since it was opened.

    Attributes:
        page: Playwright's page.
        wrong: what the console said that is an error or a warning, and uncaught errors.
        asked: addresses that were requested, those of the page's own file left out.
    """

    page: Page
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def driven(path: Path, width: int = 1400) -> Iterator[Opened]:
    """A file as a page in a browser of its own; nothing outside it can be reached."""
    from playwright.sync_api import sync_playwright

    own = (path.absolute().as_uri(), "data:", "blob:")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE
        )
        opened = Opened(chromium.new_page(viewport={"width": width, "height": 1200}))
        page, wrong, asked = opened.page, opened.wrong, opened.asked
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: said.type in FAULTS and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: one.url.startswith(own) or asked.append(one.url))
        page.goto(own[0])
        yield opened
        chromium.close()
