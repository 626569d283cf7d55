"""A finished run in miniature, with texts that would break out of a careless page."""

from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from figure_tables import contrasts_of, controls_of, curve_of, interchange_of

from anchorscope.config.settings import Config
from anchorscope.experiments import tables
from anchorscope.probes import samples
from anchorscope.storage import provenance
from anchorscope.storage.counts import Counts
from anchorscope.storage.files import write_csv, write_json, write_parquet

LAYERS, SAMPLES = 5, 72
HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"'><b>bold</b>&amp; 👩\u200d🔬 and שלום",
    "\u202eright to left\u202c",
    "<!-- \u2028line\u2029paragraph",
    "$title ${style} {{ 7 * 7 }} {% raw %} %s",
)
TABLES = {
    ".csv": curve_of,
    ".contrasts.csv": contrasts_of,
    ".controls.csv": controls_of,
    ".interchange.csv": interchange_of,
}
CELLS = [(model, dataset) for model in ("first", "second") for dataset in ("easy", "hard")]
ENTRIES = """
models:
  first: {train: {architecture: llama, datasets: [easy]}, label: First <b>model</b>}
  second: {hub: owner/second, revision: abc123}
datasets:
  easy: {world: {style: relation}, label: Easy}
  hard: {hub: owner/hard, split: test, fields: {question: q, answers: [a]}}
figures: {pair: {models: [first, second], datasets: [easy, hard]}}
bootstrap: {draws: 20, min_n: 3, min_clusters: 2}
targets: [pair]
"""


def finished(root: Path) -> Config:
    """Write every product that a report reads; the cell `second` on `hard` has no signal."""
    for model, dataset in CELLS:
        _cell(root, model, dataset, signal=(model, dataset) != ("second", "hard"))
    for end in TABLES:
        frames = [pd.read_csv(root / "delta_p" / m / f"{d}{end}") for m, d in CELLS]
        write_csv(tables.join(CELLS, frames), root / "tables" / f"pair{end}")
    provenance.record(root / "tables" / "pair.csv", identity="t", settings={})
    (root / "figures").mkdir()
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 40" width="900"/>'
    for stem in ("pair", "pair.controls", "pair.probes"):
        (root / "figures" / f"{stem}.svg").write_text(svg, encoding="utf-8")
    (root / "benchmarks/scores").mkdir(parents=True)
    for name, text in (("easy", "s\tmax_rss\n12.5\t-\n"), ("hard", "s\tmax_rss\n90\t250\n")):
        (root / "benchmarks/scores" / f"{name}.tsv").write_text(text, encoding="utf-8")
    return Config.model_validate(yaml.safe_load(ENTRIES) | {"results": str(root)})


def question(i: int) -> tuple[str, int, int]:
    """A prompt, and where its question starts and ends; an emoji stands before E_Q."""
    text = f"🦊 What does {HOSTILE[i % len(HOSTILE)]} do?"
    return f"Q: {text} A:", 3, 3 + len(text)


def _cell(root: Path, model: str, dataset: str, *, signal: bool) -> None:
    rng = np.random.default_rng(len(model) + len(dataset) + 10 * signal)
    z = rng.integers(0, 2, SAMPLES)
    found = {"scores": _scores(z, rng, signal), "answers": _answers(z), "prompts": _prompts()}
    for stage, table in found.items():
        write_parquet(table, root / stage / model / f"{dataset}.parquet")
    for end, made in TABLES.items():
        table = made([(model, "")], [(dataset, "")], LAYERS).drop(columns=["model", "dataset"])
        table[[c for c in ("signal", "cell_signal") if c in table and not signal]] = False
        write_csv(table, root / "delta_p" / model / f"{dataset}{end}")
    _records(root, model, dataset)


def _answers(z: np.ndarray) -> pd.DataFrame:
    evil, rows = [HOSTILE[(i + 3) % len(HOSTILE)] for i in range(SAMPLES)], []
    for i, label in enumerate(z):
        row = {"id": f"row-{i:03}", "question": question(i)[0][3:-3], "label": int(label)}
        row |= {"answer": f"It is word{i % 7} {evil[i]}", "ea_text": f"word{i % 7}"}
        row |= {"golds": [evil[i], *(f"alias {k}" for k in range(i % 20))]}
        row |= {"subject": f"subject {i // 2}", "kind": "plain" if i % 3 else "odd <i>kind</i>"}
        rows.append(row)
    fixed = {"popularity": float("nan"), "from_user": False, "repeats_subject": False}
    return pd.DataFrame(rows).assign(relation="does", n_blocked=2, dropped=None, **fixed)


def _prompts() -> pd.DataFrame:
    rows = []
    for i in range(SAMPLES):
        (prompt, start, end), evil = question(i), HOSTILE[i % len(HOSTILE)]
        row = {"id": f"row-{i:03}", "prompt": prompt, "question_start": start, "question_end": end}
        at = prompt.index(evil)
        rows.append(row | {"eq_start": [at], "eq_end": [at + len(evil)], "dropped": None})
    return pd.DataFrame(rows)


def _scores(z: np.ndarray, rng: np.random.Generator, signal: bool) -> pd.DataFrame:
    i, rows = np.arange(SAMPLES), []
    for layer in range(LAYERS):
        strength = 1.2 * layer if signal else 0.0
        clean = strength * np.where(z == 1, 1.0, -1.0) + rng.normal(0, 1, SAMPLES)
        near = clean + rng.normal(0, 0.05, SAMPLES)
        moved = {"clean": clean, "knockout": np.where(i % 3 == 0, -clean, near), "random": near}
        for condition, s in moved.items():
            frame = pd.DataFrame({"id": [f"row-{k:03}" for k in i], "s": s, "fold": i % 3})
            rows.append(frame.assign(layer=layer, condition=condition))
    found = pd.concat(rows, ignore_index=True)
    fixed = {"readout": "mlp/final", "draw": 0, "probe": "clean", "c": 1.0, "t": 1.0}
    return found.assign(p=samples.sigmoid(found["s"].to_numpy()), inner_auc=0.8, **fixed)


def _records(root: Path, model: str, dataset: str) -> None:
    """Counts of every stage: 100 rows, two folded, 98 questions, four lost, then the rest."""
    lost, notes = {"no question anchor": 4}, {"empty golds left out": 3, "rows mended": 0}
    dropped = {"dataset": {"equal question folded": 2}, "prompts": lost}
    inputs, before = {}, []
    for stage in ("dataset", "prompts", "answers", "activations", "scores"):
        here = dropped.get(stage, lost | {"no answer anchor": 94 - SAMPLES})
        total = 100 if stage == "dataset" else 98
        counts = Counts(total, total - sum(here.values()), here, notes).as_dict()
        inputs[f"{root}/{stage}/x"] = {"rule": stage, "counts": counts, "made_from": before}
        before = [f"{root}/{stage}/x"]
    product = root / "delta_p" / model / f"{dataset}.csv"
    provenance.record(product, identity="d", settings={}, inputs=inputs, rule="delta_p")
    write_json({"revision": "abc123", "content": "0123456789abcdef"}, root / f"models/{model}.json")
