"""The command `anchorscope`, for use before and after a run of the workflow."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from anchorscope.config.sections import Model
from anchorscope.experiments.registry import RunConfig
from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.questions.reading import file_rows, local_files
from anchorscope.storage.counts import in_words
from anchorscope.storage.errors import PAGE, AnchorscopeError, nearest
from anchorscope.storage.files import atomic
from anchorscope.workflow import config, targets as known
from anchorscope.workflow.devices import ON_CPU, best_device, gpus_here

MAIN = "config.yaml"
COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "error": typer.colors.RED}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find whether a model's truth signal comes from the question or the answer.\n\n"
    "Run it from the root of a clone, or name a config with --configfile. In a clone, Snakemake "
    "does the measuring: `snakemake --cores all demo`.",
    epilog="""\b
Examples:
  anchorscope check demo                               find what would stop the demo
  anchorscope show calibration-qwen3 world-relation    show the findings of one cell
  anchorscope detect score detector/ --rows new.jsonl  score answers with a detector
  anchorscope check --help                             explain a command

Exit codes: 0 all is well, 1 something is wrong, 2 the command was not understood.
With --json, an error is printed to standard output as an object: error, where, do, see.""",
)
ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--configfile", help="A file merged over config.yaml, as with Snakemake; may be repeated."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class UsageError(AnchorscopeError):
    """The command line names something that does not exist: exit code 2."""


@app.command()
def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help=f"Figures, or other targets of Snakemake: {', '.join(known.TARGETS)}."),
    ] = None,
    config_files: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:
    """Find what would stop a run, and estimate how much there is to do.

    It checks config, disk, GPUs, checkpoints, rows and access to the hub. Nothing is downloaded.
    The hub is asked only about models and datasets that are not on this machine.
    """
    from anchorscope.cli.check import cells_of, check as checked

    chosen = read(config_files)
    try:
        work = {name: cells_of(chosen, name) for name in targets or chosen.targets}
    except AnchorscopeError as error:
        raise UsageError(error.what, error.where, error.do, see=error.see) from None
    findings = []
    for finding in checked(chosen, work, [str(path) for path in config_files or []]):
        findings.append(finding._asdict())
        if not as_json:
            status = typer.style(f"{finding.status:<8}", fg=COLOURS[finding.status])
            joint = " " if finding.what.endswith(".") else "; "
            text = f"{finding.what}{joint}{finding.do}" if finding.do else finding.what
            typer.echo(f"{status} {finding.about:<8} {' '.join(text.split())}")
    ok = all(finding["status"] != "error" for finding in findings)
    if as_json:
        typer.echo(as_json_text({"ok": ok, "findings": findings}))
    if not ok:
        raise typer.Exit(1)


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
    """Show what was found in one cell, from its tables."""
    from anchorscope.report import cell_summary

    chosen = read(config_files)
    for name, catalogue in ((model, chosen.models), (dataset, chosen.datasets)):
        _check_known(name, catalogue)
    files = [str(path) for path in config_files or []]
    summary = cell_summary.summary(chosen, model, dataset, readout=readout, files=files)
    typer.echo(as_json_text(summary) if as_json else cell_summary.text(summary))


detect = typer.Typer(no_args_is_help=True, help="Detectors of wrong answers; no config is read.")
app.add_typer(detect, name="detect")


@detect.command()
def score(
    detector: Annotated[Path, typer.Argument(help="Folder of the detector.")],
    rows: Annotated[
        Path, typer.Option(help="JSON Lines, JSON, CSV or Parquet with `question` and `response`.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="File for the scores; by default standard output.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Hub id or folder; by default the detector's own.")
    ] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Batch limit, in tokens.")] = None,
) -> None:
    """Write for each row the probability that its answer is wrong, as JSON Lines.

    Rows without a response are answered by the model. No labels are needed.
    """
    from anchorscope.detectors.detector import Detector

    chosen = Detector.load(detector)  # errors that need no model come first
    given = [row for file in local_files(rows, None, None) for row in file_rows(file)]
    name, revision = model or chosen.origin.model, None if model else chosen.origin.revision
    if name is None:
        what, do = "the detector does not name its model", "name the model with --model"
        raise AnchorscopeError(what, detector, do, see="detector")
    loaded = load_model(name, revision, chosen.origin.dtype)
    table = chosen.score(
        loaded.model, loaded.tokenizer, given, source=rows, batch_tokens=batch_tokens
    )
    records = table.astype(object).where(table.notna(), None).to_dict("records")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records)
    if out is None:
        typer.echo(text, nl=False)
    else:
        with atomic(out) as draft:
            draft.write_text(text, encoding="utf-8")
    typer.echo(summary(table), err=True)


def load_model(name: str, revision: str | None, dtype: str) -> Loaded:
    """Load a model from a folder or the hub, on a GPU if there is one."""
    folder = Path(name).expanduser()
    if not folder.exists():
        folder, _ = loading.fetch(name, revision)
    return loading.load(folder, dtype=dtype, device=best_device("cuda" if gpus_here() else "cpu"))


def summary(table: pd.DataFrame) -> str:
    """Return as text how many answers were scored, and why the others were not."""
    scored = table["p_wrong"].dropna()
    line = f"{len(scored):,} of {len(table):,} rows scored"
    line += f"; {(scored > 0.5).sum():,} answers are more likely wrong than right"
    reasons = in_words(Counter(table["dropped"].dropna()))
    return f"{line}; no score: {reasons}" if reasons else line


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(help="A GGUF file.")],
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
) -> None:
    """Convert a GGUF file to a model folder, with weights dequantised to float32."""
    from anchorscope.cli.convert import convert as converted

    converted(file, folder)
    typer.echo(f"{folder} is a model folder now: name it as `local` of a model in your config")


@app.command()
def selftest(
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, or one GPU such as cuda:1; with --like by default a GPU."),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(help="Model to try with random weights: key in the catalogue, or folder."),
    ] = None,
    config_files: ConfigFiles = None,
) -> None:
    """Test in three minutes whether this machine measures correctly.

    Tiny random models of a dozen families are measured and compared. Nothing is downloaded. With
    `--like`, test instead whether a model fits here, and how long a dataset takes. The results are
    written to selftest.json, the file to send with a report.
    """
    if device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        do = "use cpu, cuda, or one GPU such as cuda:1"
        raise UsageError(f"there is no device `{device}`", None, do, see="no-gpu")
    if like is not None:
        _try_model(read(config_files), like, device)
        return
    from anchorscope.cli.selftest import report

    if not report(device or "cpu"):
        raise typer.Exit(1)


def _try_model(chosen: RunConfig, name: str, device: str | None) -> None:
    """Try a model with random weights: one of the catalogue, or the folder `name`."""
    models = dict(chosen.models)
    if name not in models and Path(name).exists():
        models[name] = Model(local=name, label=name)
    _check_known(name, models)
    from anchorscope.cli.like import report

    on_cpu = os.environ.get(ON_CPU) == "1" or not models[name].resources.gpus
    where = device or ("cpu" if on_cpu else "cuda")
    report(chosen.model_copy(update={"models": models}), name, where)


def _check_known(name: str, catalogue: Collection[str]) -> None:
    """Refuse a name that is not in the catalogue."""
    if name not in catalogue:
        what = f"there is no `{name}` in the catalogue"
        do = f"{nearest(name, catalogue)} (`--configfile` adds entries of your own)"
        raise UsageError(what, None, do, see="config")


def read(files: Sequence[Path] | None) -> RunConfig:
    """Return the checked config of `config.yaml` in this folder, if any, and of further files."""
    main = [MAIN] if in_clone() else []
    if not (main or files):
        do = "run the command in the root of a clone, or name a config file with --configfile"
        raise AnchorscopeError(f"there is no {MAIN} here", Path.cwd(), do, see="config")
    return config.read([*main, *(files or [])])


def in_clone() -> bool:
    """Return whether this folder has the project's config, as the root of a clone has."""
    return Path(MAIN).is_file()


def as_json_text(value: Any) -> str:
    """Format a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(words, prog_name="anchorscope")
    except AnchorscopeError as error:
        if "--json" in words:
            where = None if error.where is None else str(error.where)
            see = f"{PAGE}#{error.see}" if error.see else None
            print(as_json_text({"error": error.what, "where": where, "do": error.do, "see": see}))
        else:
            print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
