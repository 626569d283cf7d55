"""The command `anchorscope`: what a person does around the workflow.

Exit codes: 0 all is well, 1 something is wrong, 2 the command was not understood.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml

from anchorscope.config.settings import Config
from anchorscope.storage.errors import PAGE, AnchorscopeError, nearest
from anchorscope.workflow import config

MAIN = "config.yaml"
COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "error": typer.colors.RED}


def _examples(*lines: str) -> str:
    """Examples for `--help`, kept as lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Where a language model's signal of truth comes from: the question or the answer.\n\n"
    "Run it from the root of a clone. The measuring itself is Snakemake's: "
    "`snakemake --cores all demo`.",
    epilog=_examples(
        "anchorscope check demo                             what the demo needs",
        "anchorscope list                                   models and datasets, what is built",
        "anchorscope show calibration-qwen3 world-relation  what was found in one cell",
        "anchorscope add-model Qwen/Qwen3-4B --write        a new entry of the catalogue",
        "anchorscope check --help                           more about one of them",
    )
    + "\n\nExit codes: 0 all is well, 1 something is wrong, 2 the command was not understood. "
    "With --json an error is an object on standard output: error, where, do, see.",
)
ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        help="A file laid over config.yaml, as with `snakemake --configfile`; may be repeated.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class UsageError(AnchorscopeError):
    """A name on the command line that does not exist: exit code 2."""


@app.command(
    epilog=_examples(
        "anchorscope check                      what `targets` of config.yaml needs",
        "anchorscope check llama-3.2 qwen3      two figures, before anything is downloaded",
        "anchorscope check calibration --json",
        "anchorscope check mine --config my.yaml --config more.yaml",
    )
)
def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Figures, or what else Snakemake builds by name: all, controls, report, "
            "calibration, null-controls, sensitivity, reproduction, retrain, retrain-seeds."
        ),
    ] = None,
    config_files: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:
    """Find what would stop a run, and how much there is to do.

    Looks at config, disk, GPU, hub access and checkpoints, and says the size of each target.
    Nothing is downloaded. The hub is asked only about what a target needs and is not here yet.
    """
    from anchorscope.cli import cli_check
    from anchorscope.workflow import studies

    try:
        chosen = read(config_files or [])
    except AnchorscopeError as error:
        _findings([cli_check.mistaken(error)], [], as_json)
        raise typer.Exit(1) from None
    names = list(dict.fromkeys(targets or chosen.targets))
    try:
        work = {name: studies.cells_of(chosen, name) for name in names}
    except AnchorscopeError as error:
        raise UsageError(error.what, error.where, error.do, see=error.see) from None
    sizes = [cli_check.size(name, cells) for name, cells in work.items()]
    if not _findings(cli_check.check(chosen, work), sizes, as_json):
        raise typer.Exit(1)


@app.command("list", epilog=_examples("anchorscope list", "anchorscope list --json"))
def list_(config_files: ConfigFiles = None, as_json: AsJson = False) -> None:
    """The catalogue, and what of it is built."""
    from anchorscope.cli import cli_list

    found = cli_list.catalogue(read(config_files or []))
    typer.echo(_json(found) if as_json else cli_list.text(found))


