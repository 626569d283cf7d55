"""Training of the small models that the calibration and the real-rows demonstration measure."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from anchorscope.curriculum import Row
from anchorscope.errors import AnchorscopeError

log = logging.getLogger(__name__)

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
MUON_RATE = 0.02
FALL = 0.6
ARCHITECTURES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


@dataclass(frozen=True)
class Shape:
    """Size of a model; 8 layers of width 64 have 0.44 million parameters."""

    architecture: str = "llama"
    layers: int = 8
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    mlp: int = 192


def train_tokenizer(texts: Sequence[str], *, vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer; each text counts once, so that names stay in several pieces."""
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
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD
    )


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Any:
    """A model of the given shape with random weights, float32."""
    torch.manual_seed(seed)
    config_class, model_class = ARCHITECTURES[shape.architecture]
    return model_class(
        config_class(
            vocab_size=len(tokenizer),
            hidden_size=shape.width,
            intermediate_size=shape.mlp,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.width // shape.heads,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def batches(
    rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast, *, size: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless shuffled epochs of (input ids, labels), int64 [size, longest], padding labelled -100."""
    texts = {row.text: None for row in rows}
    encoded = dict(zip(texts, tokenizer(list(texts))["input_ids"]))
    lines = [encoded[row.text] + [tokenizer.eos_token_id] for row in rows]
    lengths = np.array([len(line) for line in lines])
    table = np.full((len(lines), lengths.max()), tokenizer.pad_token_id)
    for number, line in enumerate(lines):
        table[number, : len(line)] = line
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(lines))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            ids = torch.from_numpy(table[chosen, : lengths[chosen].max()])
            yield ids, ids.masked_fill(ids == tokenizer.pad_token_id, -100)


def train(
    model: Any,
    rows: Sequence[Row],
    tokenizer: PreTrainedTokenizerFast,
    *,
    steps: int,
    batch_rows: int,
    learning_rate: float,
    warmup: float,
    seed: int,
    report_every: int = 50,
) -> list[float]:
    """Train in place: Muon for the blocks' matrices, AdamW for the rest; loss on all tokens.

    The learning rates rise over the warm-up and fall to zero over the last 60 % of the steps;
    gradients are clipped at 1.

    Returns:
        The loss of every step.
    """
    # Once the model is sure, gradients underflow and a step takes three times as long.
    torch.set_flush_denormal(True)
    optimizers = _optimizers(model, learning_rate)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: _share_of_rate(step, steps, warmup)
        )
        for optimizer in optimizers
    ]
    losses: list[float] = []
    started = time.monotonic()
    model.train()
    source = batches(rows, tokenizer, size=min(batch_rows, len(rows)), seed=seed)
    for step, (ids, labels) in enumerate(islice(source, steps), start=1):
        losses.append(_step(model, ids, labels, optimizers))
        for schedule in schedules:
            schedule.step()
        if step % report_every == 0 or step == steps:
            _report(losses[-report_every:], step, steps, time.monotonic() - started)
    return losses


def _optimizers(model: Any, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) learns rare facts in a third of the steps that AdamW takes."""
    if not hasattr(torch.optim, "Muon"):
        raise AnchorscopeError(
            "training needs the Muon optimiser, which this torch does not have",
            f"torch {torch.__version__}",
            "install torch 2.9 or newer, or use the shipped checkpoints",
        )
    blocks = [p for p in model.base_model.layers.parameters() if p.ndim == 2]
    inside = {id(weights) for weights in blocks}
    rest = [p for p in model.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(blocks, lr=MUON_RATE, weight_decay=0.1, momentum=0.95),
        torch.optim.AdamW(rest, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def _share_of_rate(step: int, steps: int, warmup: float) -> float:
    done = (step + 1) / steps
    return min(1.0, done / warmup, max(0.0, (1 - done) / FALL))


def _step(
    model: Any,
    ids: torch.Tensor,
    labels: torch.Tensor,
    optimizers: Sequence[torch.optim.Optimizer],
) -> float:
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1)
    )
    model.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


def _report(losses: Sequence[float], step: int, steps: int, seconds: float) -> None:
    log.info(
        "step %d of %d, loss %.3f, %.2f s a step, %.0f min left",
        step,
        steps,
        float(np.mean(losses)),
        seconds / step,
        seconds / step * (steps - step) / 60,
    )


def save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save like any checkpoint of the hub: safetensors, config, tokenizer."""
    model.eval().save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
