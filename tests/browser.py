"""Pages in a real browser: the system's chromium, headless, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium") if find_spec("playwright") else None
ABSENT = "chromium or playwright is not on this machine"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)
FAULTS = ("error", "warning")
PATIENCE = 300_000  # milliseconds: a busy machine takes long to draw a page


class Opened(NamedTuple):
    """A page, and what it did since it was opened."""

    page: Page
    wrong: list[str]  # what the console said that is an error or a warning, and uncaught errors
    asked: list[str]  # addresses that were requested, those of the page's own file left out


@contextmanager
def driven(path: Path, width: int = 1400) -> Iterator[Opened]:
    """A file as a page in a browser of its own; nothing outside it can be reached."""
    from playwright.sync_api import sync_playwright

    own = (path.absolute().as_uri(), "data:", "blob:")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE
        )
        page = chromium.new_page(viewport={"width": width, "height": 1200})
        opened = Opened(page, [], [])
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: said.type in FAULTS and opened.wrong.append(said.text))
        page.on("pageerror", lambda error: opened.wrong.append(str(error)))
        page.on("request", lambda one: one.url.startswith(own) or opened.asked.append(one.url))
        page.goto(own[0])
        yield opened
        chromium.close()
