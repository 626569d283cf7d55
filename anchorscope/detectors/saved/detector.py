"""A detector to use: a probe of one layer, bound to a model, tokenizer and prompt, in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from anchorscope import __version__
from anchorscope.detectors.saved import card
from anchorscope.detectors.saved.binding import RESIDUAL, Binding
from anchorscope.probes.samples import sigmoid
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.files import atomic
from anchorscope.styles import Around

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from anchorscope.detectors.saved.evaluating import Evaluation
    from anchorscope.models.rows import FieldNames, Rows

FORMAT = 3
"""Version of the folder's format; raise it when files or keys change."""
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
PATHWAY = "pathway"
NUMBERS = ("bias", "log_odds")
COLUMNS = (
    "id", "question", "response", "question_anchor", "answer_anchor", "p_wrong", "p_balanced",
    "pathway", "p_question", "dropped",
)  # fmt: skip
"""Columns of `Detector.score`, see docs/using-the-result.md."""


class How(TypedDict, total=False):
    """How rows are read and scored; all may be left out."""

    fields: FieldNames | None  # field → column, if they do not share names
    source: object  # what errors call the rows
    readout: str | None  # `resid/final` for the probe of the residual stream
    batch_tokens: int | None  # most tokens in a batch


@dataclass(frozen=True)
class LayerProbe:
    """What is saved of a calibrated probe, see `methods.probe.LinearScorer`. Needs no torch."""

    readout: str  # such as `mlp/final`
    layer: int  # from 0 on
    weights: np.ndarray  # for states as the model gives them, float32 [width]
    bias: float
    log_odds: float  # of the class among the training samples

    def logits(self, states: np.ndarray) -> np.ndarray:
        """Calibrated logits at the training samples' share, float64 [n], of states [n, width]."""
        return states.astype(np.float64) @ self.weights.astype(np.float64) + self.bias


@dataclass(frozen=True)
class Prompting:
    """How questions are put to the model."""

    around: Around  # the text around every question, worked examples included
    settings: Mapping[str, Any]  # keys of the config that decide prompts and anchors


