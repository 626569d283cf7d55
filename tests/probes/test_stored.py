"""Stored probes: scores recomputed as docs/products.md shows are those of the table."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from anchorscope.passes import activations
from anchorscope.probes import fitting, scoring, stored
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.storage.errors import AnchorscopeError

PAGE = Path(__file__).parents[2] / "docs" / "products.md"
N, LAYERS, WIDTH = 90, 3, 7
CONDITIONS = [("knockout", 0), ("random", 0), ("random", 1), ("noop", 0)]
READOUTS = ("mlp/final", "attn/prompt_end")


def example() -> str:
    """The page's Python on stored probes."""
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (code,) = (one for one in found if "results/probes/" in one)
    return code


@pytest.fixture
def cell() -> tuple[pd.DataFrame, dict[tuple[str, str, int], tuple[np.ndarray, torch.Tensor]]]:
    """Answers, and read-out, condition, draw → rows and states.

    Means far off, one feature constant.
    """
    ids = [f"i{number:02}" for number in range(N)]
    z = (np.random.default_rng(0).random(N) < 0.4).astype(int)
    columns = {"id": ids, "question": ids, "subject": ids, "label": z, "dropped": None}
    draws, found = np.random.default_rng(1), {}
    far = np.linspace(-3000, 3000, WIDTH)
    for readout in READOUTS:
        x = draws.normal(size=(LAYERS, N, WIDTH)) + 0.8 * z[:, None]
        x[..., 2] = 0.0
        for number, key in enumerate([("clean", 0), *CONDITIONS]):
            some = np.array([0, 3, 4]) if key[0] == "noop" else np.arange(N)
            states = torch.as_tensor(x[:, some] + far - 0.3 * number, dtype=torch.float32)
            found[(readout, *key)] = some, states
    return pd.DataFrame(columns), found


def scored(cell: Any, path: Path, **settings: Any) -> pd.DataFrame:
    """The table of the probes that are stored at a path."""
    answers, measured = cell
    chosen = ProbeSettings(folds=3, inner_folds=3, grid=[0.01, 1.0], **settings)
    design = fitting.design(answers, chosen)
    no_draws = np.zeros((0, N), dtype=np.int64)
    one = scoring.Scoring(lambda *key: measured[key], design, no_draws, READOUTS, CONDITIONS)
    table = pd.concat(one.run().tables(), ignore_index=True)
    stored.write(path, stored.Stored.of(design, one.fitted))
    return table[table["probe"] == "clean"]


@pytest.mark.parametrize("settings", [{}, {"prior": "natural"}, {"scoring": "published"}])
def test_scores_recomputed_from_the_stored_probes_are_the_tables(
    cell: Any, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the page's own lines, for every read-out, layer and condition; and by `Stored`."""
    monkeypatch.chdir(tmp_path)
    code = example()
    (path,) = map(Path, re.findall(r'"(results/probes/\S+)"', code))
    path.parent.mkdir(parents=True)
    table = scored(cell, path, **settings)
    probes = stored.read(path)
    for (readout, condition, draw), given in cell[1].items():
        monkeypatch.setattr(activations, "read", lambda *_, given=given: given)
        shown: dict[str, Any] = {}
        exec(code.replace("mlp/final", readout), shown)
        rows = table[(table["readout"] == readout) & (table["condition"] == condition)]
        rows = rows[rows["draw"] == draw]
        places, states = given
        ids = cell[0]["id"][places].tolist()
        assert rows["id"].tolist() == ids * LAYERS
        for name in ("s", "p"):
            assert np.abs(shown[name].ravel() - rows[name].to_numpy()).max() <= 1e-5
        assert np.allclose(probes.logits(states, readout, ids), shown["s"], rtol=0, atol=1e-9)


def test_samples_and_read_outs_that_are_not_there_are_refused(cell: Any, tmp_path: Path) -> None:
    scored(cell, tmp_path / "p")
    probes = stored.read(tmp_path / "p")
    _, states = cell[1]["mlp/final", "clean", 0]
    with pytest.raises(AnchorscopeError, match="no stored probe scores sample stranger"):
        probes.logits(states[:, :1], "mlp/final", ["stranger"])
    with pytest.raises(AnchorscopeError, match="wanted: resid/final"):
        probes.logits(states[:, :1], "resid/final", ["i00"])
    (tmp_path / "p").write_bytes(b"cut short")
    with pytest.raises(AnchorscopeError, match="cannot read the stored probes"):
        stored.read(tmp_path / "p")
