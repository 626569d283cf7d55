"""Run the benchmarks and checks that need a GPU, in ten minutes at most.

    python benchmarks/on_gpu.py --rows FOLDER --out results/on-gpu

The most important steps run first. The output, seconds and exit code of each step are written as
soon as it ends. A step may take a quarter of `--seconds`, or its share of what is left if that is
more. Steps that are not reached within `--seconds` are marked "not run". To continue, run the same
command: finished steps are not repeated. No step needs a network if results/rehearsal/tokenizers
exists, see `tools/real_tokenizers.py`.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import torch

from anchorscope.storage.files import read_json, write_json

DONE, NOT_RUN = "done", "not run"
REHEARSED = (
    "{python} -m tools.rehearsal --rows {rows} --no-table {size} "
    "--models {model} --datasets popqa && {run}"
)
RUN = (
    "{python} -m anchorscope.workflow.interrupted.resume --cores all {target} "
    "--configfile resources/rehearsal.yaml results/rehearsal/cells.yaml"
)
"""Command that draws a figure. It also continues a run that ran out of time and left its lock."""
KILLED = (
    "rm -rf results/rehearsal/{{activations,probes,scores,delta_p,tables,figures}}; "
    "setsid {run} & job=$!; "
    "until find results/rehearsal/activations -path '*/.partial/*.safetensors' 2>/dev/null "
    "| grep -q . || ! kill -0 $job; do sleep .05; done; kill -9 -- -$job || exit 1; wait $job; "
    "{run}"
)
"""Command that kills a run and its jobs once a batch of activations exists, then continues it."""
COMMAND = "from anchorscope.cli.main import main; raise SystemExit(main())"
TESTS = "tests/passes/test_gpu.py"
EXPERTS = "(bfloat16 or nothing_to_cut) and (qwen3_moe or mixtral)"


def steps(rows: Path, out: Path, quick: bool) -> dict[str, str]:
    """Return step → shell command, in running order. If `quick`, the commands run on the CPU."""
    python, device = shlex.quote(sys.executable), "cpu --quick" if quick else "cuda"
    bench = f"{python} benchmarks/bench.py --device {device}"
    size = "--layers 1 --samples 40" if quick else "--layers 0 --samples 100"
    like = "calibration-qwen3 --device cpu" if quick else "qwen3-8b"

    def speed(model: str) -> str:
        return f"{bench} --models {'tiny' if quick else model} --out {out / model}"

    found = {f"speed of {one}": speed(one) for one in ("llama-3.2-1b", "llama-3.2-3b", "qwen3-8b")}
    found["probes"] = f"{bench} --models probes --out {out / 'probes'}"
    found["bfloat16 tests"] = f"{python} -m pytest -n0 -q {TESTS} -k {shlex.quote(EXPERTS)}"
    for model, target in (("llama-3.2-1b", "llama-3.2"), ("qwen3-8b", "qwen3")):
        run = RUN.format(python=python, target=target)
        found[f"rehearsal of {model}"] = REHEARSED.format(
            python=python,
            rows=shlex.quote(str(rows)),
            size=size,
            model=model,
            run=f"({KILLED.format(run=run)})" if model == "llama-3.2-1b" else run,
        )
    found["selftest"] = f"{python} -c {shlex.quote(COMMAND)} selftest --like {like}"
    found["speed of qwen3-32b"] = speed("qwen3-32b")
    return found


def run(commands: Mapping[str, str], out: Path, seconds: float) -> dict[str, dict[str, object]]:
    """Run the unfinished steps while `seconds` last, and write `steps.json` after each step.

    A step gets a quarter of `seconds`, or what is left divided by the unfinished steps if that is
    more.
    """
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "steps.json"
    found: dict[str, dict[str, object]] = {name: {"outcome": NOT_RUN} for name in commands}
    if kept.is_file():
        found |= read_json(kept)
    end = time.monotonic() + seconds
    for name, command in commands.items():
        if found[name]["outcome"] != DONE and (left := end - time.monotonic()) > 1:
            log = out / f"{name.replace(' ', '-')}.log"
            unfinished = sum(one["outcome"] != DONE for one in found.values())
            found[name] = one(command, log, min(left, max(seconds / 4, left / unfinished)))
            print(f"{name}: {found[name]}", flush=True)
        write_json(found, kept)
    return found


def one(command: str, log: Path, seconds: float) -> dict[str, object]:
    """Run a command for at most `seconds`, with its output in `log`, and return how it ended."""
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as opened:
        run = subprocess.Popen(["bash", "-c", command], stdout=opened, stderr=subprocess.STDOUT)
        try:
            code = run.wait(timeout=seconds)
            outcome = f"exit code {code}" if code else DONE
        except subprocess.TimeoutExpired:
            outcome = "out of time"
            process = psutil.Process(run.pid)
            for running in [*process.children(recursive=True), process]:
                with suppress(psutil.Error):
                    running.kill()
            run.wait()
    return {"outcome": outcome, "seconds": round(time.monotonic() - start, 1)}


def main(given: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, required=True, help="folder of the datasets' rows")
    parser.add_argument("--out", type=Path, default=Path("results/on-gpu"))
    parser.add_argument("--seconds", type=float, default=570)
    about = "try tiny steps on the CPU; replaces a rehearsal in results/rehearsal"
    parser.add_argument("--quick", action="store_true", help=about)
    chosen = parser.parse_args(given)
    if not (chosen.quick or torch.cuda.is_available()):
        raise SystemExit("there is no GPU here: add --quick to try the steps on the CPU")
    out = chosen.out / "quick" if chosen.quick else chosen.out
    run(steps(chosen.rows, out, chosen.quick), out, chosen.seconds)


if __name__ == "__main__":
    main()
