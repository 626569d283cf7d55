"""Noise is not called a signal, however few the samples."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from anchorscope.experiments import strength
from anchorscope.probes import samples, scores
from anchorscope.probes.fitting import Settings

TRIES, LAYERS, WIDTH = 200, 3, 16
PROBE = Settings(inner_folds=3, grid=[0.01, 1.0])


@pytest.mark.parametrize("n", [60, 100])
def test_noise_gives_a_false_signal_in_at_most_one_of_twenty_tries(n: int) -> None:
    """Without floors, which could only take signals away; 15 % of the labels are wrong.

    Probes of different layers are fitted independently, so one call fits those of all tries.
    """
    rng = np.random.default_rng(n)
    labels = rng.permutation(np.arange(n) < 0.15 * n).astype(np.int64)
    ids = [f"{number:03d}" for number in range(n)]
    answers = pd.DataFrame({"id": ids, "question": ids, "subject": ids, "label": labels})
    noise = torch.as_tensor(rng.normal(size=(TRIES * LAYERS, n, WIDTH)), dtype=torch.float32)
    given = (answers, "mlp/final", [], PROBE)
    scored = scores.score(lambda condition, draw: (ids, noise), *given, extras=False)
    inner = scored.pivot_table(index="layer", columns="fold", values="inner_auc", aggfunc="first")
    aucs = inner.to_numpy(dtype=np.float64).reshape(TRIES, LAYERS, -1)
    (every,) = samples.readouts(scored, answers)
    beside = (answers, None, samples.bootstrap(answers, 200, seed=0), 0.95)
    by_layer = strength.of_scores(every.clean, "final", *beside)["signal"]
    of_cell = []
    for clean, own in zip(every.clean.reshape(TRIES, LAYERS, n), aucs, strict=True):
        one = replace(every, clean=clean, layer_of_fold=samples.layer_of_fold(own))
        of_cell.append(strength.of_scores(one.own[None], "final", *beside)["signal"].item())
    assert by_layer.reshape(TRIES, LAYERS).any(1).mean() <= 0.05
    assert np.mean(of_cell) <= 0.05
