"""A small measured cell with stored probes, as an experiment meets it."""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.experiments.experiment import Experiment
from anchorscope.experiments.measured import Measurements
from anchorscope.experiments.scored import Cell
from anchorscope.models.families import Loaded
from anchorscope.passes import activations, planning
from anchorscope.probes import fitting, stored
from anchorscope.questions import prompts
from anchorscope.statistics.scores import Scores
from anchorscope.workflow.jobs import write_scores

READOUTS = ["mlp/final", "resid/last_answer"]
CONDITIONS: dict[str, dict[str, int]] = {"knockout": {}, "random": {"draws": 2}}
PROBES = fitting.ProbeSettings(folds=3, inner_folds=2, refits=0, grid=[0.01])
WORDS = ("painter", "politician", "born", "author")
SUBJECTS = ("George Rankin", "Mary-Ann", "Zoltán", "The Red House", "Anna Lund", "Second Street")
TEMPLATES = {
    "trade": "What is {}'s occupation in the city?",
    "town": "who is the author of {} in 1932?",
}


def answers_of(tokenizer: Any, n: int = 48) -> pd.DataFrame:
    """Samples of two relations; half of the answers are right, each for some other questions."""
    records = []
    for i in range(n):
        relation = list(TEMPLATES)[i % 2]
        subject = f"{SUBJECTS[i % 6]} {i}"
        question = TEMPLATES[relation].format(subject)
        gold, answer = WORDS[i // 2 % 4], WORDS[(i // 2 + (i // 8) % 2) % 4]
        prompt = f"Q: {question} A:"
        text = f"{prompt} {answer} ."
        encoded = tokenizer(text, return_offsets_mapping=True)
        ids, start = encoded["input_ids"], len(tokenizer(prompt)["input_ids"])
        row = {"id": f"s{i:02}", "question": question, "subject": subject, "relation": relation}
        for name, part in (("eq_tokens", subject), ("question_tokens", question)):
            first, last = text.index(part), text.index(part) + len(part)
            spans = enumerate(encoded["offset_mapping"])
            row[name] = [at for at, (a, b) in spans if a < last and b > first and b > a]
        row |= {"input_ids": ids, "golds": [gold], "label": int(gold != answer)}
        row |= dict.fromkeys(("prompt_length", "ea_start"), start)
        row |= dict.fromkeys(("final", "ea_end"), len(ids) - 1)
        records.append(row | dict.fromkeys(("ea_text", "response"), answer))
    return pd.DataFrame(records).assign(dropped=None)


def prompts_of(answers: pd.DataFrame) -> pd.DataFrame:
    """The table of the prompts that these answers were given to, E_Q being the subject."""
    asked = answers[["id", "question", "subject"]].assign(property=None)
    asked["titles"] = [[] for _ in range(len(asked))]
    return prompts.build(asked, style="plain")[0]


@dataclass(frozen=True)
class SmallCell:
    """A cell, measured and scored as in the main run."""

    loaded: Loaded
    folder: Path
    answers: pd.DataFrame
    scores: Scores
    probes: stored.Stored

    def cell(self, **changes: Any) -> Cell:
        """The cell as an experiment gets it."""
        given = self.loaded, self.answers, self.probes, READOUTS, self.scores.headlines
        return replace(Cell(*given, draws=2, prompts=prompts_of(self.answers)), **changes)

    def measured(self, experiment: Experiment) -> Measurements:
        """What an experiment measures of it, under its default settings."""
        cell = self.cell(loaded=self.eager if experiment.reads_attention else self.loaded)
        measured: Measurements = experiment.module("measure").measure(cell, experiment.settings())
        return measured

    @cached_property
    def eager(self) -> Loaded:
        """The model with attention that can be read."""
        model = deepcopy(self.loaded.model)
        model.set_attn_implementation("eager")
        return replace(self.loaded, model=model)

    @property
    def truth(self) -> pd.DataFrame:
        """A made-up truth of every other sample."""
        odd = np.arange(len(self.answers)) % 2 == 1
        kinds = {"truth": np.where(odd, "Q", "A"), "kind": np.where(odd, "surprise", "truism")}
        return pd.DataFrame({"id": self.answers["id"], **kinds})


def small_cell(loaded: Loaded, folder: Path) -> SmallCell:
    """Measure and score it."""
    loaded = replace(loaded, batch_tokens=2000)
    answers = answers_of(loaded.tokenizer)
    plan = planning.plan(answers, conditions=CONDITIONS, batch_tokens=2000)
    activations.write(folder, loaded, plan, READOUTS)
    paths = {name: str(folder / name) for name in ("scores", "table", "probes")}
    chosen = {"readouts": READOUTS, "conditions": CONDITIONS, "device": "cpu"}
    measured = activations.measured(answers, folder)
    write_scores(SimpleNamespace(**paths), str(folder), measured, PROBES, **chosen)
    scores, probes = Scores.read(paths["scores"]), stored.read(paths["probes"])
    return SmallCell(loaded, folder, answers, scores, probes)


def clean_difference(measured: Measurements, scores: Scores) -> float:
    """The largest change of a clean logit from the main run's `scores` to what was `measured`."""
    changes = [
        np.nanmax(np.abs(measured.arrays[f"{readout}/clean"][0] - scores.readout(readout).clean))
        for readout in scores.readouts
        if f"{readout}/clean" in measured.arrays
    ]
    return float(max(changes))
