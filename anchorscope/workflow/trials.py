"""Trials by `anchorscope selftest --like`: memory and time that a model needs on a card.

A card is a GPU or, without GPUs, the processor. `resources` estimates jobs from a trial of the same
model on the same card.
"""

import json
import platform
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from anchorscope.config.sections import Mark, Model
from anchorscope.config.settings import Config
from anchorscope.storage.files import write_json
from anchorscope.storage.identity import identity

FILE = Path("selftest.json")
"""The self-test's results, in the folder of the run. Trials are under the key `LIKE`."""
LIKE = "like"
Stage = Literal["answers", "activations", "scores"]
CPU_NAMES = Path("/proc/cpuinfo")
MOST = 4
"""Largest batch that a trial tries, as a multiple of the batch that a run would use."""


class Trial(BaseModel):
    """Memory and time that a model of a given shape needs on a card."""

    model: str  # key in the catalogue, or a folder
    card: str  # name of the GPU, or of the processor
    settings: str  # hash of the settings that the numbers depend on, see `settings_of`
    dtype: str
    batch_tokens: int  # batch size of the passes that were timed
    largest_batch_tokens: int | None  # largest batch size that fits; None if not searched for
    weights_gb: float
    memory_gb: dict[Stage, float]  # peak memory of the device per stage, including weights
    seconds: dict[Stage, float]  # seconds per sample

    @property
    def limit(self) -> int | None:
        """Largest batch that fits, in tokens; None if every batch that was tried fits."""
        largest = self.largest_batch_tokens
        return None if largest is None or largest >= MOST * self.batch_tokens else largest

    def time(self, asked: int, samples: int) -> float:
        """Return the seconds for `asked` questions, of whose answers `samples` are measured.

        Loading, tables and pictures are not included.
        """
        each = dict.fromkeys(self.seconds, samples) | {"answers": asked}
        return sum(each[stage] * seconds for stage, seconds in self.seconds.items())


def duration(seconds: float) -> str:
    """Return a rounded time as text, such as `5 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def settings_of(config: Config, entry: Model) -> str:
    """Return the hash of the settings that a trial depends on, except the number of samples."""
    chosen = config.model_dump(mode="json", include=config.marked(Mark.TRIAL))
    return identity({"entry": entry.numbers(), **chosen})


def read(path: Path = FILE) -> tuple[Trial, ...]:
    """Read the trials in a file of the self-test, or return () if it or a trial is unreadable."""
    try:
        return tuple(Trial.model_validate(one) for one in _content(path).get(LIKE, []))
    except (ValidationError, TypeError):
        return ()


def keep(trial: Trial, path: Path = FILE) -> None:
    """Add a trial to the file, in place of an earlier one of the same model and card."""
    others = [one for one in read(path) if (one.model, one.card) != (trial.model, trial.card)]
    write({LIKE: [one.model_dump() for one in (*others, trial)]}, path)


def write(part: Mapping[str, Any], path: Path = FILE) -> None:
    """Write some keys to the file of the self-test. Other keys in the file stay."""
    write_json({**_content(path), **part}, path)


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def of(trials: Sequence[Trial], config: Config, model: str, cards: Sequence[str]) -> Trial | None:
    """Return the trial of a catalogue model on one of `cards`, or None if there is none.

    A trial counts only if its settings equal those of `config` (see `settings_of`).
    """
    for trial in trials:
        if trial.model == model and any(same_card(name, trial.card) for name in cards):
            return trial if trial.settings == settings_of(config, config.models[model]) else None
    return None


def same_card(name: str, card: str) -> bool:
    """Return whether `name`, such as a cluster's `h100`, is short for the full name `card`.

    A short name joins consecutive words: `NVIDIA GeForce RTX 4090` → `rtx4090`.
    """
    words = re.findall("[a-z0-9]+", card.lower())
    runs = {"".join(words[a:b]) for a, b in combinations(range(len(words) + 1), 2)}
    return re.sub("[^a-z0-9]", "", name.lower()) in runs


def cards() -> list[str]:
    """Return the names of the GPUs that torch can use. If there is none, name the processor."""
    import torch

    if torch.cuda.is_available():
        return [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return [processor()]


def processor() -> str:
    """Return the name of the processor."""
    if CPU_NAMES.is_file():
        names = re.search(r"^model name\s*:\s*(.+)$", CPU_NAMES.read_text("utf-8"), re.M)
        if names:
            return names[1]
    return platform.machine()
