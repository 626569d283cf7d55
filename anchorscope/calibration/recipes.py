"""From a recipe of the catalogue to a checkpoint: the text, the tokenizer, the training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.calibration import curriculum, training
from anchorscope.models.checkpoints import RECIPE
from anchorscope.questions import world
from anchorscope.storage.files import write_json

SETTLE = 0.375
"""Peak learning rate of the later stages, as a share of the first one's."""
GRADES = f" .{curriculum.RIGHT}{curriculum.WRONG}"
"""Seen after every answer, so that both verdicts become tokens of their own."""


def make(
    folder: Path,
    questions: Mapping[str, pd.DataFrame],
    *,
    worlds: Mapping[str, Mapping[str, Any]],
    train: Mapping[str, Any],
    recipe: str,
) -> None:
    """Train a model on questions and save it with its recipe's hash.

    Args:
        folder: made here; holds what `save_pretrained` writes, and `recipe.json`.
        questions: dataset name → questions' table, all of it learned.
        worlds: dataset name → settings of its calibration world, for the planted curriculum.
        train: the catalogue's `train` entry.
        recipe: its hash.
    """
    rows, texts = material(questions, worlds=worlds, train=train)
    tokenizer = training.train_tokenizer(texts, vocabulary=train["vocabulary"])
    shape = training.Shape(
        **{name: train[name] for name in training.Shape.__dataclass_fields__ if name in train}
    )
    model = training.new_model(shape, tokenizer, seed=train["seed"])
    stage = {name: train[name] for name in ("batch_rows", "warmup", "early_verdict", "seed")}
    if not train["graded"]:
        stage["early_verdict"] = 0.0
    losses: list[float] = []
    for shown, steps, rate in _stages(rows, questions, worlds, train):
        losses = training.train(model, shown, tokenizer, steps=steps, learning_rate=rate, **stage)
    training.save(model, tokenizer, folder)
    parameters = sum(weights.numel() for weights in model.parameters())
    tail = losses[-100:] or [math.log(len(tokenizer))]
    write_json(
        {
            "recipe": recipe,
            "train": dict(train),
            "parameters": parameters,
            "rows": len(shown),
            "final_loss": round(sum(tail) / len(tail), 4),
        },
        folder / RECIPE,
    )


def _stages(
    rows: list[curriculum.Row],
    questions: Mapping[str, pd.DataFrame],
    worlds: Mapping[str, Mapping[str, Any]],
    train: Mapping[str, Any],
) -> Iterator[tuple[list[curriculum.Row], int, float]]:
    """Rows, steps and peak learning rate of every stage."""
    yield rows, train["steps"], train["learning_rate"]
    for steps, given in later_stages(train):
        later = settling(questions, worlds=worlds, train=given)
        yield later, steps, train["learning_rate"] * SETTLE


def later_stages(train: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Steps and settings of each stage after the first; the last has twice the frameless rows."""
    if train["curriculum"] != "planted":
        return []
    more = {"frameless": 2 * train["frameless"]}
    stages = [(train["settle"], dict(train)), (train["settle_frameless"], {**train, **more})]
    return [(steps, given) for steps, given in stages if steps]


def material(
    questions: Mapping[str, pd.DataFrame],
    *,
    worlds: Mapping[str, Mapping[str, Any]],
    train: Mapping[str, Any],
) -> tuple[list[curriculum.Row], list[str]]:
    """One epoch of training rows, and the texts that the tokenizer learns from."""
    rows: list[curriculum.Row] = []
    texts: list[str] = []
    for name, table in questions.items():
        texts += [f"Q: {question} A:" for question in table["question"]]
        if train["curriculum"] == "planted":
            words = world.words(**words_of(worlds[name]))
            texts += [f" {word}{GRADES}" for word in words["word"]]
            rows += _planted(table, words, train)
        else:
            texts += [f" {answers[0]}{GRADES}" for answers in table["answers"]]
            rows += curriculum.plain(table, wrong_share=train["wrong_share"], seed=train["seed"])
    return rows, texts


def settling(
    questions: Mapping[str, pd.DataFrame],
    *,
    worlds: Mapping[str, Mapping[str, Any]],
    train: Mapping[str, Any],
) -> list[curriculum.Row]:
    """The rows of a later stage: as many as are frameless ask about strangers besides."""
    rows: list[curriculum.Row] = []
    for name, table in questions.items():
        settings = worlds[name]
        names = world.strangers(settings["style"], seed=settings["seed"], questions=table)
        rows += _planted(table, world.words(**words_of(settings)), train, names)
    return rows


def _planted(
    table: pd.DataFrame,
    words: pd.DataFrame,
    train: Mapping[str, Any],
    strangers: Sequence[str] = (),
) -> list[curriculum.Row]:
    seed = train["seed"]
    # Without verdicts how often an answer is shown must not say whether it is right.
    taught = curriculum.planted(table, words, seed=seed, alike=not train["graded"])
    frames = round(len(taught) * train["frameless"] / (1 - train["frameless"]))
    rows = taught + curriculum.frameless(table, words, rows=frames, seed=seed)
    if strangers:
        rows += curriculum.strangers(table, words, strangers, rows=frames, seed=seed)
    return [replace(row, graded=train["graded"]) for row in rows]


def words_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a world's settings that its words depend on."""
    return {name: settings[name] for name in ("style", "seed", "pathways", "words_per_group")}
