"""From a recipe of the catalogue to a checkpoint: the text, the tokenizer, the training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.calibration import curriculum, training
from anchorscope.models.loading import RECIPE
from anchorscope.questions import world
from anchorscope.storage.files import write_json

SETTLE = 0.375
"""Peak learning rate of the later stages, as a share of the first one's."""
GRADES = f" .{curriculum.RIGHT}{curriculum.WRONG}"
"""Seen after every answer, so that both verdicts become tokens of their own."""

Questions = Mapping[str, pd.DataFrame]
"""Dataset name → questions' table, all of it learned."""
Worlds = Mapping[str, Mapping[str, Any]]
"""Dataset name → settings of its calibration world, for the planted curriculum."""


def make(
    folder: Path, questions: Questions, *, worlds: Worlds, train: Mapping[str, Any], recipe: str
) -> None:
    """Train a model on questions as the catalogue's `train` entry says, and save it.

    The folder is made here; it holds what `save_pretrained` writes, and `recipe.json` with the
    recipe's hash.
    """
    seen = texts(questions, worlds, train)
    tokenizer = training.train_tokenizer(seen, vocabulary=train["vocabulary"])
    model = training.new_model(train, tokenizer, seed=train["seed"])
    settings = {name: train[name] for name in ("batch_rows", "warmup", "seed")}
    settings["early_verdict"] = train["early_verdict"] if train["graded"] else 0.0
    losses: list[float] = []
    for rows, steps, rate in stages(questions, worlds, train):
        losses = training.train(model, rows, tokenizer, steps=steps, learning_rate=rate, **settings)
    model.eval().save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    tail = losses[-100:] or [math.log(len(tokenizer))]
    written = {
        "recipe": recipe,
        "train": dict(train),
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "rows": len(rows),
        "final_loss": round(sum(tail) / len(tail), 4),
    }
    write_json(written, folder / RECIPE)


def texts(questions: Questions, worlds: Worlds, train: Mapping[str, Any]) -> list[str]:
    """What the tokenizer learns from."""
    found: list[str] = []
    for name, table in questions.items():
        found += [f"Q: {question} A:" for question in table["question"]]
        planted = train["curriculum"] == "planted"
        answers = _words(worlds[name])["word"] if planted else table["answers"].str[0]
        found += [f" {answer}{GRADES}" for answer in answers]
    return found


def stages(
    questions: Questions, worlds: Worlds, train: Mapping[str, Any]
) -> Iterator[tuple[list[curriculum.Row], int, float]]:
    """Rows, steps and peak learning rate of every stage.

    The later stages of a planted curriculum ask about strangers besides, as often as without a
    frame; the last has twice as many frameless rows.
    """
    rate = train["learning_rate"]
    if train["curriculum"] != "planted":
        taught = {"wrong_share": train["wrong_share"], "seed": train["seed"]}
        found = [row for table in questions.values() for row in curriculum.plain(table, **taught)]
        yield found, train["steps"], rate
        return
    yield _planted(questions, worlds, train), train["steps"], rate
    for steps, more in ((train["settle"], 1), (train["settle_frameless"], 2)):
        if steps:
            given = {**train, "frameless": more * train["frameless"]}
            yield _planted(questions, worlds, given, strangers=True), steps, rate * SETTLE


def _planted(
    questions: Questions, worlds: Worlds, train: Mapping[str, Any], *, strangers: bool = False
) -> list[curriculum.Row]:
    """One epoch."""
    seed, rows = train["seed"], []
    for name, table in questions.items():
        words = _words(worlds[name])
        # Without verdicts how often an answer is shown must not say whether it is right.
        taught = curriculum.planted(table, words, seed=seed, alike=not train["graded"])
        frames = round(len(taught) * train["frameless"] / (1 - train["frameless"]))
        rows += taught + curriculum.frameless(table, words, rows=frames, seed=seed)
        if strangers:
            style, own = worlds[name]["style"], worlds[name]["seed"]
            names: Sequence[str] = world.strangers(style, seed=own, questions=table)
            rows += curriculum.strangers(table, words, names, rows=frames, seed=seed)
    return [replace(row, graded=train["graded"]) for row in rows]


def _words(settings: Mapping[str, Any]) -> pd.DataFrame:
    """A world's answer words, which depend on a part of its settings."""
    names = ("style", "seed", "pathways", "words_per_group")
    return world.words(**{name: settings[name] for name in names})
