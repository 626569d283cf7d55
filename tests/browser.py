"""Pages in a real browser: Debian's chromium, headless, with no network of any use to it.

`driven` opens a page that a test points at, clicks and types into as a reader does, through
Playwright with the system's chromium. `looked` needs no driver: a test adds a script of its own to
the page, which leaves what it saw in the document; chromium prints the document.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
PATIENCE = 300_000
"""Milliseconds: a busy machine takes long to draw a page."""
ABSENT = "there is no chromium on this machine"
UNDRIVEN = (
    ABSENT
    if CHROMIUM is None
    else None
    if find_spec("playwright")
    else "playwright is not installed: run `make setup`"
)
"""Why no page can be driven here; None where one can."""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--enable-logging=stderr", "--virtual-time-budget=20000",
)  # fmt: skip
BEFORE = """
window.seen = { errors: [], blocked: [] };
addEventListener("error", (event) => seen.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => seen.blocked.push(event.blockedURI));
"""
AFTER = """
addEventListener("load", async () => {
  const $ = (name) => document.querySelector(name);
  const all = (name) => [...document.querySelectorAll(name)];
  const wait = (time = 200) => new Promise((done) => setTimeout(done, time));
  const set = async (element, value) => {
    element.value = value;
    for (const kind of ["input", "change"]) element.dispatchEvent(new Event(kind));
    await wait();
  };
  try { %s } catch (error) { seen.errors.push(String(error)); }
  seen.requests = performance.getEntriesByType("resource").map((entry) => entry.name)
    .filter((name) => !name.startsWith("data:"));
  seen.title = document.title;
  document.body.append(Object.assign(document.createElement("pre"),
    { id: "seen", textContent: JSON.stringify(seen) }));
});
"""


def looked(page: str, script: str, folder: Path, width: int = 1400) -> dict[str, Any]:
    """What the script, run in the finished page, left in `seen`; and what the console said.

    The script knows `$`, `all` (elements by selector), `wait` and `set` (a form element's value).
    """
    path = folder / "page.html"
    path.write_text(spied(page, script), encoding="utf-8")
    for _ in range(3):
        said = subprocess.run(
            [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}",
             f"--window-size={width},1200", "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        found = re.search(r'<pre id="seen">(.*?)</pre>', said.stdout, re.DOTALL)
        if found:  # else chromium's clock ran out while a busy machine kept the page waiting
            break
    assert found, said.stderr[-2000:]
    seen: dict[str, Any] = json.loads(html.unescape(found[1]))
    seen["console"] = [line for line in said.stderr.splitlines() if ":CONSOLE" in line]
    return seen


def spied(page: str, script: str) -> str:
    """The page with the test's own scripts, and they alone let in by its policy."""
    scripts = [BEFORE, AFTER % script]
    digests = [hashlib.sha256(one.encode()).digest() for one in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    page = page.replace("script-src ", f"script-src {allowed} ", 1)
    page = page.replace("<style>", f"<script>{scripts[0]}</script><style>", 1)
    head, end, tail = page.rpartition("</body>")
    return f"{head}<script>{scripts[1]}</script>{end}{tail}"


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
    context = chromium.new_context(
        viewport={"width": width, "height": 1200}, permissions=["clipboard-read", "clipboard-write"]
    )
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


def _kept(wrong: list[str], kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        wrong.append(text)


def _asked(asked: list[str], address: str, own: str) -> None:
    if address != own and not address.startswith(("data:", "blob:")):
        asked.append(address)
