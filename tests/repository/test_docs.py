"""What the README and the docs say can be done: commands that work, links that lead somewhere."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import typer
from browser import UNDRIVEN, browser, driven
from workflow import PROJECT, Workspace

from anchorscope.cli import main as cli
from anchorscope.config import config_docs

PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(PROJECT.glob("docs/*.md"))]
FENCE = re.compile(
    r"^(?:(?:<!-- file: (?P<file>[^>\n]+) -->|\*(?P<mark>[^*\n]+)\.\*)\n+)?"
    r"```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.M | re.S,
)
COMMANDS = ("bash", "sh", "console")
NEEDS = {"network", "hub", "gpu", "cluster", "data", "demo", "wheels"}
IN_TEXT = "in the text"
DRY = re.compile(r"long-running|destructive|needs: .+")
WHOLE = r"(snakemake .*(--cores|--profile|-n)|make |anchorscope )[^<\[…]*$"
"""In running text: other words with `snakemake` are mentions of it, not commands."""
HERE = ("source", "cd", "export")
"""Commands of the shell alone, which there is nothing to try about."""
ELSEWHERE = ("git clone", "pip download", "hf cache", "python benchmarks/")
"""Commands of others that change something or need a network: marked, and not tried."""


@dataclass(frozen=True)
class Command:
    """A command of a page, without variables before it and remarks behind it; and its mark."""

    page: str
    text: str
    mark: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def program(self) -> str:
        return "tools." if self.text.startswith("python -m tools.") else self.words[0]


def without_fences(text: str) -> str:
    return FENCE.sub("", text)


def fences() -> list[tuple[str, re.Match[str]]]:
    return [(page.name, f) for page in PAGES for f in FENCE.finditer(page.read_text("utf-8"))]


def mark_of(fence: re.Match[str]) -> str:
    """What stands above a fence for the reader to see, for example `needs: hub, gpu`."""
    return (fence["mark"] or "").lower()


def commands() -> list[Command]:
    """Every different command: in fences, and in running text where it is whole."""
    found = []
    for page, fence in fences():
        if fence["language"] in COMMANDS:
            lines = [line.removeprefix("$ ") for line in fence["body"].splitlines()]
            parts = [part for line in lines for part in line.split(" && ") if part.strip()]
            found += [Command(page, plain(part), mark_of(fence)) for part in parts]
    for page in PAGES:
        for span in re.findall(r"`([^`\n]+)`", without_fences(page.read_text("utf-8"))):
            if re.match(WHOLE, plain(span)):
                found.append(Command(page.name, plain(span), IN_TEXT))
    return list({(tuple(one.words), one.mark): one for one in found}.values())


def plain(line: str) -> str:
    """A line without settings of variables before the command, names put for placeholders."""
    line = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line.strip())
    return re.sub(r"<(\w+)>", r"\1", line)


ALL = commands()


def of(program: str) -> list[Command]:
    return [one for one in ALL if one.program == program]


def test_a_fence_says_what_it_holds() -> None:
    assert [(page, f["body"][:40]) for page, f in fences() if not f["language"]] == []


def test_every_command_is_tried_here_or_marked() -> None:
    tried = {"snakemake", "make", "anchorscope", "tools.", *HERE}
    unknown = [
        one
        for one in ALL
        if one.program not in tried
        and not (DRY.fullmatch(one.mark) and one.text.startswith(ELSEWHERE))
    ]
    assert unknown == []


def test_marks_are_known() -> None:
    for page, fence in fences():
        mark = mark_of(fence)
        if fence["language"] in COMMANDS and mark:
            assert DRY.fullmatch(mark), f"{page}: {mark}"
            assert set(re.split(r", ", mark.partition("needs: ")[2])) - {""} <= NEEDS, page


def test_a_mark_is_seen_by_readers_and_explained_to_them(site: Path) -> None:
    hidden = re.compile(r"<!-- *(?:long-running|destructive|needs)", re.I)
    assert [page.name for page in PAGES if hidden.search(page.read_text("utf-8"))] == []
    marks = {mark_of(fence) for _, fence in fences()} - {""}
    needs = {need for mark in marks for need in re.split(", ", mark.partition("needs: ")[2])}
    words = {mark for mark in marks if not mark.startswith("needs")} | needs - {""}
    text = (PROJECT / "docs/index.md").read_text("utf-8")
    (said,) = re.findall(r"^What stands in italics above .*$", text, re.M)
    assert {word for word in words if f"*{word}*" not in said.lower()} == set()
    assert "explained in [docs/index.md]" in (PROJECT / "README.md").read_text("utf-8")
    assert "<em>Needs: hub, GPU.</em>" in (site / "tutorial.html").read_text("utf-8")


def test_a_command_that_would_build_something_is_marked() -> None:
    for one in [*of("snakemake"), *of("make")]:
        looks = {"-n", "help"} & set(one.words)
        assert one.mark or looks, f"{one.page}: mark `{one.text}`"


@pytest.fixture(scope="module")
def clone(fresh: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A clone with the files that the pages tell to write."""
    whole = fresh.copy(tmp_path_factory.mktemp("docs") / "clone")
    shutil.copytree(PROJECT / "slurm", whole.root / "slurm")
    for _, fence in fences():
        if fence["file"]:
            (whole.root / fence["file"]).write_text(fence["body"], "utf-8")
    return whole


