"""The workload of a published checkpoint: SmolLM2-135M-Instruct behind worked examples.

Model and questions are those of `make first-model`; without its products there is no such workload.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd
from workloads import Shape, Workload

from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.storage.files import read_json, read_parquet

KEY, DATASET = "smollm2-135m-q4", "popqa"
NAME = "first-model"


def workload(results: Path, quick: bool) -> Workload | None:
    """The workload, if the model and its answers are there.

    Args:
        results: folder of the products of `make first-model`.
        quick: whether for a few sequences only.
    """
    located, answers = results / f"models/{KEY}.json", results / f"answers/{KEY}/{DATASET}.parquet"
    if not located.is_file() or not answers.is_file():
        return None
    config = read_json(Path(read_json(located)["path"]) / "config.json")
    shape = Shape(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        inner=config["intermediate_size"],
        heads=config["num_attention_heads"],
        vocabulary=config["vocab_size"],
    )
    work = Workload(NAME, sequences=32, timed=2, checkpoint=str(results), shape=shape)
    return replace(work, sequences=4, timed=1, new_tokens=4) if quick else work


def read(work: Workload) -> tuple[Loaded, pd.DataFrame, frozenset[int]]:
    """The model in float32, answers spread evenly over the dataset, and the ids that end one."""
    results = Path(work.checkpoint)
    loaded = loading.load(read_json(results / f"models/{KEY}.json")["path"])
    answers = read_parquet(results / f"answers/{KEY}/{DATASET}.parquet")
    kept = answers[answers["dropped"].isna()]
    chosen = [n * len(kept) // work.sequences for n in range(work.sequences)]
    table = kept.iloc[chosen].reset_index(drop=True)
    for column in ("input_ids", "eq_tokens", "question_tokens"):
        table[column] = [list(map(int, row)) for row in table[column]]
    return loaded, table, _ends(loaded)


def _ends(loaded: Loaded) -> frozenset[int]:
    """The ids that end an answer behind worked examples: a line break, or the model's own end."""
    texts = [loaded.tokenizer.decode([number]) for number in range(len(loaded.tokenizer))]
    breaks = {number for number, text in enumerate(texts) if "\n" in text}
    return frozenset(breaks | {loaded.tokenizer.eos_token_id})
