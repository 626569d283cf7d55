"""Every error leads into the page of errors, and every reason to drop a sample is on it."""

import ast
import re
import subprocess
import sys

import pytest
from workflow import PROJECT

from anchorscope.anchors import labels, no_answer
from anchorscope.answers import answers, inputs
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
    *(f"{answers.NO_ANSWER}: {reason}" for reason in (*no_answer.REASONS, labels.IN_QUESTION)),
)  # fmt: skip


def test_every_reason_to_drop_a_sample_is_explained():
    assert [reason for reason in REASONS if f"`{reason}`" not in TEXT] == []


UNKNOWN_USER = """
import os
import snakemake.cli

os.getuid = lambda: 1234
for name in ("USER", "LOGNAME", "LNAME", "USERNAME", "{home}"):
    os.environ.pop(name, None)
snakemake.cli.main(["--cores", "1", "-n"])
"""
SNAKEMAKE = "-m", "snakemake", "--cores", "1", "--nocolor"
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: "


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((*SNAKEMAKE, "--configfile", "my.yaml"), f"{NO_FILE}'my.yaml'"),
        ((*SNAKEMAKE, "--configfile", "config.yaml", "demo"), f"{NO_FILE}'demo'"),
        (("-c", UNKNOWN_USER.format(home="")), "KeyError: 'getpwuid(): uid not found: 1234'"),
        (
            ("-c", UNKNOWN_USER.format(home="HOME")),
            "RuntimeError: could not determine the home directory for '~/.config', ",
        ),
        (
            SNAKEMAKE,
            "LockException: Error: Directory cannot be locked. Please make sure that no other "
            "Snakemake process is trying to create the same files in the following directory",
        ),
    ],
)
def test_snakemakes_own_words_on_the_screen_are_on_the_page(tmp_path, command, said):
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "x"\n    shell: "touch x"\n')
    (tmp_path / "config.yaml").write_text("{}")
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    (tmp_path / ".snakemake/locks/0.output.lock").write_text("x\n")
    python = [sys.executable, *command]
    done = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and said in " ".join((done.stdout + done.stderr).split())
    assert f"`{said}" in TEXT
