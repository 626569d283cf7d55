"""Pages in a real browser: the system's chromium, headless, driven by Playwright.

`driven` opens a file for a test that points and clicks; `looked` runs a script in a page.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") if find_spec("playwright") else None
ABSENT = "chromium or playwright is not on this machine"
UNDRIVEN = ABSENT if CHROMIUM is None else None
"""Why no page can be driven here; None where one can."""
PATIENCE = 300_000
"""Milliseconds: a busy machine takes long to draw a page."""
LOOK = """async () => {
  const seen = {};
  const $ = (name) => document.querySelector(name);
  const all = (name) => [...document.querySelectorAll(name)];
  const wait = (time = 200) => new Promise((done) => setTimeout(done, time));
  const set = async (element, value) => {
    element.value = value;
    for (const kind of ["input", "change"]) element.dispatchEvent(new Event(kind));
    await wait();
  };
  %s
  return { ...seen, title: document.title };
}"""


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
def browser() -> Iterator[Browser]:
    """The system's chromium, driven by Playwright, which brings a driver and no browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE
        )
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def driven(chromium: Browser, path: Path, width: int = 1400) -> Iterator[Opened]:
    """A file as a page of its own; nothing outside it can be reached."""
    context = chromium.new_context(viewport={"width": width, "height": 1200})
    context.set_default_timeout(PATIENCE)
    try:
        opened = Opened(context.new_page())
        page, address = opened.page, path.absolute().as_uri()
        page.on("console", lambda said: _kept(opened.wrong, said.type, said.text))
        page.on("pageerror", lambda error: opened.wrong.append(str(error)))
        page.on("request", lambda one: _asked(opened.asked, one.url, address))
        page.goto(address)
        yield opened
    finally:
        context.close()


def looked(page: str, script: str, folder: Path, width: int = 1400) -> dict[str, Any]:
    """What the script, run in the page, left in `seen`; and what the page did meanwhile.

    The script knows `$`, `all` (elements by selector), `wait` and `set` (a form element's value).
    """
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    with browser() as chromium, driven(chromium, path, width) as opened:
        seen: dict[str, Any] = opened.page.evaluate(LOOK % script)
        return seen | {"wrong": opened.wrong, "asked": opened.asked}


def _kept(wrong: list[str], kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        wrong.append(text)


def _asked(asked: list[str], address: str, own: str) -> None:
    if address != own and not address.startswith(("data:", "blob:")):
        asked.append(address)
