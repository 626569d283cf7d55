"""Every error leads into the page of errors, and the page to nothing that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from anchorscope.models import answers
from anchorscope.questions import prompts
from anchorscope.storage import errors
from anchorscope.storage.errors import AnchorscopeError

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / errors.PAGE).read_text(encoding="utf-8")
ANCHORS = re.findall(r'<a id="([^"]+)"></a>', TEXT)


def calls() -> list[tuple[str, ast.Call]]:
    """Every call in the library, with its place."""
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in sorted((ROOT / "anchorscope").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def sees(call: ast.Call) -> list[ast.expr]:
    """What a call gives as `see`; a mistake in the config takes it as its fourth."""
    mistake = call.args[3:4] if getattr(call.func, "id", "") == "Mistake" else []
    return [keyword.value for keyword in call.keywords if keyword.arg == "see"] + mistake


def test_every_anchor_that_an_error_names_is_on_the_page() -> None:
    named = [
        (place, see.value)
        for place, call in calls()
        for see in sees(call)
        if isinstance(see, ast.Constant)
    ]
    assert len(named) > 50
    assert [(place, see) for place, see in named if see is not None and see not in ANCHORS] == []


def test_every_error_leads_to_the_page() -> None:
    raised = [found for found in calls() if getattr(found[1].func, "id", "") == "AnchorscopeError"]
    assert raised
    assert [place for place, call in raised if not sees(call)] == []


def test_the_anchors_of_the_page_are_different() -> None:
    assert len(ANCHORS) == len(set(ANCHORS))


def test_links_inside_the_page_lead_somewhere() -> None:
    titles = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", TEXT, re.M)}
    links = re.findall(r"\]\(#([^)]+)\)", TEXT)
    assert links and set(links) <= titles | set(ANCHORS)
    files = re.findall(r"\]\(([\w./-]+\.md)\)", TEXT)
    assert files and all((ROOT / "docs" / name).is_file() for name in files)


def test_every_entry_has_symptom_cause_and_cure() -> None:
    for entry in TEXT.split('<a id="')[1:]:
        for part in ("**Symptom**", "**Cause**", "**Cure**"):
            assert part in entry, entry[:40]


@pytest.mark.parametrize(
    "reason",
    [
        prompts.NO_ANCHOR,
        prompts.ALTERED,
        answers.TOO_LONG,
        answers.BEYOND_WINDOW,
        answers.BEYOND_POSITIONS,
        answers.SPANS_LOST,
        answers.CONTROL,
        answers.CONTROL_SAID,
        answers.NO_ANCHOR,
        answers.NO_GOLD,
    ],
)
def test_every_reason_to_drop_a_sample_is_explained(reason: str) -> None:
    assert f"`{reason}`" in TEXT


def test_an_error_says_where_it_is_explained() -> None:
    error = AnchorscopeError("it is gated", "owner/name", "ask", see="gated")
    assert str(error).splitlines()[-1] == "  see:   docs/what-goes-wrong.md#gated"
