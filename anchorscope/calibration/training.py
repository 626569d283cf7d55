"""Training of the small models that the calibration and the real-rows demonstration measure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from anchorscope.calibration import curriculum
from anchorscope.calibration.curriculum import Questions, Row, Worlds
from anchorscope.models.loading import RECIPE
from anchorscope.questions import null_worlds
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_json
from anchorscope.storage.progress import Progress

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
Numbers = Mapping[str, float]
"""Word → the number that its embedding holds."""


def make(
    folder: Path, questions: Questions, *, worlds: Worlds, train: Mapping[str, Any], recipe: str
) -> None:
    """Train a model on questions as the catalogue's `train` entry says, and save it.

    The folder is made here; it holds what `save_pretrained` writes, and `recipe.json` with the
    recipe's hash.
    """
    seen = curriculum.texts(questions, worlds, train)
    numbers = _numbers(worlds) if train["embedded_numbers"] else []
    whole = list(chain.from_iterable(numbers))
    tokenizer = train_tokenizer(seen, vocabulary=train["vocabulary"], whole=whole)
    model = new_model(train, tokenizer, seed=train["seed"])
    embed(numbers, model, tokenizer, size=train["embedded_numbers"], seed=train["seed"])
    for rows, steps, rate in curriculum.stages(questions, worlds, train):
        losses = _fit(model, rows, tokenizer, train, steps=steps, learning_rate=rate)
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


def train_tokenizer(
    texts: Sequence[str], *, vocabulary: int, whole: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer; each text counts once, so that names stay in several pieces.

    Each of the words `whole` is a token besides, without the space before it.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    tokenizer.add_tokens([AddedToken(word, single_word=True, normalized=False) for word in whole])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD
    )


def new_model(shape: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Any:
    """A model with random weights, float32; 8 layers of width 64 have 0.44 million parameters.

    `shape`, as in the catalogue: `architecture` (a model type of transformers), `layers`, `width`,
    `heads`, `kv_heads` and `mlp` (inner width).
    """
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        shape["architecture"],
        vocab_size=len(tokenizer),
        hidden_size=shape["width"],
        intermediate_size=shape["mlp"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        head_dim=shape["width"] // shape["heads"],
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return AutoModelForCausalLM.from_config(config)


def _numbers(worlds: Worlds) -> list[Numbers]:
    """The numbers of the words of the worlds that have such.

    Raises AnchorscopeError: none has.
    """
    each = [null_worlds.numbers(own["style"], seed=own["seed"]) for own in worlds.values()]
    found: list[Numbers] = [numbers for kinds in each for numbers in kinds.values()]
    if not found:
        what = "`embedded_numbers` is given, and no dataset of the recipe has such numbers"
        do = "name a world of the style null-familiar or null-type, or leave the key out"
        raise AnchorscopeError(what, "the recipe's `datasets`", do, see="config")
    return found


def embed(
    numbers: Sequence[Numbers],
    model: Any,
    tokenizer: PreTrainedTokenizerFast,
    *,
    size: float,
    seed: int,
) -> None:
    """Add to each word's embedding its number, along a random direction of each mapping's own.

    `size` is the length of the addition for the number 1, in mean lengths of an embedding. Each
    word must be one token.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = model.get_input_embeddings().weight.data
    length = size * weights.norm(dim=1).mean()
    for of_word in numbers:
        direction = torch.randn(weights.shape[1], generator=generator)
        rows = tokenizer.convert_tokens_to_ids(list(of_word))
        added = torch.tensor([*of_word.values()])[:, None] * direction / direction.norm()
        weights[rows] += length * added


def _fit(
    model: Any,
    rows: Sequence[Row],
    tokenizer: PreTrainedTokenizerFast,
    train: Mapping[str, Any],
    *,
    steps: int,
    learning_rate: float,
) -> list[float]:
    """Train in place (AdamW, gradients clipped at 1); return the loss on all tokens at every step.

    The learning rate rises over the warm-up and falls to zero over the last 60 % of the steps.
    A graded verdict is also asked of every layer of the deeper half (weight `early_verdict` a
    layer): without it the model makes up its mind in the last two layers only.
    """
    if not steps:
        return []
    size = min(train["batch_rows"], len(rows))
    shown = islice(_batches(_encoded(rows, tokenizer), size, train["seed"]), steps)
    early_verdict = train["early_verdict"] if train["graded"] else 0.0
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    model.train()
    losses: list[float] = []
    with ExitStack() as after, Progress(total=steps * size, unit="rows") as progress:
        # A sure model's gradients underflow, and denormals make a step take three times as long.
        torch.set_flush_denormal(True)
        after.callback(torch.set_flush_denormal, False)
        for step, ids in enumerate(shown):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * _share_of_rate(step, steps, train["warmup"])
            on_tokens, on_verdict = _losses(model, ids, tokenizer.pad_token_id)
            optimizer.zero_grad(set_to_none=True)
            (on_tokens + early_verdict * on_verdict).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(on_tokens.item())
            progress.set_postfix_str(f"loss {np.mean(losses[-50:]):.3f}", refresh=False)
            progress.update(len(ids))
    return losses


def _encoded(rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast) -> list[torch.Tensor]:
    """Token ids of each row's text and the end of text."""
    texts = list(dict.fromkeys(row.text for row in rows))
    encoded = zip(texts, tokenizer(texts)["input_ids"], strict=True)
    lines = {text: torch.tensor([*ids, tokenizer.eos_token_id]) for text, ids in encoded}
    return [lines[row.text] for row in rows]


def _batches(lines: Sequence[torch.Tensor], size: int, seed: int) -> Iterator[list[torch.Tensor]]:
    """Endless shuffled epochs, in batches of one size."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(lines))
        for start in range(0, len(order) - size + 1, size):
            yield [lines[number] for number in order[start : start + size]]


def _share_of_rate(step: int, steps: int, warmup: float) -> float:
    done = (step + 1) / steps
    return min(1.0, done / warmup, max(0.0, (1 - done) / 0.6))


def _losses(
    model: Any, lines: Sequence[torch.Tensor], padding: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean loss on all tokens, and that of the verdict, read early: summed over the layers of the
    deeper half but the last."""
    ids = torch.nn.utils.rnn.pad_sequence(list(lines), batch_first=True, padding_value=padding)
    out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    labels = ids.masked_fill(ids == padding, -100)
    on_tokens = cross_entropy(out.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    # A row ends: full stop, verdict, end of text.
    each, verdict = torch.arange(len(ids)), torch.tensor([len(line) for line in lines]) - 2
    count = len(model.base_model.layers)
    on_verdict = out.logits.new_zeros(())
    for layer in range(count // 2, count - 1):
        states = model.base_model.norm(out.hidden_states[layer + 1][each, verdict - 1])
        on_verdict = on_verdict + cross_entropy(model.lm_head(states), ids[each, verdict])
    return on_tokens, on_verdict
