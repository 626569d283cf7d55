"""The command `anchorscope`: what a person does around the workflow."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anchorscope.config.sections import StyleName
from anchorscope.experiments.settings import RunConfig
from anchorscope.storage.errors import PAGE, AnchorscopeError, nearest
from anchorscope.workflow import config, studies

MAIN = "config.yaml"
COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "error": typer.colors.RED}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Where a language model's signal of truth comes from: the question or the answer.\n\n"
    "Run it from the root of a clone. The measuring itself is Snakemake's: "
    "`snakemake --cores all demo`.",
    epilog="""\b
Examples:
  anchorscope check demo                             what the demo needs
  anchorscope list                                   models and datasets, what is built
  anchorscope show calibration-qwen3 world-relation  what was found in one cell
  anchorscope detect score detector/ --rows new.jsonl  how likely answers are wrong
  anchorscope check --help                           more about one of them

Exit codes: 0 all is well, 1 something is wrong, 2 the command was not understood.
With --json an error is an object on standard output: error, where, do, see.""",
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


@app.command()
def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Figures, or what else Snakemake builds by name: {', '.join(studies.TARGETS)}."
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

    chosen = read(config_files)
    try:
        work = {name: studies.cells_of(chosen, name) for name in targets or chosen.targets}
    except AnchorscopeError as error:
        raise UsageError(error.what, error.where, error.do, see=error.see) from None
    findings = []
    for finding in cli_check.check(chosen, work):
        findings.append(finding)
        if not as_json:
            status = typer.style(f"{finding.status:<8}", fg=COLOURS[finding.status])
            text = f"{finding.what}; {finding.do}" if finding.do else finding.what
            typer.echo(f"{status} {finding.about:<8} {' '.join(text.split())}")
    ok = all(finding.status != "error" for finding in findings)
    if as_json:
        typer.echo(_json({"ok": ok, "findings": [finding._asdict() for finding in findings]}))
    if not ok:
        raise typer.Exit(1)


@app.command("list")
def list_(config_files: ConfigFiles = None, as_json: AsJson = False) -> None:
    """The catalogue, and what of it is built."""
    from anchorscope.cli import cli_list

    tables = cli_list.catalogue(read(config_files))
    typer.echo(_json(tables) if as_json else cli_list.text(tables))


@app.command()
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
    from anchorscope.report import cell_summary

    chosen = read(config_files)
    for name, catalogue in ((model, chosen.models), (dataset, chosen.datasets)):
        if name not in catalogue:
            do = f"{nearest(name, catalogue, '')} `anchorscope list` names all".strip()
            raise UsageError(f"there is no `{name}` in the catalogue", None, do, see="config")
    files = [str(path) for path in config_files or []]
    summary = cell_summary.summary(chosen, model, dataset, readout=readout, files=files)
    typer.echo(_json(summary) if as_json else cell_summary.text(summary))


detect = typer.Typer(
    no_args_is_help=True,
    help="Detectors of wrong answers, from rows of a file; no config is read.\n\n"
    "Rows are JSON Lines, JSON, CSV or Parquet with the fields of a dataset in the catalogue: "
    "question; answers, or response and label; subject and property where known.",
)
app.add_typer(detect, name="detect")
RowsPath = Annotated[Path, typer.Option("--rows", help="File of rows.")]
FieldColumns = Annotated[
    list[str] | None,
    typer.Option("--field", help="A column of another name, as answers=gold; may be repeated."),
]
OtherModel = Annotated[
    str | None, typer.Option(help="Hub id or folder; by default the one it was fitted to.")
]
Device = Annotated[
    Literal["cpu", "cuda"] | None, typer.Option(help="By default a GPU, where there is one.")
]
Dtype = Annotated[
    Literal["bfloat16", "float16", "float32"] | None,
    typer.Option(help="Format of the weights; by default as in fitting, there by the device."),
]
BatchTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens in a batch.")]
OneReadout = Annotated[
    str | None, typer.Option(help="resid/final for the variant of the residual stream.")
]
Folder = Annotated[Path, typer.Argument(help="Folder of the detector.")]


@detect.command("fit")
def detect_fit(
    model: Annotated[str, typer.Option(help="Hub id owner/name, or a folder.")],
    rows: RowsPath,
    out: Annotated[Path, typer.Option(help="Folder for the detector.")],
    style: Annotated[
        StyleName | None,
        typer.Option(help="How the model is asked; chat where it has a template, else few_shot."),
    ] = None,
    readout: Annotated[str, typer.Option(help="<site>/final: mlp, attn or resid.")] = "mlp/final",
    examples: Annotated[
        Path | None, typer.Option(help="Rows to show as worked examples; else held back.")
    ] = None,
    field: FieldColumns = None,
    revision: Annotated[str | None, typer.Option(help="Commit of a hub model.")] = None,
    dtype: Dtype = None,
    device: Device = None,
    batch_tokens: BatchTokens = None,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Fit a detector to labelled rows and write its folder: weights, config.json and a card.

    Says what it beats: models of the text alone, and a probe that has not read the answer.
    """
    from anchorscope.cli import cli_detect
    from anchorscope.detectors.saved.detector import check_free

    check_free(out)  # before anything is computed
    given = cli_detect.RowsFile.read(rows, field)
    loaded = cli_detect.load_model(model, dtype, device, revision)
    detector = cli_detect.fit(
        loaded,
        given,
        style=style,
        readout=readout,
        examples=examples,
        seed=seed,
        batch_tokens=batch_tokens,
    )
    source = {"name": model, "revision": revision or detector.source["revision"]}
    replace(detector, source=source).save(out)
    typer.echo(cli_detect.summary_of_fit(detector, out), err=True)
    if as_json:
        typer.echo(_json(detector.report))


