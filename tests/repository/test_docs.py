"""What the README and the docs say can be done: commands that work, links that lead somewhere."""

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import typer
from workflow import PROJECT, Workspace, call

from anchorscope.cli import main as cli
from tools import write_docs

PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(PROJECT.glob("docs/*.md"))]
TEXTS = {page: page.read_text("utf-8") for page in PAGES}
FENCE = re.compile(
    r"^(?:<!-- (?:file: (?P<file>[^>\n]+)|(?P<mark>(?:long-running|destructive|needs: )[^>\n]*))"
    r" -->\n+)? *```(?P<language>\w*)\n(?P<body>.*?)^ *```$",
    re.M | re.S,
)
"""A fence, and the comment above it: the file that it shows, or what its commands take.

`<!-- long-running; needs: network, hub -->`: they build, and need something a test lacks.
"""
FENCES = [(page.name, fence) for page, text in TEXTS.items() for fence in FENCE.finditer(text)]


@dataclass(frozen=True)
class Command:
    """A command of a page, without variables before it and remarks after it; and its mark."""

    page: str
    words: tuple[str, ...]
    mark: str


def commands() -> list[Command]:
    """Every different command in a fence, names put for placeholders."""
    found: dict[Command, None] = {}
    for page, fence in FENCES:
        for line in fence["body"].replace(" && ", "\n").splitlines():
            plain = re.sub(r"<(\w+)>", r"\1", re.sub(r"^([A-Z_]+=\S+ )+", "", line.strip()))
            if fence["language"] == "bash" and plain:
                words = tuple(shlex.split(plain, comments=True))
                found[Command(page, words, fence["mark"] or "")] = None
    return list(found)


ALL = commands()


def of(program: str) -> list[Command]:
    return [one for one in ALL if one.words[0] == program]


@pytest.fixture(scope="module")
def clone(fresh: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A clone with the files that the pages tell to write."""
    whole = fresh.copy(tmp_path_factory.mktemp("docs") / "clone")
    shutil.copytree(PROJECT / "slurm", whole.root / "slurm")
    for _, fence in FENCES:
        if fence["file"]:
            (whole.root / fence["file"]).write_text(fence["body"], "utf-8")
    return whole


@pytest.mark.parametrize("profile", [None, "slurm"])
def test_every_snakemake_command_resolves(clone, profile):
    """One dry run of all targets, with all files and keys, in place of one for each command."""
    from snakemake.cli import get_argument_parser

    read = [get_argument_parser().parse_args(list(one.words[1:])) for one in of("snakemake")]
    calls = [call for call in read if bool(call.profile) == bool(profile)]
    if profile:
        pytest.importorskip("snakemake_executor_plugin_slurm")
    assert calls
    targets = dict.fromkeys(str(name) for one in calls for name in one.targets or ("all",))
    files = dict.fromkeys(str(f) for one in calls for f in one.configfile or ())
    keys = dict.fromkeys(key for one in calls for key in one.config or ())
    more = ["--configfile", *dict.fromkeys(["config.yaml", *files])]
    more += ["--config", *keys] if keys else []
    more += ["--profile", profile] if profile else []
    done = call(clone.root, clone.environment(), *targets, "-n", "-q", *more)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_every_make_command_has_a_recipe():
    for one in of("make"):
        run = ["make", "-n", *one.words[1:]]
        done = subprocess.run(run, cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == 0, f"{one}\n{done.stderr}"


def test_every_anchorscope_command_is_understood_and_works_where_it_needs_nothing(
    clone, monkeypatch, capsys
):
    monkeypatch.chdir(clone.root)
    for key, value in clone.environment().items():
        monkeypatch.setenv(key, value)
    group = typer.main.get_command(cli.app)
    for one in of("anchorscope"):
        given = list(one.words[1:])
        if one.mark:
            with group.make_context("anchorscope", given) as context:
                name, command, rest = group.resolve_command(context, context._protected_args)  # type: ignore[attr-defined]
                command.make_context(name, [*rest, *context.args], parent=context)
        else:
            assert cli.main(given) == 0, f"{one}\n{capsys.readouterr()}"


@cache
def anchors(page: Path) -> set[str]:
    """What a link may lead to on a page: headings, as Markdown viewers name them, and `<a id>`."""
    text = FENCE.sub("", page.read_text("utf-8"))
    shown = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    titles = re.findall(r"^#+ (.+)$", shown, re.M)
    return {*re.findall(r'<a id="([^"]+)">', text), *map(write_docs.anchor, titles)}


def test_every_link_leads_somewhere():
    lost = []
    for page, text in TEXTS.items():
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", FENCE.sub("", text)):
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists() or (anchor and anchor not in anchors(path)):
                lost.append(f"{page.name}: {target}")
    assert lost == []


PRODUCTS = TEXTS[PROJECT / "docs/products.md"]


@cache
def patterns() -> list[re.Pattern[str]]:
    """Paths of the first table of the products page."""
    rows = [line.split(" | ") for line in PRODUCTS.splitlines() if line.count(" | ") == 2]
    found = []
    for path in (path for row in rows for path in re.findall(r"`([\w<][^`]*[./][^`]*)`", row[1])):
        parts = re.split(r"\{([^}]*)\}", path)
        for choice in product(*(p.split(",") if i % 2 else [p] for i, p in enumerate(parts))):
            text = re.escape("".join(choice))
            text = re.sub(r"<(?:model|dataset|figure|view|experiment)>", r"[\\w.-]+", text)
            found.append(re.compile(text + (".*" if path.endswith("/") else "")))
    return found


def documented(name: str) -> bool:
    """Whether a path below the results folder is on the page; records go by their product."""
    name = name.removesuffix(".provenance.json")
    # The record of a folder, and of all pictures of a figure, is named after what they share.
    ways = (name, f"{name}/", f"{name}.html")
    return any(one.fullmatch(way) for one in patterns() for way in ways)


def test_everything_in_a_results_folder_is_documented(tiny_run):
    paths = [path.relative_to(tiny_run.results) for path in tiny_run.results.rglob("*.*")]
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    assert len(shown) > 30
    assert [path for path in shown if not documented(path.as_posix())] == []


def test_the_site_builds_without_a_warning_and_asks_nothing_of_a_network(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((tmp_path / f"{page.stem}.html").is_file() for page in PROJECT.glob("docs/*.md"))
    remote = re.compile(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"(?:https?:)?//")
    pages = {page.name: page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert [name for name, text in pages.items() if remote.search(text)] == []
