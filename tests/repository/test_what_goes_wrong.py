"""Every error leads into the page of errors, and every reason to drop a sample is on it."""

import ast
import re

from workflow import PROJECT

from anchorscope.models import answers, inputs
from anchorscope.questions import prompts
from anchorscope.storage import errors

TEXT = (PROJECT / errors.PAGE).read_text(encoding="utf-8")
ANCHORS = re.findall(r'<a id="([^"]+)"></a>', TEXT)


def calls() -> list[tuple[str, ast.Call]]:
    """Every call in the library, with its place."""
    return [
        (f"{path.name}:{node.lineno}", node)
        for path in sorted((PROJECT / "anchorscope").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def sees(call: ast.Call) -> list[ast.expr]:
    """What a call gives as `see`; a mistake in the config takes it as its fourth."""
    mistake = call.args[3:4] if getattr(call.func, "id", "") == "Mistake" else []
    return [keyword.value for keyword in call.keywords if keyword.arg == "see"] + mistake


def test_every_error_names_an_anchor_of_the_page():
    raised = [found for found in calls() if getattr(found[1].func, "id", "") == "AnchorscopeError"]
    assert [place for place, call in raised if not sees(call)] == []
    named = [
        (place, see.value)
        for place, call in calls()
        for see in sees(call)
        if isinstance(see, ast.Constant) and see.value is not None
    ]
    assert len(named) > 50
    assert [one for one in named if one[1] not in ANCHORS] == []


REASONS = (
    prompts.NO_ANCHOR, inputs.TOO_LONG, inputs.BEYOND_WINDOW,
    inputs.BEYOND_POSITIONS, inputs.SPANS_LOST, inputs.CONTROL, inputs.CONTROL_SAID,
    inputs.NO_EMBEDDING, inputs.RESPONSE_LOST, answers.NO_ANCHOR, answers.NO_GOLD,
)  # fmt: skip


def test_every_reason_to_drop_a_sample_is_explained():
    assert [reason for reason in REASONS if f"`{reason}`" not in TEXT] == []
