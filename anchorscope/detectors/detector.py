"""A detector of wrong answers: a probe of one layer, for one model and one prompt."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from anchorscope.answers.rows import TABLE, Rows, answer, ask, settings_of
from anchorscope.detectors import card
from anchorscope.detectors.given_rows import as_given, checked
from anchorscope.detectors.method import as_array
from anchorscope.models import families, loading
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.interventions import on, tensor_name
from anchorscope.probes.platt import prior
from anchorscope.statistics.samples import sigmoid
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic, write_json
from anchorscope.styles import Around

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded

FILE, WEIGHTS, CARD = "detector.json", "detector.safetensors", "README.md"
"""Files of a detector's folder: what it is, its weights, and the model card of the hub."""
COLUMNS = ("id", "question", "response", "ea_text", "p_wrong", "p_balanced", "dropped")
"""Columns of `Detector.score`, see docs/figures.md#using-the-result."""
TOLERANCE = 0.1
"""Maximum median change of the references' logits, as a share of their standard deviation."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """The model that a detector reads, and its prompt."""

    model: str | None  # hub id or folder; None if unknown
    revision: str | None  # commit of a hub model
    dtype: str
    shape: tuple[str, int, int]  # see `shape_of`
    style: str  # of the prompts
    # pairs of a relation (None if unknown) and the text around its questions, with worked examples
    around: tuple[tuple[str | None, Around], ...]
    settings: Mapping[str, Any]  # see `Config.prompting`

    @classmethod
    def of(cls, loaded: Loaded, *asked: Any) -> Self:
        """Describe a model in memory. `asked` fills the fields `style`, `around`, `settings`."""
        model, config = loaded.model, loaded.model.config
        shape = shape_of(config.to_dict(), "model")
        name, commit = model.name_or_path or None, getattr(config, "_commit_hash", None)
        return cls(name, commit, str(model.dtype).removeprefix("torch."), shape, *asked)


@dataclass(frozen=True)
class Reference:
    """An answer, and its logit when the detector was made."""

    row: Mapping[str, str | None]
    logit: float


@dataclass(frozen=True)
class Detector:
    """A linear detector of the wrong answers of one model.

    The logit is `weights` · state + `bias`: the log-odds of *wrong*, if answers are wrong as often
    as in the pool that the training answers were chosen from (`n_wrong` / `n`).
    """

    origin: Origin
    readout: str  # such as `mlp/final`
    layer: int
    weights: tuple[float, ...]  # [width]
    bias: float
    n: int  # answers of the pool, for which those that the probes were fitted to stand
    n_wrong: int
    references: tuple[Reference, ...]
    data: str = "unknown"  # what the answers were: dataset, and its commit on the hub
    # how well it detects: a row of the run's table `summary`, see `card.numbers`
    table: Mapping[str, float | str | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Name the model, the read-out and the layer."""
        model = self.origin.model or self.origin.shape[0]
        return f"Detector of {model}: {self.readout}, layer {self.layer}"

    def logits(self, states: np.ndarray | torch.Tensor) -> np.ndarray:
        """Return float64 [n]: the logits of `states` [n, width] at the read-out and layer."""
        return as_array(states) @ np.array(self.weights) + self.bias

    def score(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        rows: Rows,
        *,
        source: object = TABLE,
        batch_tokens: int | None = None,
    ) -> pd.DataFrame:
        """Predict the probability that each answer is wrong.

        Args:
            model: The model that the detector was made for.
            tokenizer: Its tokenizer.
            rows: Each has a `question`, a `response` unless the model is to answer, and `subject`,
                `property` and `relation` if known. Labels and gold answers change no score.
            source: Name of the rows in error messages.
            batch_tokens: Most tokens in a batch. The default depends on the device.

        Returns:
            A row of `COLUMNS` for each of `rows`, in the same order. `p_wrong` assumes the share
            of wrong answers in the pool. `p_balanced` assumes that half of all answers are wrong.
            Both are blank if the answer was dropped. `dropped` then holds the reason.

        Raises:
            AnchorscopeError: The model, tokenizer or chat template is not the detector's, or the
                rows cannot be read.
        """
        given = checked(rows, source)
        loaded = loading.wrapped(model, tokenizer, batch_tokens=batch_tokens)
        self._check_model(loaded)
        table = self._scored(loaded, given, source)
        logits = table["logit"].to_numpy(dtype=np.float64)
        shift = prior(self.n_wrong, self.n - self.n_wrong)
        p = {"p_wrong": sigmoid(logits), "p_balanced": sigmoid(logits - shift)}
        return table.assign(**p)[list(COLUMNS)]

    def inputs(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        rows: Rows,
        *,
        source: object = TABLE,
    ) -> pd.DataFrame:
        """Return what another engine must pass, so that `logits` can score its hidden states.

        Args:
            model: Asked for its sizes only, so its weights may be on torch's device `meta`.
            tokenizer: The model's tokenizer.
            rows: As in `score`; each has a `response`.
            source: Name of the rows in error messages.

        Returns:
            A row for each of `rows`, in the same order: `id`, `question`, `response`, `ea_text`,
            `dropped`, and `input_ids`. A read-out such as `resid/final` is the state of the last of
            these tokens. Dropped answers have none.

        Raises:
            AnchorscopeError: A row has no response, or the rows cannot be read.
        """
        given = checked(rows, source)
        if silent := sum(not isinstance(row.get("response"), str) for row in given):
            what, do = f"{silent} of {len(given)} rows have no `response`", "add the answers"
            raise AnchorscopeError(what, source, do, see="empty-response")
        parts, window = families.find(model, "model"), families.window(model.config)
        loaded = families.Loaded(model, tokenizer, parts, window, families.device_of(model))
        answers = self._answered(loaded, given, source)
        return as_given(answers, given, "input_ids")

    def save(self, folder: str | Path) -> None:
        """Write `FILE`, `WEIGHTS` and `CARD` to a folder, which is created if necessary."""
        folder, said = Path(folder), asdict(self)
        arrays = {name: np.array(said.pop(name), dtype=np.float64) for name in ("weights", "bias")}
        write_json(said, folder / FILE)
        with atomic(folder / WEIGHTS) as draft:
            save_file(arrays, draft)
        with atomic(folder / CARD) as draft:
            draft.write_text(card.text(self), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a detector from its folder. Warn once if its probe was not shown to detect.

        Raises:
            AnchorscopeError: The folder holds no detector.
        """
        folder = Path(folder)
        try:
            said = json.loads((folder / FILE).read_bytes())
            said |= {name: array.tolist() for name, array in load_file(folder / WEIGHTS).items()}
            detector: Self = TypeAdapter(cls).validate_python(said)
            if (verdict := detector.table.get("signal", "yes")) != "yes":
                what = "this detector was not shown to beat a model of the text (signal: %s)"
                log.warning(f"%s: {what}", folder, verdict)
            return detector
        except ValidationError as error:
            first = error.errors()[0]
            why = " ".join([*map(str, first["loc"]), first["msg"]])
        except (OSError, ValueError, TypeError, SafetensorError) as error:
            why = str(error)
        what, do = f"not a detector: {why}", "name a folder that the target `detectors` wrote"
        raise AnchorscopeError(what, folder, do, see="detector")

    def _check_model(self, loaded: Loaded) -> None:
        """Refuse a model, tokenizer or chat template that changes the references' logits."""
        shape = shape_of(loaded.model.config.to_dict(), "the model")
        if shape != self.origin.shape:
            why = f"{_named(shape)}, not {_named(self.origin.shape)}"
        else:
            rows = [reference.row for reference in self.references]
            found = self._scored(loaded, rows, "the detector's references")["logit"]
            wanted = np.array([reference.logit for reference in self.references])
            # If no reference can be read, the median is NaN and this comparison is false.
            if np.abs(found - wanted).median() <= TOLERANCE * wanted.std():
                return
            why = "the answers stored in the detector get different scores"
        what = f"the model, tokenizer or chat template is not the detector's: {why}"
        do = f"use the detector's ({self.origin.model}), or make a detector for this model"
        raise AnchorscopeError(what, "model", do, see="detector")

    def _scored(
        self, loaded: Loaded, given: Sequence[Mapping[str, Any]], source: object
    ) -> pd.DataFrame:
        """Return a row of `COLUMNS` for each of `given`, with `logit` in place of probabilities."""
        answers = self._answered(loaded, given, source)
        return as_given(answers.assign(logit=self._logits(loaded, answers)), given, "logit")

    def _answered(
        self, loaded: Loaded, given: Sequence[Mapping[str, Any]], source: object
    ) -> pd.DataFrame:
        """Return the answers table of `given`. The id of an answer is the number of its row."""
        origin = self.origin
        chosen = settings_of(origin.settings, origin.settings.keys(), "score")
        numbered = [{**row, "id": f"{number:09}"} for number, row in enumerate(given)]
        asked = ask(numbered, "plain", 0, source=source, unlabelled=True)
        _, answers = answer(
            loaded, asked, chosen, style=origin.style, around=dict(origin.around), unlabelled=True
        )
        return answers

    def _logits(self, loaded: Loaded, answers: pd.DataFrame) -> np.ndarray:
        """Return float64 [n]: the logit of each answer, or NaN if the answer was dropped."""
        logits = np.full(len(answers), np.nan)
        usable = np.flatnonzero(answers["dropped"].isna())
        for rows, states in clean_states(loaded, answers.iloc[usable], self.readout):
            logits[usable[rows]] = self.logits(states[:, self.layer])
        return logits


load = Detector.load


def clean_states(
    loaded: Loaded, answers: pd.DataFrame, readout: str
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Pass the answers, and yield the row numbers of each batch and its states at a read-out.

    States are [rows, layers, width].
    """
    samples = [planning.sample_of(row) for row in answers.to_dict("records")]
    plan = arrange(samples, on({}), batch_tokens=loaded.batch_tokens)
    for batch, states in runner.measure(loaded, plan, [readout]):
        yield list(batch.samples), states[tensor_name("clean", readout)]


def shape_of(config: Mapping[str, Any], where: object) -> tuple[str, int, int]:
    """Return (family, number of layers, width) of a `config`, or raise as `families.sizes` does."""
    return families.text_config(config, where).model_type, *families.sizes(config, where)


def _named(shape: tuple[str, int, int]) -> str:
    return f"a {shape[0]} with {shape[1]} layers of width {shape[2]}"
