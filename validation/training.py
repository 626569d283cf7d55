"""Train the small models that the calibration and the null controls measure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_json
from anchorscope.storage.progress import Progress
from validation import curriculum, null_worlds
from validation.curriculum import Questions, Row, Stage, Worlds
from validation.recipes import FILE, TrainSettings

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
Numbers = Mapping[str, float]
"""Word → the number that its embedding holds."""


def make(
    folder: Path, questions: Questions, *, worlds: Worlds, train: TrainSettings, recipe: str
) -> None:
    """Train a model and its tokenizer on questions. Save both, with the hash `recipe`."""
    numbers = _numbers(worlds) if train.embedded_numbers else []
    tokenizer = train_tokenizer(
        curriculum.texts(questions, worlds, train),
        vocabulary=train.vocabulary,
        whole=list(chain.from_iterable(numbers)),
    )
    model = new_model(train, tokenizer)
    embed(numbers, model, tokenizer, train)
    for stage in curriculum.stages(questions, worlds, train):
        losses = _fit(model, stage, tokenizer, train)
    model.eval()
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    last_losses = losses[-100:] or [math.log(len(tokenizer))]
    written = {
        "recipe": recipe,
        "train": train.numbers(),
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "rows": len(stage.rows),
        "final_loss": round(sum(last_losses) / len(last_losses), 4),
    }
    write_json(written, folder / FILE)


def train_tokenizer(
    texts: Sequence[str], *, vocabulary: int, whole: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer. Each of the words `whole` becomes a token of its own.

    Each text counts once, so that names stay in several pieces.
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


def new_model(train: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Make a model with random float32 weights (0.44 million for 8 layers of width 64)."""
    torch.manual_seed(train.seed)
    config = AutoConfig.for_model(
        train.architecture,
        vocab_size=len(tokenizer),
        hidden_size=train.width,
        intermediate_size=train.mlp,
        num_hidden_layers=train.layers,
        num_attention_heads=train.heads,
        num_key_value_heads=train.kv_heads,
        head_dim=train.width // train.heads,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return AutoModelForCausalLM.from_config(config)


def _numbers(worlds: Worlds) -> list[Numbers]:
    """Return the worlds' mappings of words to numbers. Refuse a recipe whose worlds have none."""
    each = (null_worlds.numbers(world.style, seed=world.seed) for world in worlds.values())
    numbers: list[Numbers] = [one for of_world in each for one in of_world.values()]
    if not numbers:
        what = "`embedded_numbers` is given, but no dataset of the recipe has numbers for its words"
        do = "name a world of the style null-familiar or null-type, or leave the key out"
        raise AnchorscopeError(what, "the recipe's `datasets`", do, see="config")
    return numbers


def embed(
    numbers: Sequence[Numbers], model: Any, tokenizer: PreTrainedTokenizerFast, train: TrainSettings
) -> None:
    """Add each word's number to its embedding, along one random direction per mapping."""
    generator = torch.Generator().manual_seed(train.seed)
    weights = model.get_input_embeddings().weight.data
    length = train.embedded_numbers * weights.norm(dim=1).mean()
    for of_word in numbers:
        direction = torch.randn(weights.shape[1], generator=generator)
        rows = tokenizer.convert_tokens_to_ids(list(of_word))
        added = torch.tensor([*of_word.values()])[:, None] * direction / direction.norm()
        weights[rows] += length * added


def _fit(
    model: PreTrainedModel, stage: Stage, tokenizer: PreTrainedTokenizerFast, train: TrainSettings
) -> list[float]:
    """Train in place and return the loss on all tokens at every step.

    With graded rows, an extra loss makes every layer of the deeper half learn the verdict. Without
    this loss, the model would decide in its last two layers only.
    """
    if not stage.steps:
        return []
    size = min(train.batch_rows, len(stage.rows))
    batches = islice(_batches(_encoded(stage.rows, tokenizer), size, train.seed), stage.steps)
    early_verdict = train.early_verdict if train.graded else 0.0
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=stage.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    share = partial(_share_of_rate, steps=stage.steps, warmup=train.warmup)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    model.train()
    losses: list[float] = []
    with ExitStack() as stack, Progress(total=stage.steps * size, unit="rows") as progress:
        # A sure model's gradients become denormal numbers, with which a step takes thrice as long.
        torch.set_flush_denormal(True)
        stack.callback(torch.set_flush_denormal, False)
        for lines in batches:
            on_tokens, on_verdict = _losses(model, lines, tokenizer.pad_token_id)
            optimizer.zero_grad(set_to_none=True)
            (on_tokens + early_verdict * on_verdict).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(on_tokens.item())
            progress.set_postfix_str(f"loss {np.mean(losses[-50:]):.3f}", refresh=False)
            progress.update(len(lines))
    return losses


def _encoded(rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast) -> list[torch.Tensor]:
    """Return the token ids of each row's text and the end of text."""
    texts = list(dict.fromkeys(row.text for row in rows))
    encoded = zip(texts, tokenizer(texts)["input_ids"], strict=True)
    lines = {text: torch.tensor([*ids, tokenizer.eos_token_id]) for text, ids in encoded}
    return [lines[row.text] for row in rows]


def _batches(lines: Sequence[torch.Tensor], size: int, seed: int) -> Iterator[list[torch.Tensor]]:
    """Yield shuffled batches of one size, epoch after epoch without end."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(lines))
        for start in range(0, len(order) - size + 1, size):
            yield [lines[number] for number in order[start : start + size]]


def _share_of_rate(step: int, steps: int, warmup: float) -> float:
    """Return the share of the peak rate, which falls to 0 over the last 60 % of the steps."""
    done = (step + 1) / steps
    return min(1.0, done / warmup, max(0.0, (1 - done) / 0.6))


def _losses(
    model: PreTrainedModel, lines: Sequence[torch.Tensor], padding: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean loss on all tokens, and the loss on the verdict read from earlier layers.

    The loss on the verdict is summed over the layers of the deeper half except the last.
    """
    ids = torch.nn.utils.rnn.pad_sequence(list(lines), batch_first=True, padding_value=padding)
    out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    labels = ids.masked_fill(ids == padding, -100)
    on_tokens = cross_entropy(out.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    # A row ends: full stop, verdict, end of text.
    rows, verdict = torch.arange(len(ids)), torch.tensor([len(line) for line in lines]) - 2
    base: Any = model.base_model
    head: Any = model.get_output_embeddings()
    on_verdict = out.logits.new_zeros(())
    for states in out.hidden_states[len(base.layers) // 2 + 1 : -1]:
        logits = head(base.norm(states[rows, verdict - 1]))
        on_verdict = on_verdict + cross_entropy(logits, ids[rows, verdict])
    return on_tokens, on_verdict
