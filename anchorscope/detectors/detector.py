"""A detector of wrong answers: a probe of one layer, for one model and one prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from anchorscope.detectors.method import as_array
from anchorscope.models import families, loading
from anchorscope.models.rows import TABLE, Rows, answer, as_list, ask, settings_of
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.interventions import on, tensor_name
from anchorscope.probes.platt import prior
from anchorscope.probes.samples import layer_of_fold, median_layer, sigmoid
from anchorscope.questions.questions import folded_text
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_json
from anchorscope.styles import Around

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded
    from anchorscope.passes.features import Features
    from anchorscope.probes.fitting import Fitted

FILE = "detector.json"
COLUMNS = ("id", "question", "response", "ea_text", "p_wrong", "p_balanced", "dropped")
"""Columns of `Detector.score`, see docs/figures.md#using-the-result."""
TOLERANCE = 0.1
"""Maximum median change of the references' logits, as a share of their standard deviation."""
REFERENCES = 8
"""Number of answers whose logits a detector stores, to recognise its model."""
FIELDS = {"answer": "response"} | {
    name: name for name in ("question", "subject", "property", "relation")
}
"""Column of a table of answers → field of a row that `Detector.score` takes."""


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
    as in training (`n_wrong` / `n`).
    """

    origin: Origin
    readout: str  # such as `mlp/final`
    layer: int
    weights: tuple[float, ...]  # [width]
    bias: float
    n: int  # answers that the probes were fitted to
    n_wrong: int
    references: tuple[Reference, ...]

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
            of wrong answers in training. `p_balanced` assumes that half of all answers are wrong.
            Both are blank if the answer was dropped. `dropped` then holds the reason.

        Raises:
            AnchorscopeError: The model, tokenizer or chat template is not the detector's, or the
                rows cannot be read.
        """
        loaded = loading.wrapped(model, tokenizer, batch_tokens=batch_tokens)
        self._check_model(loaded)
        table = self._scored(loaded, as_list(rows), source)
        logits = table["logit"].to_numpy(dtype=np.float64)
        shift = prior(self.n_wrong, self.n - self.n_wrong)
        p = {"p_wrong": sigmoid(logits), "p_balanced": sigmoid(logits - shift)}
        return table.assign(**p)[list(COLUMNS)]

    def save(self, folder: str | Path) -> None:
        """Write `FILE` to a folder, which is created if necessary."""
        write_json(asdict(self), Path(folder) / FILE)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a detector from its folder.

        Raises:
            AnchorscopeError: The folder holds no detector.
        """
        try:
            return TypeAdapter(cls).validate_json((Path(folder) / FILE).read_bytes())
        except OSError as error:
            why = str(error)
        except ValidationError as error:
            first = error.errors()[0]
            why = " ".join([*map(str, first["loc"]), first["msg"]])
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
        origin = self.origin
        chosen = settings_of(origin.settings, frozenset(origin.settings), "score")
        numbered = [{**row, "id": f"{number:09}"} for number, row in enumerate(given)]
        asked = ask(numbered, "plain", 0, source=source, unlabelled=True)
        _, answers = answer(
            loaded, asked, chosen, style=origin.style, around=dict(origin.around), unlabelled=True
        )
        return _as_given(answers.assign(logit=self._logits(loaded, answers)), given)

    def _logits(self, loaded: Loaded, answers: pd.DataFrame) -> np.ndarray:
        """Return float64 [n]: the logit of each answer, or NaN if the answer was dropped."""
        logits = pd.Series(np.nan, index=answers["id"])
        usable = answers[answers["dropped"].isna()]
        if len(usable):
            samples = [planning.sample_of(row) for row in usable.to_dict("records")]
            plan = arrange(samples, on({}), batch_tokens=loaded.batch_tokens)
            name = tensor_name("clean", self.readout)
            for batch, states in runner.measure(loaded, plan, [self.readout]):
                ids = [samples[number].id for number in batch.samples]
                logits[ids] = self.logits(states[name][:, self.layer])
        return logits.to_numpy()


load = Detector.load


def shape_of(config: Mapping[str, Any], where: object) -> tuple[str, int, int]:
    """Return (family, number of layers, width) of a `config`, or raise as `families.sizes` does."""
    return families.text_config(config, where).model_type, *families.sizes(config, where)


def _named(shape: tuple[str, int, int]) -> str:
    return f"a {shape[0]} with {shape[1]} layers of width {shape[2]}"


def _as_given(answers: pd.DataFrame, given: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a row for each of `given`. Rows with the same question and response share an answer.

    Each id in `answers` is the number of a row of `given`.
    """
    rows = pd.DataFrame(list(given)).reindex(columns=["id", "question", "response"])
    texts = rows[["question", "response"]].astype(object).fillna("").astype(str)
    keys = [texts["question"].map(folded_text), texts["response"].str.strip()]
    numbers = pd.Series([f"{number:09}" for number in range(len(rows))])
    found = answers.set_index("id").reindex(numbers.groupby(keys).transform("first"))
    found = found.reset_index(drop=True)
    asked = found["question"].notna()
    return rows.assign(
        id=rows["id"].where(rows["id"].notna(), pd.Series(range(1, len(rows) + 1))).astype(str),
        response=found["answer"].where(found["answer"].notna(), rows["response"]),
        ea_text=found["ea_text"],
        dropped=found["dropped"].where(asked, "no question"),
        logit=found["logit"].astype(float),
    )


def export(
    fitted: Fitted, readout: str, answers: pd.DataFrame, states: Features, origin: Origin
) -> Detector:
    """Make the detector of the headline layer: the average of all folds' calibrated probes.

    The probes were fitted to `answers`. `states` are the clean states, [layers, n, width].

    Raises:
        AnchorscopeError: The probes are not calibrated.
    """
    if np.isnan(fitted.inner_auc).any():
        what, do = "the probes are not calibrated", "set `probe.scoring` to `calibrated`"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    layer = median_layer(layer_of_fold(fitted.inner_auc))
    slope, offset = fitted.t[layer], fitted.offset[layer]
    weights, bias = (
        array[layer].double().cpu().numpy() for array in (fitted.probes.weights, fitted.probes.bias)
    )
    detector = Detector(
        origin,
        readout,
        layer,
        weights=tuple((slope @ weights / len(slope)).tolist()),
        bias=float(np.mean(slope * bias + offset)),
        n=len(answers),
        n_wrong=int(answers["label"].sum()),
        references=(),
    )
    some = np.linspace(0, len(answers) - 1, REFERENCES).astype(int)
    logits = detector.logits(states[layer : layer + 1][0][some])
    said = answers.iloc[some][list(FIELDS)].rename(columns=FIELDS).astype(object)
    rows: list[dict[Any, Any]] = said.where(said.notna(), None).to_dict("records")
    return replace(detector, references=tuple(map(Reference, rows, logits.tolist())))
