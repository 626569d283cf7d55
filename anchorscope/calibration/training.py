"""Training of the small models that the calibration and the real-rows demonstration measure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

from anchorscope.calibration.curriculum import Row
from anchorscope.storage.progress import Progress

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
FALL = 0.6
RECENT = 50
"""Steps over which the loss shown is averaged."""
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


@dataclass(frozen=True)
class Text:
    """Rows of training text, encoded.

    Attributes:
        ids: token ids, padded on the right, int64 [rows, longest].
        lengths: of each row, [rows].
        padding: the id of padding.
    """

    ids: np.ndarray
    lengths: np.ndarray
    padding: int

    @classmethod
    def of(cls, rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast) -> "Text":
        """Each row's text and the end of text."""
        texts = {row.text: None for row in rows}
        encoded = dict(zip(texts, tokenizer(list(texts))["input_ids"], strict=True))
        lines = [encoded[row.text] + [tokenizer.eos_token_id] for row in rows]
        lengths = np.array([len(line) for line in lines])
        ids = np.full((len(lines), lengths.max()), tokenizer.pad_token_id)
        for number, line in enumerate(lines):
            ids[number, : len(line)] = line
        return cls(ids, lengths, tokenizer.pad_token_id)

    def batches(self, *, size: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Endless shuffled epochs of (ids, labels), int64 [size, longest]; padding is -100."""
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(len(self.ids))
            for start in range(0, len(order) - size + 1, size):
                chosen = order[start : start + size]
                ids = torch.from_numpy(self.ids[chosen, : self.lengths[chosen].max()])
                yield ids, ids.masked_fill(ids == self.padding, -100)


def train(
    model: Any,
    rows: Sequence[Row],
    tokenizer: PreTrainedTokenizerFast,
    *,
    steps: int,
    batch_rows: int,
    learning_rate: float,
    warmup: float,
    early_verdict: float,
    seed: int,
) -> list[float]:
    """Train in place: AdamW, gradients clipped at 1, loss on all tokens.

    The learning rate rises over the warm-up and falls to zero over the last 60 % of the steps.
    The verdict is also asked of every layer of the deeper half (weight `early_verdict` a layer):
    without it the model makes up its mind in the last two layers only.

    Returns:
        The loss on the tokens, of every step.
    """
    if not steps:
        return []
    text, size = Text.of(rows, tokenizer), min(batch_rows, len(rows))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    model.train()
    losses: list[float] = []
    with _flushed(), Progress(total=steps * size, unit="rows") as progress:
        for ids, labels in islice(text.batches(size=size, seed=seed), steps):
            rate = learning_rate * _share_of_rate(len(losses), steps, warmup)
            losses.append(_step(model, optimizer, rate, ids, labels, early_verdict))
            progress.set_postfix_str(f"loss {np.mean(losses[-RECENT:]):.3f}", refresh=False)
            progress.update(len(ids))
    return losses


@contextmanager
def _flushed() -> Iterator[None]:
    """Denormal numbers are 0: once the model is sure, gradients underflow and a step takes three
    times as long."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _step(
    model: Any,
    optimizer: torch.optim.AdamW,
    rate: float,
    ids: torch.Tensor,
    labels: torch.Tensor,
    early_verdict: float,
) -> float:
    """One step at a learning rate; the loss on the tokens before it."""
    on_tokens, states = _on_tokens(model, ids, labels)
    loss = on_tokens
    if early_verdict:
        loss = loss + early_verdict * _on_verdict(model, ids, labels, states)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return on_tokens.item()


def _share_of_rate(step: int, steps: int, warmup: float) -> float:
    done = (step + 1) / steps
    return min(1.0, done / warmup, max(0.0, (1 - done) / FALL))


def _on_tokens(
    model: Any, ids: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """Mean loss on all tokens, and the hidden states of every layer."""
    out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    logits = out.logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1)
    )
    return loss, out.hidden_states


def _on_verdict(
    model: Any, ids: torch.Tensor, labels: torch.Tensor, hidden: Sequence[torch.Tensor]
) -> torch.Tensor:
    """The verdict's loss, read early, summed over the layers of the deeper half but the last."""
    # A row ends: full stop, verdict, end of text.
    each = torch.arange(len(ids))
    verdict = (labels != -100).sum(1) - 2
    count = len(model.base_model.layers)
    loss = hidden[0].new_zeros(())
    for layer in range(count // 2, count - 1):
        states = model.base_model.norm(hidden[layer + 1][each, verdict - 1])
        loss = loss + torch.nn.functional.cross_entropy(model.lm_head(states), ids[each, verdict])
    return loss


def save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save like any checkpoint of the hub: safetensors, config, tokenizer."""
    model.eval().save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