@app.command(
    epilog=_examples(
        "anchorscope show calibration-qwen3 world-relation",
        "anchorscope show qwen3-8b popqa --readout attn/final",
        "anchorscope show qwen3-8b popqa --json",
    )
)
def show(
    model: Annotated[str, typer.Argument(help="Key of the model.")],
    dataset: Annotated[str, typer.Argument(help="Key of the dataset.")],
    readout: Annotated[
        str | None, typer.Option(help="<site>/<position>; by default the first measured.")
    ] = None,
    config_files: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:
    """What was found in one cell, from its tables."""
    chosen = read(config_files or [])
    for name, catalogue, noun in (
        (model, chosen.models, "model"),
        (dataset, chosen.datasets, "dataset"),
    ):
        if name not in catalogue:
            do = f"{nearest(name, catalogue, '')} `anchorscope list` names all".strip()
            what = f"there is no {noun} `{name}` in the catalogue"
            raise UsageError(what, None, do, see="config")
    from anchorscope.report import cli_show

    files = [str(path) for path in config_files or []]
    found = cli_show.summary(chosen, model, dataset, readout=readout, files=files)
    typer.echo(_json(found) if as_json else cli_show.text(found))


@app.command(
    "add-model",
    epilog=_examples(
        "anchorscope add-model Qwen/Qwen3-4B --prompt chat",
        "anchorscope add-model allenai/some-model --key mine --write",
        "anchorscope add-model ~/models/my-checkpoint --write",
    ),
)
def add_model(
    source: Annotated[str, typer.Argument(help="Hub id owner/name, or a folder.")],
    key: Annotated[str | None, typer.Option(help="Its name in the catalogue.")] = None,
    label: Annotated[str | None, typer.Option(help="Its name in figures.")] = None,
    prompt: Annotated[
        Literal["plain", "few_shot", "chat"] | None,
        typer.Option(help="How it is asked; guessed where left out."),
    ] = None,
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"], typer.Option(help="Format of its weights.")
    ] = "bfloat16",
    gated: Annotated[
        bool, typer.Option("--gated", help="The hub wants its terms accepted.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Put it into config.yaml.")] = False,
    config_files: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:
    """Make the catalogue entry of a model.

    Prints it; with --write, puts it into config.yaml, where comments and all other entries stay as
    they are. Nothing is asked of the hub.
    """
    from anchorscope.cli import cli_add

    chosen = read(config_files or [])
    entry = cli_add.propose(source, key=key, label=label, prompt=prompt, dtype=dtype, gated=gated)
    if entry.key in chosen.models:
        raise cli_add.taken(entry.key, MAIN)
    path = Path(MAIN)
    new = cli_add.inserted(path.read_bytes().decode("utf-8"), entry, MAIN)
    if write:
        cli_add.write(path, new)
    if as_json:
        typer.echo(
            _json({"key": entry.key, "entry": entry.values, "notes": entry.notes, "written": write})
        )
        return
    typer.echo(cli_add.yaml_of(entry), nl=False)
    for note in entry.notes:
        typer.echo(f"note: {note}", err=True)
    done = f"written to {MAIN}" if write else f"not written; --write puts it into {MAIN}"
    typer.echo(f"note: {done}", err=True)


def read(files: Sequence[Path]) -> Config:
    """The checked config: config.yaml of this folder, and further files merged over it.

    Raises:
        AnchorscopeError: no config.yaml here, a file that is missing or no YAML, a mistake in it.
    """
    from snakemake.utils import update_config

    if not Path(MAIN).is_file():
        do = "change to the root of a clone of the project and run it there"
        raise AnchorscopeError(f"there is no {MAIN} here", Path.cwd(), do, see="config")
    merged: dict[str, Any] = {}
    for path in (Path(MAIN), *files):
        update_config(merged, _yaml(path))
    return config.load(merged, ", ".join(map(str, (MAIN, *files))))


def _yaml(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AnchorscopeError(
            f"cannot read the config: {error}", path, "correct it", see="config"
        ) from None
    if not isinstance(found, dict):
        raise AnchorscopeError(
            "expected keys with values", path, "see docs/configuration.md", see="config"
        )
    return found


def _findings(found: Iterable[Any], sizes: list[dict[str, Any]], as_json: bool) -> bool:
    """Print findings, as they come where people read them; whether none is an error."""
    kept = []
    for finding in found:
        kept.append(finding)
        if not as_json:
            status = typer.style(f"{finding.status:<8}", fg=COLOURS[finding.status])
            typer.echo(f"{status} {finding.about:<8} {finding.line}")
    fine = all(finding.status != "error" for finding in kept)
    if as_json:
        rows = [asdict(finding) for finding in kept]
        typer.echo(_json({"ok": fine, "findings": rows, "targets": sizes}))
    return fine


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        # Not standalone: the parser's errors come here, to be said as JSON too.
        ended = app(given, prog_name="anchorscope", standalone_mode=not as_json)
    except AnchorscopeError as error:
        if as_json:
            print(_json(_said(error.what, error.where, error.do, error.see)))
        else:
            print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except typer.Abort:
        return 1
    except Exception as error:
        if not (as_json and hasattr(error, "format_message")):
            raise
        print(_json(_misread(error)))
        return 2
    return ended if isinstance(ended, int) else 0


def _misread(error: Any) -> dict[str, str | None]:
    """What the parser did not understand, in the words of an error."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "anchorscope"
    return _said(error.format_message(), command, f"see `{command} --help`", None)


def _said(what: str, where: object, do: str | None, see: str | None) -> dict[str, str | None]:
    """An error as `--json` has it."""
    place = None if where is None else str(where)
    return {"error": what, "where": place, "do": do, "see": f"{PAGE}#{see}" if see else None}


if __name__ == "__main__":
    sys.exit(main())
