"""The pictures of README and docs are products of the workflow, drawn by `make pictures`."""

import re
import runpy
from types import SimpleNamespace

from workflow import PROJECT

pictures = SimpleNamespace(**runpy.run_path(str(PROJECT / "docs" / "pictures.py")))


def test_every_picture_that_a_page_shows_has_a_figure_it_is_made_from() -> None:
    shown = set()
    for page in (PROJECT / "README.md", *PROJECT.glob("docs/*.md")):
        found = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text("utf-8"))
        shown |= {(page.parent / path).resolve() for path in found}
    made = {*pictures.PRODUCTS, *pictures.FIRST_MODEL}
    assert shown == {pictures.IMAGES / f"{name}.png" for name in made}
    assert shown == set(pictures.IMAGES.glob("*.png"))