@dataclass(frozen=True)
class Call:
    """A call of snakemake: targets, files laid over the config, keys, profile."""

    targets: tuple[str, ...]
    files: tuple[str, ...]
    keys: tuple[str, ...]
    profile: str | None


@cache
def call(text: str) -> Call:
    """A command as snakemake reads it; what it does not know ends the test."""
    from snakemake.cli import get_argument_parser

    words = [word for word in shlex.split(text, comments=True)[1:] if "--report" not in word]
    read = get_argument_parser().parse_args([w for w in words if not w.endswith(".zip")])
    files = [Path(name).as_posix() for name in read.configfile or ()]
    keys = tuple(read.config or ())
    return Call(tuple(map(str, read.targets)), tuple(files), keys, *(read.profile or [None]))


def dry_run(clone: Workspace, calls: list[Call], *more: str) -> None:
    """One dry run of the targets of several calls, their files laid over one another."""
    targets = dict.fromkeys(name for one in calls for name in one.targets or ("all",))
    files = dict.fromkeys(["config.yaml", *(name for one in calls for name in one.files)])
    keys = dict.fromkeys(key for one in calls for key in one.keys)
    config = ["--config", *keys] if keys else []
    command = [sys.executable, "-m", "snakemake", *targets, "-n", "-q", "--configfile", *files]
    done = subprocess.run(
        [*command, *config, *more],
        cwd=clone.root,
        env=clone.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_every_snakemake_command_resolves(clone: Workspace) -> None:
    calls = [call(one.text) for one in of("snakemake")]
    known = [one for one in calls if one.profile is None and "mine" in one.targets]
    assert known, "the tutorial's figure is not among them"
    dry_run(clone, [one for one in calls if not one.profile and not one.keys])


def test_every_snakemake_command_with_keys_of_its_own_resolves(clone: Workspace) -> None:
    calls = [one for text in of("snakemake") if (one := call(text.text)).keys]
    names = [key.partition("=")[0] for key in {key for one in calls for key in one.keys}]
    assert len(names) == len(set(names)), "give one key one value in all pages, or test apart"
    dry_run(clone, calls)


def test_every_snakemake_command_of_a_cluster_resolves(clone: Workspace) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm")
    calls = [one for text in of("snakemake") if (one := call(text.text)).profile]
    assert {one.profile for one in calls} == {"slurm"}
    dry_run(clone, calls, "--profile", "slurm")


def test_every_make_command_has_a_recipe() -> None:
    for one in of("make"):
        done = subprocess.run(
            ["make", "-n", *one.words[1:]], cwd=PROJECT, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{one.page}: {one.text}\n{done.stderr}"


def test_every_anchorscope_command_is_understood() -> None:
    group = typer.main.get_command(cli.app)
    for one in of("anchorscope"):
        with group.make_context("anchorscope", one.words[1:]) as context:
            name, command, rest = group.resolve_command(context, context._protected_args)  # type: ignore[attr-defined]
            if one.mark != IN_TEXT:  # a mention of a subcommand may leave out what it is given
                command.make_context(name, [*rest, *context.args], parent=context)


def test_every_anchorscope_command_that_needs_nothing_works(
    clone: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(clone.root)
    for key, value in clone.environment().items():
        monkeypatch.setenv(key, value)
    cheap = [one for one in of("anchorscope") if not one.mark]
    assert cheap
    for one in cheap:
        code = cli.main(one.words[1:])
        said = capsys.readouterr()
        assert code == 0, f"{one.page}: {one.text}\n{said.out}{said.err}"


def test_every_module_that_is_run_is_there() -> None:
    modules = {one.words[2] for one in of("tools.")}
    assert modules
    for name in modules:
        assert callable(importlib.import_module(name).main)


@cache
def anchors(page: Path) -> set[str]:
    """What a link may lead to on a page: headings, as Markdown viewers name them, and `<a id>`."""
    text = without_fences(page.read_text("utf-8"))
    named = set(re.findall(r'<a id="([^"]+)">', text))
    for title in re.findall(r"^#+ (.+)$", text, re.M):
        shown = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", title)
        named.add(config_docs.anchor(shown))
    return named


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", without_fences(page.read_text("utf-8"))):
            if not target.startswith(("http://", "https://")):
                yield page, target


def test_every_link_leads_somewhere() -> None:
    lost = []
    for page, target in links():
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            lost.append(f"{page.name}: {target}")
    assert lost == []


def test_every_file_of_the_project_that_a_page_names_is_there() -> None:
    named = re.compile(
        r"(?<![\w/.<-])(?:anchorscope|tests|scripts|rules|resources|benchmarks|examples|slurm|envs)"
        r"/[\w./-]*\.(?:py|smk|md|yaml|ipynb|rst|html)\b"
    )
    found = {(page.name, path) for page in PAGES for path in named.findall(page.read_text("utf-8"))}
    assert len(found) > 10
    assert sorted(one for one in found if not (PROJECT / one[1]).exists()) == []


PRODUCTS = (PROJECT / "docs/products.md").read_text(encoding="utf-8")
COLUMNS = re.findall(r"<!-- columns: (\S+)\.(\w+) -->\n\n((?:\|.*\n)+)", PRODUCTS)


@pytest.mark.parametrize(
    ("module", "name", "table"), COLUMNS, ids=[f"{module}.{name}" for module, name, _ in COLUMNS]
)
def test_the_columns_of_a_product_are_those_of_the_code(module: str, name: str, table: str) -> None:
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    documented = [column for cell in cells for column in re.findall(r"`([^`]+)`", cell)]
    assert sorted(documented) == sorted(getattr(importlib.import_module(module), name))


def test_every_list_of_columns_is_documented() -> None:
    assert len(COLUMNS) == PRODUCTS.count("<!-- columns: ") == 17


@cache
def patterns() -> list[re.Pattern[str]]:
    """Paths of the first table of the products page."""
    rows = [line.split("|") for line in PRODUCTS.splitlines() if line.count("|") == 4]
    paths = [path for row in rows for path in re.findall(r"`([\w<][^`]*[./][^`]*)`", row[2])]
    found = []
    for path in paths:
        parts = re.split(r"\{([^}]*)\}", path)
        choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
        for choice in product(*choices):
            text = re.escape("".join(choice))
            text = re.sub(r"<(?:model|dataset|figure|view)>", r"[\\w.-]+", text)
            found.append(re.compile(text + (".*" if path.endswith("/") else "")))
    return found


def test_everything_in_a_results_folder_is_documented(tiny_run: Workspace) -> None:
    paths = [path.relative_to(tiny_run.results) for path in tiny_run.results.rglob("*.*")]
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    assert len(shown) > 30
    assert [path for path in shown if not documented(path.as_posix())] == []


def documented(name: str) -> bool:
    """Whether a path below the results folder is on the page; records go by their product."""
    study = re.match(
        r"(calibration|sensitivity/[\w.-]+)/(?=prompts|answers|activations|scores|delta_p|refits|logs|benchmarks)",
        name,
    )
    name = name.removeprefix(study[0] if study else "").removesuffix(".provenance.json")
    # The record of a folder, and of all pictures of a figure, is named after what they share.
    return any(
        one.fullmatch(way) for one in patterns() for way in (name, f"{name}/", f"{name}.html")
    )


def test_every_rule_is_on_the_products_page() -> None:
    text = "".join(path.read_text("utf-8") for path in PROJECT.glob("rules/*.smk"))
    rules = set(re.findall(r"^rule (\w+):", text, re.M))
    targets = {"calibration", "controls", "report", "sensitivity", "reproduction", "retrain"}
    assert {name for name in rules - targets if f"`{name}`" not in PRODUCTS} == set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_without_a_warning_and_holds_every_page(site: Path) -> None:
    pages = {path.stem for path in PROJECT.glob("docs/*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}


def test_the_site_asks_nothing_of_a_network(site: Path) -> None:
    asked = []
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        found = re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"([^\"]+)\"", text)
        asked += [(page.name, url) for url in found if re.match(r"(https?:)?//", url)]
    for sheet in site.rglob("*.css"):
        found = re.findall(r"url\([\"']?((?:https?:)?//[^)]+)", sheet.read_text("utf-8"))
        asked += [(sheet.name, url) for url in found]
    assert asked == []


def test_a_page_of_the_site_is_in_its_navigation(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    lost = [p.stem for p in PROJECT.glob("docs/*.md") if f'href="{p.stem}.html' not in start]
    assert [name for name in lost if name != "index"] == []


@pytest.mark.skipif(UNDRIVEN is not None, reason=str(UNDRIVEN))
@pytest.mark.parametrize("width", [600, 1400])
def test_sentences_in_the_sites_tables_wrap(site: Path, width: int) -> None:
    with browser() as chromium, driven(chromium, site / "figures.html", width) as opened:
        wide = opened.page.evaluate(
            "[...document.querySelectorAll('table')].map((t) => [t.offsetWidth, innerWidth])"
        )
        wrapped = opened.page.evaluate(
            "getComputedStyle(document.querySelector('table td')).whiteSpace"
        )
    assert wrapped == "normal" and len(wide) == 3
    assert all(table <= window for table, window in wide)
