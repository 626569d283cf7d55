"""A detector to use: linear in hidden states, bound to a model and its prompt, in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from anchorscope import __version__
from anchorscope.detectors.linear import LinearScorer, as_array
from anchorscope.detectors.saved import card
from anchorscope.detectors.saved.binding import Binding
from anchorscope.models.rows import TABLE
from anchorscope.probes.samples import sigmoid
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.files import atomic

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.detectors.saved.evidence import Evaluation
    from anchorscope.models.rows import Rows

FORMAT = 4
"""Version of the folder's format; raise it when files or keys change."""
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
PATHWAY = "pathway"
COLUMNS = (
    "id", "question", "response", "question_anchor", "answer_anchor", "p_wrong", "p_balanced",
    "pathway", "p_question", "dropped",
)  # fmt: skip
"""Columns of `Detector.score`, see docs/figures.md#using-the-result."""


@dataclass(frozen=True)
class Detector:
    """What scores answers of one model.

    Attributes:
        binding: the model, tokenizer and prompt style that it was fitted to.
        prompting: how a question is asked, as config.json has it: `around`, the text around the
            questions of each relation, worked examples included; and the `settings` that decide
            prompts and anchors.
        method: of the registry.
        scorers: its own, and the variant of the residual stream, where that is another.
        pathway: a scorer of whether the question decides the verdict; None if too few do, or not.
        report: what it was fitted to, and its quality out of fold, see `evidence`.
        trained_on: hashes of the questions and subjects that it was fitted to.
        source: the model's `name` and `revision`, as far as known.
    """

    binding: Binding
    prompting: Mapping[str, Any]
    method: str
    scorers: tuple[LinearScorer, ...]
    pathway: LinearScorer | None
    report: Mapping[str, Any]
    trained_on: frozenset[int]
    source: Mapping[str, str | None]

    def scorer_of(self, readout: str | None = None) -> LinearScorer:
        """The scorer of a read-out, by default its own.

        Raises AnchorscopeError: it has none.
        """
        if readout is None:
            return self.scorers[0]
        by_name = {one.readout: one for one in self.scorers}
        if readout in by_name:
            return by_name[readout]
        what = f"the detector reads {', '.join(by_name)}, not {readout}"
        do = nearest(readout, by_name, "fit a detector of that read-out")
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")

    def probabilities(self, logits: np.ndarray) -> pd.DataFrame:
        """`p_wrong` at the share of wrong answers it was fitted to; `p_balanced` at one half."""
        wrong = self.report["n_wrong"]
        balanced = logits - np.log(wrong / (self.report["n"] - wrong))
        return pd.DataFrame({"p_wrong": sigmoid(logits), "p_balanced": sigmoid(balanced)})

    def score(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        rows: Rows,
        *,
        readout: str | None = None,
        source: object = TABLE,
        batch_tokens: int | None = None,
    ) -> pd.DataFrame:
        """How likely each answer is wrong: a row for each row given, in its order.

        Args:
            model, tokenizer: those that it was fitted to.
            rows: `question`, and `response` where the model does not answer itself; what is known
                of `subject` and `property`. No gold answers are needed, nor read.
            readout: `resid/final` for the variant of the residual stream.
            source: what errors call the rows.
            batch_tokens: most tokens in a batch.

        Returns:
            The columns `COLUMNS`; blank scores where a row has a reason in `dropped`.

        Raises:
            AnchorscopeError: another model, tokenizer, template or read-out than its own; rows that
                cannot be read.
        """
        from anchorscope.detectors.saved.reading import scored

        of_model = self, model, tokenizer, rows
        return scored(*of_model, readout, source, batch_tokens)[list(COLUMNS)]

    def evaluate(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        rows: Rows,
        *,
        readout: str | None = None,
        source: object = TABLE,
        batch_tokens: int | None = None,
    ) -> Evaluation:
        """How good it is on labelled rows, see `evidence.evaluate`; rows as for `fit`.

        Other arguments and errors as of `score`; and raises AnchorscopeError: answers of one class.
        """
        from anchorscope.detectors.saved.evidence import evaluate
        from anchorscope.detectors.saved.reading import scored

        table = scored(self, model, tokenizer, rows, readout, source, batch_tokens)
        return evaluate(table, self.scorer_of(readout).readout, self.trained_on, source)

    def score_states(
        self, states: np.ndarray | torch.Tensor, readout: str | None = None
    ) -> pd.DataFrame:
        """Probabilities from hidden states [n, width] that another program read.

        The states are those of the layer of `scorer_of(readout)`, by default of the variant of the
        residual stream, where the card says: of `resid/final` the output of that block,
        `hidden_states[layer + 1]` in transformers, at the closing token after the exact answer. Of
        several layers, [n, layers, width]. The columns are `p_wrong` and `p_balanced`.

        Raises AnchorscopeError: states of another shape, or not finite.
        """
        scorer = self.scorer_of(readout) if readout else self.scorers[-1]
        where, array = f"read-out {scorer.readout}", as_array(states)
        of_one = scorer.weights.shape if len(scorer.layers) > 1 else scorer.weights.shape[1:]
        if array.shape[1:] != of_one or not array.ndim:
            wanted = ", ".join(map(str, of_one))
            what = f"states of the shape {list(array.shape)}, not [n, {wanted}]"
            do = f"give [{wanted}] numbers for each answer, of {card.layers_of(scorer.layers)}"
            raise AnchorscopeError(what, where, do, see="detector")
        if not np.isfinite(array).all():
            what, do = "a hidden state is not finite", "read it again, in float32 or bfloat16"
            raise AnchorscopeError(what, where, do, see="not-finite")
        layers = array.reshape(len(array), *scorer.weights.shape).swapaxes(0, 1)
        return self.probabilities(scorer.of_states([*layers]))

    def save(self, folder: str | Path) -> None:
        """Write the folder, whole or not at all; one that is there is replaced.

        Raises AnchorscopeError: see `check_free`.
        """
        check_free(folder)
        named = {one.readout: one for one in self.scorers}
        named |= {PATHWAY: self.pathway} if self.pathway else {}
        entries = {name: _entry(name, one) for name, one in named.items()}
        config = {
            "format": FORMAT,
            "anchorscope": __version__,
            "model": dict(self.source),
            "binding": asdict(self.binding),
            "prompting": dict(self.prompting),
            "method": self.method,
            "scorers": [entries[one.readout] for one in self.scorers],
            "pathway": entries.get(PATHWAY),
            "report": dict(self.report),
        }
        arrays = {name: one.weights for name, one in named.items()}
        arrays["trained_on"] = np.array(sorted(self.trained_on), np.int64)
        with atomic(folder) as draft:
            draft.mkdir()
            save_file(arrays, draft / WEIGHTS)
            text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
            (draft / CONFIG).write_text(text, encoding="utf-8")
            (draft / CARD).write_text(card.text(config), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Detector:
        """Read the folder of a detector.

        Raises AnchorscopeError: a file is missing or cut short, or it is of another version.
        """
        try:
            config = json.loads((Path(folder) / CONFIG).read_text(encoding="utf-8"))
            _check_format(config, folder)
            with safe_open(Path(folder) / WEIGHTS, framework="np") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            binding = Binding(**config["binding"])
            return cls(
                binding,
                config["prompting"],
                config["method"],
                tuple(_scorer(one, arrays, binding) for one in config["scorers"]),
                config["pathway"] and _scorer(config["pathway"], arrays, binding),
                config["report"],
                frozenset(arrays["trained_on"].tolist()),
                config["model"],
            )
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            what = f"the detector cannot be read: {reason}"
            do = "copy the whole folder again, or fit the detector anew"
            raise AnchorscopeError(what, folder, do, see="detector") from None

    def __repr__(self) -> str:
        own, auc = self.scorers[0], card.shown(self.report["out_of_fold"]["probe"]["auroc"])
        name = card.name_of(self.source, self.binding.family)
        return (
            f"Detector of {name}: {self.method}, {own.readout}, {card.layers_of(own.layers)}; "
            f"AUROC out of fold {auc}, n = {self.report['n']:,}"
        )


load = Detector.load


def check_free(folder: str | Path) -> None:
    """Refuse a folder that saving would delete.

    Raises AnchorscopeError: it holds other files than a detector's, or is one.
    """
    place = Path(folder)
    in_use = place.is_file() or (place.is_dir() and any(place.iterdir()))
    if in_use and not (place / CONFIG).is_file():
        what = "this is not the folder of a detector but holds other files, which saving deletes"
        raise AnchorscopeError(what, folder, "name a folder of its own", see="detector")


def _entry(tensor: str, scorer: LinearScorer) -> dict[str, Any]:
    """What config.json says of a scorer beside its weights, the tensor of this name."""
    place = {"tensor": tensor, "readout": scorer.readout, "layers": list(scorer.layers)}
    return {**place, "bias": scorer.bias}


def _scorer(
    entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], binding: Binding
) -> LinearScorer:
    """The scorer of an entry of config.json.

    Raises ValueError: it is not of the layers or the width of the model that it is bound to.
    """
    layers, weights = tuple(entry["layers"]), arrays[entry["tensor"]]
    if weights.shape != (len(layers), binding.width) or max(layers) >= binding.layers:
        what = f"weights {list(weights.shape)} of {card.layers_of(layers)}"
        raise ValueError(f"{what}, for a model of {binding.layers} layers of width {binding.width}")
    return LinearScorer(entry["readout"], layers, weights, float(entry["bias"]))


def _check_format(config: Any, where: str | Path) -> None:
    """Refuse what is no config.json of a detector, or of another version of the format."""
    if not isinstance(config, dict) or "format" not in config:
        raise ValueError("config.json is not that of a detector")
    if config["format"] != FORMAT:
        what = f"the detector is of format {config['format']}, and this version reads {FORMAT}"
        do = f"use anchorscope {config.get('anchorscope')}, which wrote it, or fit it anew"
        raise AnchorscopeError(what, where, do, see="detector")
