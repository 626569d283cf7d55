"""A finished run in miniature, with texts that would break out of a careless page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from figure_tables import contrasts_of, controls_of, curve_of, density_of, interchange_of

from anchorscope.config.settings import Config
from anchorscope.experiments import strata, tables
from anchorscope.probes import samples
from anchorscope.storage import provenance
from anchorscope.storage.counts import Counts
from anchorscope.storage.files import write_csv, write_json, write_parquet

PROJECT = Path(__file__).resolve().parents[1]
RESOURCES = PROJECT / "resources" / "report"
LAYERS, SAMPLES = 5, 72
HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"'><b>bold</b>&amp;",
    '=HYPERLINK("http://example.org")',
    "\u202eright to left\u202c",
    "שלום עולם",
    "👩\u200d🔬 and 🏳️\u200d🌈",
    "<!--",
    "\u2028line\u2029paragraph",
    "$title ${style} {0} %s",
)
TABLES = {
    ".csv": curve_of,
    ".contrasts.csv": contrasts_of,
    ".controls.csv": controls_of,
    ".interchange.csv": interchange_of,
    ".strata.csv": lambda *_: pd.DataFrame(columns=["model", "dataset", *strata.STRATA]),
    ".density.csv": lambda models, datasets, _: density_of(models, datasets),
}
CELLS = [(model, dataset) for model in ("first", "second") for dataset in ("easy", "hard")]


def settings(root: Path) -> Config:
    """Two models on two datasets, one figure."""
    train = {"architecture": "llama", "datasets": ["easy"]}
    return Config.model_validate(
        {
            "results": str(root),
            "targets": ["pair"],
            "bootstrap": {"draws": 20, "min_n": 3, "min_clusters": 2},
            "models": {
                "first": {"train": train, "label": "First <b>model</b>"},
                "second": {"hub": "owner/second", "revision": "abc123"},
            },
            "datasets": {
                "easy": {"world": {"style": "relation"}, "label": "Easy"},
                "hard": {
                    "hub": "owner/hard",
                    "split": "test",
                    "fields": {"question": "q", "answers": ["a"]},
                },
            },
            "figures": {"pair": {"models": ["first", "second"], "datasets": ["easy", "hard"]}},
        }
    )


def finished(root: Path, *, random: bool = True) -> Config:
    """Write every product that a report reads; the cell `second` on `hard` has no signal."""
    config = settings(root)
    for model, dataset in CELLS:
        signal = (model, dataset) != ("second", "hard")
        _cell(root, model, dataset, signal=signal, random=random)
    for end in TABLES:
        frames = [pd.read_csv(root / "delta_p" / m / f"{d}{end}") for m, d in CELLS]
        write_csv(tables.join(CELLS, frames), root / "tables" / f"pair{end}")
    provenance.record(root / "tables" / "pair.csv", identity="t", settings={})
    (root / "figures").mkdir()
    for stem in ("pair", "pair.controls", "pair.probes"):
        svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 40" width="900"/>'
        (root / "figures" / f"{stem}.svg").write_text(svg, encoding="utf-8")
    benchmark = root / "benchmarks" / "scores" / "first"
    benchmark.mkdir(parents=True)
    for name, seconds in (("easy", 12.5), ("hard", 90.0)):
        text = f"s\th:m:s\tmax_rss\n{seconds}\t0:00:00\t250.0\n"
        (benchmark / f"{name}.tsv").write_text(text, encoding="utf-8")
    return config


def question(i: int) -> tuple[str, int, int]:
    """A prompt, and where its question starts and ends; an emoji stands before E_Q."""
    text = f"🦊 What does {HOSTILE[i % len(HOSTILE)]} do?"
    return f"Q: {text} A:", 3, 3 + len(text)


def _cell(root: Path, model: str, dataset: str, *, signal: bool, random: bool) -> None:
    rng = np.random.default_rng(len(model) + len(dataset) + 10 * signal)
    z = rng.integers(0, 2, SAMPLES)
    answers, prompts = _answers(z), _prompts()
    scores = _scores(answers["id"].tolist(), z, rng, signal)
    if not random:
        scores = scores[scores["condition"] != "random"].reset_index(drop=True)
    write_parquet(answers, root / "answers" / model / f"{dataset}.parquet")
    write_parquet(prompts, root / "prompts" / model / f"{dataset}.parquet")
    write_parquet(scores, root / "scores" / model / f"{dataset}.parquet")
    for end, made in TABLES.items():
        table = made([(model, "")], [(dataset, "")], LAYERS).drop(columns=["model", "dataset"])
        told = [name for name in ("signal", "cell_signal") if name in table and not signal]
        table[told] = False
        if not random and "contrast" in table:
            table = table[~table["contrast"].str.contains("random")]
        write_csv(table, root / "delta_p" / model / f"{dataset}{end}")
    _records(root, model, dataset, int(z.sum()))


def _answers(z: np.ndarray) -> pd.DataFrame:
    rows = []
    for i, label in enumerate(z):
        evil = HOSTILE[(i + 3) % len(HOSTILE)]
        rows.append(
            {
                "id": f"row-{i:03}",
                "question": question(i)[0][3:-3],
                "answer": f"It is word{i % 7} {evil}",
                "ea_text": f"word{i % 7}",
                "label": int(label),
                "golds": [evil] + [f"alias {k}" for k in range(i % 20)],
                "subject": f"subject {i // 2}",
                "relation": "does",
                "kind": "plain" if i % 3 else "odd <i>kind</i>",
                "popularity": float("nan"),
                "from_user": False,
                "repeats_subject": False,
                "n_blocked": 2,
                "dropped": None,
            }
        )
    return pd.DataFrame(rows)


def _prompts() -> pd.DataFrame:
    rows = []
    for i in range(SAMPLES):
        prompt, start, end = question(i)
        evil = HOSTILE[i % len(HOSTILE)]
        at = prompt.index(evil)
        rows.append(
            {"id": f"row-{i:03}", "prompt": prompt, "question_start": start, "question_end": end}
            | {"eq_start": [at], "eq_end": [at + len(evil)], "dropped": None}
        )
    return pd.DataFrame(rows)


def _scores(ids: list[str], z: np.ndarray, rng: np.random.Generator, signal: bool) -> pd.DataFrame:
    sign, rows = np.where(z == 1, 1.0, -1.0), []
    needs = np.arange(len(ids)) % 3 == 0
    for layer in range(LAYERS):
        strength = 1.2 * layer if signal else 0.0
        clean = strength * sign + rng.normal(0, 1, len(ids))
        moved = {
            "clean": clean,
            "knockout": np.where(needs, -clean, clean + rng.normal(0, 0.05, len(ids))),
            "random": clean + rng.normal(0, 0.05, len(ids)),
        }
        for condition, s in moved.items():
            frame = pd.DataFrame({"id": ids, "layer": layer, "s": s})
            frame["condition"], frame["fold"] = condition, np.arange(len(ids)) % 3
            rows.append(frame)
    found = pd.concat(rows, ignore_index=True)
    fixed = {"readout": "mlp/final", "draw": 0, "probe": "clean", "c": 1.0, "t": 1.0}
    fixed["inner_auc"] = 0.8
    return found.assign(p=samples.sigmoid(found["s"].to_numpy()), **fixed)


def _records(root: Path, model: str, dataset: str, wrong: int) -> None:
    """Counts of every stage: 100 rows, two folded, 98 questions, four lost, then the rest."""
    lost, notes = {"no question anchor": 4}, {"n_right": SAMPLES - wrong, "n_wrong": wrong}
    measured = lost | {"no answer anchor": 94 - SAMPLES}
    counts = {
        f"data/{dataset}.parquet": (100, {"equal question folded": 2}, {}),
        f"prompts/{model}/{dataset}.parquet": (98, lost, {}),
        f"answers/{model}/{dataset}.parquet": (98, measured, notes),
        f"activations/{model}/{dataset}": (98, measured, {}),
        f"scores/{model}/{dataset}.parquet": (98, measured, {}),
    }
    inputs = {
        f"{root}/{path}": {
            "counts": Counts(total, total - sum(dropped.values()), dropped, said).as_dict()
        }
        for path, (total, dropped, said) in counts.items()
    }
    product = root / "delta_p" / model / f"{dataset}.csv"
    provenance.record(product, identity="d", settings={}, inputs=inputs)
    write_json({"revision": "abc123", "content": "0123456789abcdef"}, root / f"models/{model}.json")
