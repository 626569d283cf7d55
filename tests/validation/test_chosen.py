"""Simulated choices by label: what is measured of a pool, and that it can be judged."""

from dataclasses import replace

import numpy as np

from validation.simulations import chosen, knowledge_worlds
from validation.simulations.power import World


def test_half_of_the_measured_answers_are_right_and_signal_is_judged_on_them(monkeypatch) -> None:
    monkeypatch.setattr(chosen, "SIZE", 60)
    monkeypatch.setattr(chosen, "POOL", 300)
    data = chosen.measured(World.of(1.26, 0.8), 0.2, True, 0)
    assert data.answers["label"].value_counts().to_dict() == {0: 30, 1: 30}
    assert len(data.texts) == len(data.states) == 60
    assert {*chosen.signal(data, 0)} == {"gain", "yes"}


def test_a_world_chosen_by_label_measures_its_rare_right_answers() -> None:
    name = "nothing is known, 15 % right"
    world = replace(knowledge_worlds.chosen(knowledge_worlds.TEXT_ONLY)[name], n=60, pool=600)
    evidence = world(np.random.default_rng(0))
    assert evidence.over_text is not None and evidence.over_text.n == 60
