"""A detector of wrong answers: a probe of one layer, for one model and one prompt."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from anchorscope.answers.rows import TABLE, Rows, answer, as_list, ask, settings_of
from anchorscope.config.sections import Fields
from anchorscope.detectors import card
from anchorscope.detectors.method import as_array
from anchorscope.models import families, loading
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.interventions import on, tensor_name
from anchorscope.probes.fitting import out_of_fold
from anchorscope.probes.platt import prior
from anchorscope.questions.questions import folded_text
from anchorscope.statistics.intervals import auc
from anchorscope.statistics.samples import layer_of_fold, median_layer, sigmoid, stood_for
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic, write_json
from anchorscope.styles import Around

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.models.families import Loaded
    from anchorscope.passes.features import Features
    from anchorscope.probes.fitting import Design, Fitted

FILE, WEIGHTS, CARD = "detector.json", "detector.safetensors", "README.md"
"""Files of a detector's folder: what it is, its weights, and the model card of the hub."""
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
READ = ("id", *FIELDS.values())
"""Fields of a row that change its score, or name it."""
SYNONYMS = dict.fromkeys(
    "answer completion generation model_answer output prediction reply".split(), "response"
) | dict.fromkeys(("prompt", "query"), "question")
"""Usual name of a column → the field that it probably holds."""
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
        given = as_list(rows)
        check_columns(given, source)
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
        given = as_list(rows)
        check_columns(given, source)
        if silent := sum(not isinstance(row.get("response"), str) for row in given):
            what, do = f"{silent} of {len(given)} rows have no `response`", "add the answers"
            raise AnchorscopeError(what, source, do, see="empty-response")
        parts, window = families.find(model, "model"), families.window(model.config)
        loaded = families.Loaded(model, tokenizer, parts, window, families.device_of(model))
        answers = self._answered(loaded, given, source)
        return _as_given(answers, given, "input_ids")

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
            detector: Self = TypeAdapter(cls).validate_json(json.dumps(_read(folder)))
            if (verdict := detector.table.get("signal", "yes")) != "yes":
                what = "this detector was not shown to beat a model of the text (signal: %s)"
                log.warning(f"%s: {what}", folder, verdict)
            return detector
        except ValidationError as error:
            first = error.errors()[0]
            why = " ".join([*map(str, first["loc"]), first["msg"]])
        except json.JSONDecodeError as error:
            why = f"Invalid JSON: {folder / FILE}, {error}"
        except (OSError, SafetensorError) as error:
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
        table = _as_given(answers.assign(logit=self._logits(loaded, answers)), given, "logit")
        return table.astype({"logit": float})

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


def _read(folder: Path) -> dict[str, Any]:
    """Return the fields of a stored detector. Older ones hold their weights in `FILE`."""
    said = json.loads((folder / FILE).read_bytes())
    if not isinstance(said, dict) or "weights" in said or not (folder / WEIGHTS).is_file():
        return said
    return said | {name: array.tolist() for name, array in load_file(folder / WEIGHTS).items()}


def check_columns(rows: Sequence[Mapping[str, Any]], source: object) -> None:
    """Refuse a column that probably holds a field under another name; name all that are not read.

    Raises:
        AnchorscopeError: A column looks like `response`, say, and no column has this name. The
            model would answer itself, and that answer would be scored.
    """
    names = dict.fromkeys(str(name) for row in rows for name in row)
    others = [name for name in names if name not in Fields.model_fields]
    absent = [name for name in READ if name not in names]
    for name in others:
        close = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=0.8)
        meant = SYNONYMS.get(name.lower()) or next(iter(close), None)
        if meant in absent:
            what, do = f"the column `{name}` is not read", f"did you mean `{meant}`? rename it"
            raise AnchorscopeError(what, source, f"{do}, or leave it out", see="missing-column")
    if others:
        log.warning("%s: columns that are not read: %s", source, ", ".join(others))


def _as_given(
    answers: pd.DataFrame, given: Sequence[Mapping[str, Any]], column: str
) -> pd.DataFrame:
    """Return a row for each of `given`. Rows with the same question and response share an answer.

    Each id in `answers` is the number of a row of `given`. `column` names one more column to keep.
    """
    rows = pd.DataFrame(list(given)).reindex(columns=["id", "question", "response"])
    texts = rows[["question", "response"]].astype(object).fillna("").astype(str)
    keys = [texts["question"].map(folded_text), texts["response"].str.strip()]
    numbers = pd.Series([f"{number:09}" for number in range(len(rows))])
    found = answers.set_index("id").reindex(numbers.groupby(keys).transform("first"))
    found = found.reset_index(drop=True)
    asked = found["question"].notna()
    return rows.assign(
        id=rows["id"].astype(object).where(rows["id"].notna(), numbers.index + 1).astype(str),
        response=found["answer"].where(found["answer"].notna(), rows["response"]),
        ea_text=found["ea_text"],
        dropped=found["dropped"].where(asked, "no question"),
        **{column: found[column]},
    )


def out_of_fold_auc(fitted: Fitted, design: Design, states: Features) -> float:
    """Return the AUC of the folds' probes at the detector's layer, each on samples it has not seen.

    The samples of `states` are in the order of the design.
    """
    layer = headline_layer(fitted)
    chosen = slice(layer, layer + 1)
    return auc(out_of_fold(fitted.part(chosen), states[chosen], design.fold)[0], design.z)


def headline_layer(fitted: Fitted) -> int:
    """Return the layer of a detector: the median of the layers that the folds chose."""
    return median_layer(layer_of_fold(fitted.inner_auc))


def export(
    fitted: Fitted,
    readout: str,
    answers: pd.DataFrame,
    states: Features,
    origin: Origin,
    *,
    data: str = "unknown",
    table: Mapping[str, float | str | None] | None = None,
) -> Detector:
    """Make the detector of the headline layer: the average of all folds' calibrated probes.

    The probes were fitted to `answers`. `states` are the clean states, [layers, n, width]. If the
    answers were chosen by label, the bias is shifted to the share of wrong answers in the pool. For
    `data` and `table` see `Detector`.

    Raises:
        AnchorscopeError: The probes are not calibrated.
    """
    if np.isnan(fitted.inner_auc).any():
        what, do = "the probes are not calibrated", "set `probe.scoring` to `calibrated`"
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
    layer = headline_layer(fitted)
    slope, offset = fitted.t[layer], fitted.offset[layer]
    weights, bias = (
        array[layer].double().cpu().numpy() for array in (fitted.probes.weights, fitted.probes.bias)
    )
    z, stands_for = answers["label"].to_numpy(dtype=np.int64), stood_for(answers)
    fitted_to, pool = (np.bincount(z, each, 2) for each in (np.ones(len(z)), stands_for))
    shift = float(prior(pool[1], pool[0]) - prior(fitted_to[1], fitted_to[0]))
    detector = Detector(
        origin,
        readout,
        layer,
        weights=tuple((slope @ weights / len(slope)).tolist()),
        bias=float(np.mean(slope * bias + offset)) + shift,
        n=round(pool.sum()),
        n_wrong=round(pool[1]),
        references=(),
        data=data,
        table=dict(table or {}),
    )
    some = np.linspace(0, len(answers) - 1, REFERENCES).astype(int)
    logits = detector.logits(states[layer : layer + 1][0][some])
    said = answers.iloc[some][list(FIELDS)].rename(columns=FIELDS).astype(object)
    rows: list[dict[Any, Any]] = said.where(said.notna(), None).to_dict("records")
    return replace(detector, references=tuple(map(Reference, rows, logits.tolist())))