@dataclass(frozen=True)
class Detector:
    """What scores answers of one model.

    Attributes:
        binding: the model, tokenizer and prompt style that it was fitted to.
        prompting: how a question is asked.
        probes: its own probe, and the one of `RESIDUAL` beside it.
        pathway: a probe of whether the question decides the verdict; None if too few do, or not.
        report: what it was fitted to, and its quality out of fold, see `training`.
        trained_on: hashes of the questions and subjects that it was fitted to.
        source: the model's name and revision, as far as known.
    """

    binding: Binding
    prompting: Prompting
    probes: tuple[LayerProbe, ...]
    pathway: LayerProbe | None
    report: Mapping[str, Any]
    trained_on: frozenset[int]
    source: Mapping[str, str | None]

    @property
    def readout(self) -> str:
        """Its own read-out."""
        return self.probes[0].readout

    def probe_of(self, readout: str | None = None) -> LayerProbe:
        """The probe of a read-out, by default its own.

        Raises AnchorscopeError: it has none.
        """
        by_name = {probe.readout: probe for probe in self.probes}
        if readout is None or readout in by_name:
            return by_name[readout or self.readout]
        what = f"the detector reads {', '.join(by_name)}, not {readout}"
        do = nearest(readout, by_name, "fit a detector of that read-out")
        raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")

    def score(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        rows: Rows,
        **how: Unpack[How],
    ) -> pd.DataFrame:
        """How likely each answer is wrong: a row for each row given, in its order.

        Args:
            model, tokenizer: those that it was fitted to.
            rows: `question`, and `response` where the model does not answer itself; what is known
                of `subject` and `property`. No gold answers are needed, nor read.
            how: see `How`.

        Returns:
            The columns `COLUMNS`; blank scores where a row has a reason in `dropped`.

        Raises:
            AnchorscopeError: another model, tokenizer, template or read-out than its own; rows that
                cannot be read.
        """
        from anchorscope.detectors.saved.reading import scored

        return scored(self, model, tokenizer, rows, **how)[list(COLUMNS)]

    def evaluate(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        rows: Rows,
        **how: Unpack[How],
    ) -> Evaluation:
        """How good it is on labelled rows, see `evaluating.evaluate`; rows as for `fit`."""
        from anchorscope.detectors.saved.evaluating import evaluate

        return evaluate(self, model, tokenizer, rows, **how)

    def score_states(
        self, states: np.ndarray | torch.Tensor, readout: str = RESIDUAL
    ) -> pd.DataFrame:
        """Probabilities from hidden states [n, width] that another program read.

        The states are those of `probe_of(readout).layer`, at the closing token after the exact
        answer: of `resid/final` the output of that block, `hidden_states[layer + 1]` in
        transformers. The columns are `p_wrong` and `p_balanced`.

        Raises AnchorscopeError: states of another shape, or not finite.
        """
        probe = self.probe_of(readout)
        array = _as_array(states)
        width = len(probe.weights)
        if array.ndim != 2 or array.shape[1] != width:
            what = f"states of the shape {list(array.shape)}, not [n, {width}]"
            do = f"give a row of {width} numbers for each answer, of layer {probe.layer}"
            raise AnchorscopeError(what, f"read-out {readout}", do, see="detector")
        if not np.isfinite(array).all():
            what, do = "a hidden state is not finite", "read it again, in float32 or bfloat16"
            raise AnchorscopeError(what, f"read-out {readout}", do, see="not-finite")
        return probabilities(probe, probe.logits(array))

    def save(self, folder: str | Path) -> None:
        """Write the folder, whole or not at all; one that is there is replaced."""
        folder = Path(folder)
        if folder.exists() and not (folder / CONFIG).is_file() and any(folder.iterdir()):
            what = "the folder holds other files, which saving would delete"
            raise AnchorscopeError(what, folder, "name a folder of its own", see="detector")
        with atomic(folder) as draft:
            draft.mkdir()
            save_file(self._arrays(), draft / WEIGHTS)
            text = json.dumps(self._config(), indent=2, ensure_ascii=False) + "\n"
            (draft / CONFIG).write_text(text, encoding="utf-8")
            (draft / CARD).write_text(card.text(self._config()), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Detector:
        """Read the folder of a detector.

        Raises AnchorscopeError: a file is missing or cut short, or it is of another version.
        """
        folder = Path(folder)
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise _broken(f"the folder holds no {name}", folder)
        config = _read_config(folder / CONFIG)
        with _whole(folder / WEIGHTS), safe_open(folder / WEIGHTS, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        try:
            binding = Binding(**config["binding"])
            probes = [_probe(entry, arrays, folder, binding) for entry in config["probes"]]
            pathway = config["pathway"] and _probe(config["pathway"], arrays, folder, binding)
            return cls(
                binding,
                _prompting(config["prompting"]),
                tuple(probes),
                pathway,
                config["report"],
                frozenset(arrays["trained_on"].tolist()),
                config["model"],
            )
        except (KeyError, TypeError) as error:
            what = f"a part of the detector is missing or of another kind: {error}"
            raise _broken(what, folder) from None

    def __repr__(self) -> str:
        own, auc = self.probes[0], self.report["out_of_fold"]["probe"]["auroc"]
        name = card.name_of(self.source, self.binding.family)
        return (
            f"Detector of {name}: {own.readout}, layer {own.layer}; AUROC out of fold "
            f"{auc['value']:.3f} [{auc['low']:.3f}, {auc['high']:.3f}], n = {self.report['n']:,}"
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        """Tensors by name: `<read-out>/weights`, `/bias`, …; `trained_on`."""
        named = {probe.readout: probe for probe in self.probes}
        named |= {PATHWAY: self.pathway} if self.pathway else {}
        arrays: dict[str, np.ndarray] = {"trained_on": np.array(sorted(self.trained_on), np.int64)}
        for name, probe in named.items():
            arrays[f"{name}/weights"] = np.ascontiguousarray(probe.weights, dtype=np.float32)
            for number in NUMBERS:
                arrays[f"{name}/{number}"] = np.array([getattr(probe, number)], dtype=np.float64)
        return arrays

    def _config(self) -> dict[str, Any]:
        """The content of config.json."""
        return {
            "format": FORMAT,
            "anchorscope": __version__,
            "model": dict(self.source),
            "binding": self.binding.as_dict(),
            "prompting": asdict(self.prompting),
            "position": "the closing token of the prompt style, put right after the exact answer",
            "probes": [_entry(probe.readout, probe) for probe in self.probes],
            "pathway": _entry(PATHWAY, self.pathway) if self.pathway else None,
            "report": dict(self.report),
        }


def load(folder: str | Path) -> Detector:
    """Read the folder of a detector, see `Detector.load`."""
    return Detector.load(folder)


def probabilities(probe: LayerProbe, logits: np.ndarray) -> pd.DataFrame:
    """`p_wrong` at the training samples' share of wrong answers; `p_balanced` at equal classes."""
    balanced = logits - probe.log_odds
    return pd.DataFrame({"p_wrong": sigmoid(logits), "p_balanced": sigmoid(balanced)})


def with_source(detector: Detector, name: str | None, revision: str | None = None) -> Detector:
    """The detector with the name of its model."""
    return replace(detector, source={"name": name, "revision": revision})


def _prompting(config: Mapping[str, Any]) -> Prompting:
    """What config.json says of the prompts."""
    return Prompting(Around(**config["around"]), config["settings"])


def _entry(tensors: str, probe: LayerProbe) -> dict[str, Any]:
    """What config.json says of a probe, whose tensors' names begin with `tensors`."""
    numbers = {name: getattr(probe, name) for name in NUMBERS}
    place = {"tensors": tensors, "readout": probe.readout, "layer": probe.layer}
    return {**place, "width": len(probe.weights), **numbers}


def _probe(
    entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], folder: Path, binding: Binding
) -> LayerProbe:
    """The probe of an entry of config.json, its tensors checked."""
    name = entry["tensors"]
    shapes = {"weights": (entry["width"],), **dict.fromkeys(NUMBERS, (1,))}
    for part, shape in shapes.items():
        if arrays[f"{name}/{part}"].shape != shape:
            what = f"`{name}/{part}` has the shape {list(arrays[f'{name}/{part}'].shape)}"
            raise _broken(f"{what}, not {list(shape)}", folder / WEIGHTS)
    if not 0 <= entry["layer"] < binding.layers:
        what = f"layer {entry['layer']} of a model of {binding.layers} layers"
        raise _broken(what, folder / CONFIG)
    numbers = {number: float(arrays[f"{name}/{number}"][0]) for number in NUMBERS}
    return LayerProbe(entry["readout"], entry["layer"], arrays[f"{name}/weights"], **numbers)


def _read_config(path: Path) -> dict[str, Any]:
    """The content of config.json, of this version of the format."""
    with _whole(path):
        config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict) or "format" not in config:
        raise _broken("config.json is not that of a detector", path)
    if config["format"] != FORMAT:
        what = f"the detector is of format {config['format']}, and this version reads {FORMAT}"
        do = f"use anchorscope {config.get('anchorscope')}, which wrote it, or fit it anew"
        raise AnchorscopeError(what, path, do, see="detector")
    return config


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Turn what reading a file cut short raises into an AnchorscopeError."""
    try:
        yield
    except (SafetensorError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _broken(f"the file cannot be read: {reason}", path) from None


def _broken(what: str, where: Path) -> AnchorscopeError:
    do = "copy the whole folder again, or fit the detector anew"
    return AnchorscopeError(what, where, do, see="detector")


def _as_array(states: Sequence[Any] | np.ndarray | torch.Tensor) -> np.ndarray:
    """States as float64, whatever holds them."""
    if hasattr(states, "detach"):  # a tensor of torch, maybe bfloat16 on a GPU
        states = states.detach().double().cpu().numpy()
    return np.asarray(states, dtype=np.float64)