@detect.command("eval")
def detect_eval(
    detector: Folder,
    rows: RowsPath,
    model: OtherModel = None,
    readout: OneReadout = None,
    field: FieldColumns = None,
    dtype: Dtype = None,
    device: Device = None,
    batch_tokens: BatchTokens = None,
    as_json: AsJson = False,
) -> None:
    """Measure a detector on labelled rows.

    Prints AUROC, AUPRC, Brier score and accuracy at coverage, with clustered intervals. Rows that
    share a question or subject with what it was fitted to are left out and counted.
    """
    from anchorscope.cli import cli_detect

    saved, given, loaded = cli_detect.opened(detector, rows, field, model, dtype, device)
    evaluation = saved.evaluate(
        loaded.model,
        loaded.tokenizer,
        given.rows,
        fields=given.fields,
        source=given.path,
        readout=readout,
        batch_tokens=batch_tokens,
    )
    if as_json:
        typer.echo(_json(evaluation.as_dict()))
    else:
        typer.echo(cli_detect.summary_of_eval(evaluation))


@detect.command("score")
def detect_score(
    detector: Folder,
    rows: RowsPath,
    out: Annotated[
        Path | None, typer.Option(help="File for the scores; by default standard output.")
    ] = None,
    model: OtherModel = None,
    readout: OneReadout = None,
    field: FieldColumns = None,
    dtype: Dtype = None,
    device: Device = None,
    batch_tokens: BatchTokens = None,
) -> None:
    """Say of each row how likely its answer is wrong, as JSON Lines.

    Rows without a response are answered by the model. No labels are needed.
    """
    from anchorscope.cli import cli_detect

    saved, given, loaded = cli_detect.opened(detector, rows, field, model, dtype, device)
    table = saved.score(
        loaded.model,
        loaded.tokenizer,
        given.rows,
        fields=given.fields,
        source=given.path,
        readout=readout,
        batch_tokens=batch_tokens,
    )
    text = cli_detect.json_lines(table)
    if out is None:
        typer.echo(text, nl=False)
    else:
        cli_detect.write(text, out)
    typer.echo(cli_detect.summary_of_scores(table), err=True)


@app.command()
def selftest(
    device: Annotated[str, typer.Option(help="cpu, cuda, or one GPU such as cuda:1.")] = "cpu",
    out: Annotated[Path, typer.Option(help="The file to send with a report.")] = Path(
        "selftest.json"
    ),
) -> None:
    """Find out in three minutes whether this machine measures as the method says.

    Tiny random models of every family are measured and compared; nothing is downloaded.
    """
    from anchorscope.cli import cli_selftest

    if not cli_selftest.report(device, out):
        raise typer.Exit(1)


def read(files: Sequence[Path] | None) -> RunConfig:
    """The checked config of config.yaml in this folder and further files, see `config.read`."""
    if not Path(MAIN).is_file():
        do = "change to the root of a clone of the project and run it there"
        raise AnchorscopeError(f"there is no {MAIN} here", Path.cwd(), do, see="config")
    return config.read([MAIN, *(files or [])])


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(words, prog_name="anchorscope")
    except AnchorscopeError as error:
        if "--json" in words:
            where = None if error.where is None else str(error.where)
            see = f"{PAGE}#{error.see}" if error.see else None
            print(_json({"error": error.what, "where": where, "do": error.do, "see": see}))
        else:
            print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
