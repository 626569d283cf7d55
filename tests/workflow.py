"""A copy of the project in a folder of its own, where snakemake runs without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anchorscope.config import shipped

PROJECT = Path(__file__).resolve().parents[1]
PARTS = "Snakefile config.yaml rules scripts envs anchorscope validation resources".split()
TOKEN = "hf_PlantedInTheEnvironmentOfEveryRun"
"""It must turn up in no file."""
SHIPPED = shipped.complete(yaml.safe_load((PROJECT / "config.yaml").read_text(encoding="utf-8")))
"""What a fresh clone runs with: config.yaml and the catalogue."""
TINY: dict[str, Any] = yaml.safe_load((PROJECT / "tests/data/tiny.yaml").read_text("utf-8"))
"""112 invented questions, one model of four layers: through the whole DAG in a minute."""
WORLD = {"style": "relation", "scored": 8, "redundant": 8, "neutral": 2, "unseen": 4}
WORLD |= {"words_per_group": 4}


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `change` merged in, as snakemake merges config files."""
    return shipped.laid_over(change, base)


@dataclass(frozen=True)
class Workspace:
    """A copy of the project, and what its config.yaml is changed by in every run."""

    root: Path
    overlay: Mapping[str, Any]

    @property
    def results(self) -> Path:
        return self.root / "results"

    def catalogue(self) -> dict[str, Any]:
        """The config of a run without further changes, less the shipped catalogue."""
        return merged(yaml.safe_load((self.root / "config.yaml").read_text("utf-8")), self.overlay)

    def run(
        self, *arguments: str, change: Mapping[str, Any] | None = None, **how: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run snakemake here, offline, with an empty hub cache; `how` goes to `call`."""
        overlay = self.root / "overlay.yaml"
        overlay.write_text(yaml.safe_dump(merged(self.overlay, change or {})), encoding="utf-8")
        files = ("--configfile", "config.yaml", overlay.name)
        return call(self.root, self.environment(), *arguments, *files, **how)

    def build(self, *arguments: str, change: Mapping[str, Any] | None = None) -> None:
        """Run, and expect that it goes well."""
        said(self.run(*arguments, change=change))

    def planned(self, *arguments: str, change: Mapping[str, Any] | None = None) -> dict[str, int]:
        """Jobs that a run would start: rule → count, without the targets' own and `total`."""
        return counted(said(self.run("-n", *arguments, change=change)))

    def copy(self, root: Path) -> Workspace:
        """A copy of all of it, products, times and snakemake's records included."""
        shutil.copytree(self.root, root, symlinks=True)
        return Workspace(root, self.overlay)

    def environment(self) -> dict[str, str]:
        """Of a run: offline, on the CPU, with an empty hub cache."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        return kept | {
            "HF_HOME": str(self.root / "empty-hub"),
            "HF_HUB_OFFLINE": "1",
            "HF_TOKEN": TOKEN,
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "OMP_NUM_THREADS": "1",
            "ANCHORSCOPE_CPU": "1",
            "PYTHONPATH": "",
        }


def call(
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    module: str = "snakemake",
    alone: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run snakemake, or a module that ends in it; `alone`: in a process group of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, "--cores", "1", "--nocolor", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        start_new_session=alone,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a run, which must succeed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def workspace(root: Path, overlay: Mapping[str, Any] | None = None) -> Workspace:
    """A fresh clone, as it were: no products, no records."""
    root.mkdir(parents=True, exist_ok=True)
    forget = shutil.ignore_patterns("__pycache__", "*.draft")
    for source in (PROJECT / name for name in PARTS):
        if source.is_dir():
            shutil.copytree(source, root / source.name, ignore=forget)
        else:
            shutil.copy2(source, root)
    rows_at(root)
    return Workspace(root, overlay or {})


def rows_at(root: Path) -> None:
    """Write the questions of the tiny run where its config looks for them."""
    from validation import rows
    from validation.world import WorldSettings

    rows.write(rows.of_world(WorldSettings.model_validate(WORLD)), root / "tiny-world.jsonl")


def taught(root: Path, name: str = "tiny-llama", architecture: Any = "llama") -> None:
    """Train the model `name` of the tiny run in the folder where its config looks for it."""
    from validation import rows, training
    from validation.recipes import TrainSettings
    from validation.world import WorldSettings

    world = WorldSettings.model_validate(WORLD)
    shape = {"layers": 4, "width": 32, "heads": 2, "kv_heads": 1, "mlp": 64, "vocabulary": 500}
    steps = {"steps": 450, "settle": 50, "batch_rows": 64, "learning_rate": 0.01}
    train = TrainSettings(architecture=architecture, datasets=["tiny-world"], **shape, **steps)
    training.make(
        root / name,
        {"tiny-world": rows.of_world(world)},
        worlds={"tiny-world": world},
        train=train,
        recipe="of the tiny run",
    )


def counted(text: str) -> dict[str, int]:
    """Job stats of a dry run: rule → count. Targets and `total` make nothing, so they are left."""
    table = re.search(r"^Job stats:\n.*\n[- ]+\n((?:\S+ +\d+\n)+)", text, re.MULTILINE)
    assert table or "Nothing to be done" in text, text
    jobs = re.findall(r"^(\S+) +(\d+)$", table[1] if table else "", re.MULTILINE)
    return {rule: int(count) for rule, count in jobs if rule in STAGES}


STAGES = frozenset(
    "dataset train model prompts answers activations scores"
    " delta_p table picture truth"
    " methods calibration_cell calibration_table calibration_figure null_controls"
    " reproduction_table report_page"
    " experiment_measure experiment_table detector samples".split()
)
