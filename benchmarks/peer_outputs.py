"""Other projects' ways to an answer's token probabilities; each runs in its own environment.

Models of random weights know no words, so a token is written as its number.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

AT_ONCE = 8
MEAN = -1
"""Stands for a token's place: the mean log-probability of the answer's tokens."""
PADDING = "<padding>"
Row = dict[str, Any]
Found = dict[tuple[int, int], torch.Tensor]
"""(sequence, token's place or `MEAN`) → log-probability and entropy, [2]; of `MEAN` the first."""
Ways = dict[str, tuple[Callable[[], Found], float]]


def tokenizer(vocabulary: int) -> Any:
    """Words are the numbers of tokens."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    # Special words are found inside others, too, so none is a number.
    numbers = {PADDING: 0} | {str(n): n for n in range(1, vocabulary)}
    words = Tokenizer(WordLevel(numbers, unk_token=PADDING))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token=PADDING,
        pad_token=PADDING,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def batches(rows: list[Row]) -> Iterator[list[Row]]:
    """Rows of similar length."""
    ordered = sorted(rows, key=lambda row: len(row["ids"]))
    for start in range(0, len(ordered), AT_ONCE):
        yield ordered[start : start + AT_ONCE]


def text(ids: list[int]) -> str:
    return " ".join(map(str, ids))


@torch.inference_mode()
def one_pass(model: Any, rows: list[Row]) -> Found:
    """The plain way: the whole model on batches of similar length."""
    found: Found = {}
    for some in batches(rows):
        ids = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(row["ids"]) for row in some], batch_first=True
        )
        # Padding stands behind a row, where nothing of it is seen.
        log_p = model(ids).logits.log_softmax(-1)
        for place, row in enumerate(some):
            start, end = row["answer"]
            before = log_p[place, start - 1 : end - 1]
            own = before.gather(-1, ids[place, start:end, None])[:, 0]
            entropy = -(before.exp() * before).sum(-1)
            pairs = torch.stack([own, entropy], -1)
            found |= {(row["id"], start + n): pair for n, pair in enumerate(pairs)}
            found[row["id"], MEAN] = own.mean()[None]
    return found


def lm_polygraph(model: Any, rows: list[Row]) -> Ways:
    """Its two calculators; they write the answers themselves, greedily."""
    from lm_polygraph.stat_calculators.entropy import EntropyCalculator
    from lm_polygraph.stat_calculators.greedy_probs import GreedyProbsCalculator
    from lm_polygraph.utils.model import WhiteboxModel

    model.generation_config.eos_token_id = None  # random answers have no end
    wrapped = WhiteboxModel(model, tokenizer(model.config.vocab_size))
    greedy, entropies = GreedyProbsCalculator(output_attentions=False), EntropyCalculator()

    def run() -> Found:
        found: Found = {}
        for some in batches(rows):
            prompts = [text(row["ids"][: row["answer"][0]]) for row in some]
            most = max(end - start for start, end in (row["answer"] for row in some))
            given = greedy({}, prompts, wrapped, max_new_tokens=most)
            given |= entropies(given)
            for place, row in enumerate(some):
                start, end = row["answer"]
                if given["greedy_tokens"][place][: end - start] != row["ids"][start:end]:
                    raise SystemExit(f"sequence {row['id']}: it wrote another answer")
                pairs = zip(
                    given["greedy_log_likelihoods"][place], given["entropy"][place], strict=True
                )
                found |= {
                    (row["id"], start + n): torch.tensor([float(own), float(entropy)])
                    for n, (own, entropy) in enumerate(pairs)
                    if n < end - start
                }
        return found

    return {"lm-polygraph": (run, 1.0)}


def truthtorchlm(model: Any, rows: list[Row]) -> Ways:
    """`Confidence`, the mean log-probability, of one given answer at a time."""
    from TruthTorchLM.truth_methods import Confidence

    words, confidence = tokenizer(model.config.vocab_size), Confidence()

    def run() -> Found:
        found: Found = {}
        for row in rows:
            start, end = row["answer"]
            value = confidence.forward_hf_local(
                model=model,
                input_text=text(row["ids"][:start]),
                generated_text=text(row["ids"][start:end]),
                question="",
                all_ids=torch.tensor([row["ids"][:end]]),
                tokenizer=words,
            )
            found[row["id"], MEAN] = torch.tensor([value["truth_value"]])
        return found

    return {"truthtorchlm": (run, 1.0)}


PEERS = {"lm-polygraph": lm_polygraph, "truthtorchlm": truthtorchlm}
