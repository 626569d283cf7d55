"""One other project's ways to states or token probabilities; runs in its own environment.

    build/peers/nnsight/bin/python benchmarks/peer.py nnsight FOLDER

The folder holds the model, the sequences and what is expected, as `peers.py` writes them. The
plain one-pass way is timed here, too, in turn with the others, and ratios are to it. Prints a line
of JSON for each way.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import timing
import torch

AT_ONCE = 8
States = dict[tuple[int, int], torch.Tensor]
"""(sequence, 1 if blocked) → [layers, width]."""
MEAN = -1
"""Stands for a token's place: the mean log-probability of the answer's tokens."""
PADDING = "<padding>"
Row = dict[str, Any]
Found = dict[tuple[int, int], torch.Tensor]
"""(sequence, token's place or `MEAN`) → log-probability and entropy, [2]; of `MEAN` the first."""
Ways = dict[str, tuple[Callable[[], Found], float]]


def mask_of(rows: list[Row], cuts: list[list[int]]) -> torch.Tensor:
    """Additive mask [rows, 1, width, width]: causal, no padding, no attention to what is cut."""
    width = max(len(row["ids"]) for row in rows)
    index = torch.arange(width)
    found = []
    for row, cut in zip(rows, cuts, strict=True):
        blocked = torch.isin(index, torch.tensor(cut, dtype=torch.long))
        is_open = (index <= index[:, None]) & (index < len(row["ids"]))
        is_open &= ~(blocked & ~blocked[:, None])
        is_open |= index == index[:, None]
        found.append(torch.zeros(width, width).masked_fill(~is_open, torch.finfo().min))
    return torch.stack(found)[:, None]


def padded(rows: list[Row]) -> torch.Tensor:
    """Ids padded on the right, int64 [rows, longest]."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(r["ids"]) for r in rows], batch_first=True)


def batches(rows: list[Row]) -> Iterator[list[Row]]:
    """Rows of similar length."""
    ordered = sorted(rows, key=lambda row: len(row["ids"]))
    for start in range(0, len(ordered), AT_ONCE):
        yield ordered[start : start + AT_ONCE]


def stacked(rows: list[Row]) -> Iterator[tuple[list[Row], Any, Any, Any]]:
    """Batches sorted by length: rows, and ids, mask and read-out tokens of clean and blocked."""
    for some in batches(rows):
        twice = [*some, *some]
        cuts: list[list[int]] = [[]] * len(some) + [row["cut"] for row in some]
        yield some, padded(twice), mask_of(twice, cuts), [row["final"] for row in twice]


def named(some: list[Row], states: torch.Tensor) -> States:
    """States [2 × rows, layers, width] by sequence and condition."""
    halves = states.unflatten(0, (2, len(some)))
    return {(row["id"], k): halves[k, n] for k in (0, 1) for n, row in enumerate(some)}


def one_pass(model: Any, rows: list[Row]) -> States:
    """The plain way: hooks on the base model."""
    found: States = {}
    for some, ids, mask, finals in stacked(rows):
        seen: list[torch.Tensor] = []
        handles = [
            block.mlp.register_forward_hook(
                lambda _, __, out, seen=seen, finals=finals: seen.append(
                    out[range(len(finals)), finals]
                )
            )
            for block in model.model.layers
        ]
        with torch.inference_mode():
            model.model(input_ids=ids, attention_mask=mask, use_cache=False)
        for handle in handles:
            handle.remove()
        found |= named(some, torch.stack(seen, 1))
    return found


def nnsight(model: Any, rows: list[Row]) -> dict[str, tuple[Callable[[], Any], float]]:
    """The base model traced once a batch; and the literal loop on some sequences."""
    from nnsight import NNsight

    base, whole = NNsight(model.model), NNsight(model)
    depth = len(model.model.layers)

    def best() -> States:
        found: States = {}
        for some, ids, mask, finals in stacked(rows):
            every = list(range(len(finals)))
            with (
                torch.inference_mode(),
                base.trace(input_ids=ids, attention_mask=mask, use_cache=False),
            ):
                seen: Any = list().save()  # type: ignore[attr-defined]  # noqa: C408 -- nnsight's own
                for layer in base.layers:
                    seen.append(layer.mlp.output[every, finals])
            found |= named(some, torch.stack(list(seen), 1))
        return found

    timed = rows[:: max(1, len(rows) // 8)][:8]

    def literal() -> States:
        found: States = {}
        for row in timed:
            ids, final = torch.tensor([row["ids"]]), row["final"]
            clear, shut = mask_of([row], [[]]), mask_of([row], [row["cut"]])
            with torch.inference_mode(), whole.trace(input_ids=ids):
                clean: Any = list().save()  # type: ignore[attr-defined]  # noqa: C408
                for layer in whole.model.layers:
                    clean.append(layer.mlp.output[0, final])
            blocked = []
            for last in range(depth):
                with torch.inference_mode(), whole.trace(input_ids=ids):
                    for k, layer in enumerate(whole.model.layers):
                        args, given = layer.self_attn.inputs
                        given = {**given, "attention_mask": shut if k <= last else clear}
                        layer.self_attn.inputs = (args, given)
                        if k == last:
                            state = layer.mlp.output[0, final].save()
                blocked.append(state)
            found |= {
                (row["id"], 0): torch.stack(list(clean)),
                (row["id"], 1): torch.stack(blocked),
            }
        return found

    return {"nnsight": (best, 1.0), "nnsight-literal-1": (literal, len(rows) / len(timed))}


def pyvene(model: Any, rows: list[Row]) -> dict[str, tuple[Callable[[], Any], float]]:
    """One pass of the base model a batch, the states collected; it cannot loop over layers."""
    import pyvene as pv

    depth = len(model.model.layers)
    representations = [{"layer": k, "component": "mlp_output", "unit": "pos"} for k in range(depth)]
    config = pv.IntervenableConfig(
        [one | {"intervention_type": pv.CollectIntervention} for one in representations]
    )
    wrapped = pv.IntervenableModel(config, model=model.model)

    def best() -> States:
        found: States = {}
        for some, ids, mask, finals in stacked(rows):
            places = [[[final] for final in finals]] * depth
            with torch.inference_mode():
                (_, seen), _ = wrapped(
                    {"input_ids": ids, "attention_mask": mask, "use_cache": False},
                    unit_locations={"base": places},
                )
            states = torch.stack([one.reshape(len(finals), -1) for one in seen], 1)
            found |= named(some, states)
        return found

    return {"pyvene": (best, 1.0)}


def transformer_lens(model: Any, rows: list[Row]) -> dict[str, tuple[Callable[[], Any], float]]:
    """The bridge, one pass a batch, with the cache of what is read alone."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PreTrainedTokenizerFast

    # It asks for a tokenizer, which ids need not: one of a single word serves.
    words = Tokenizer(WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", pad_token="<unk>", eos_token="<unk>"
    )
    name = model.config.name_or_path
    bridge = TransformerBridge.boot_transformers(name, hf_model=model, tokenizer=tokenizer)
    depth = len(model.model.layers)
    names = [f"blocks.{k}.mlp.hook_out" for k in range(depth)]

    def best() -> States:
        found: States = {}
        for some, ids, mask, finals in stacked(rows):
            with torch.inference_mode():
                _, cache = bridge.run_with_cache(
                    ids, attention_mask=mask, names_filter=names, return_type=None
                )
            every = range(len(finals))
            found |= named(some, torch.stack([cache[name][every, finals] for name in names], 1))
        return found

    return {"transformer-lens": (best, 1.0)}


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


def text(ids: list[int]) -> str:
    return " ".join(map(str, ids))


@torch.inference_mode()
def token_probabilities(model: Any, rows: list[Row]) -> Found:
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


PEERS = {"nnsight": nnsight, "pyvene": pyvene, "transformer-lens": transformer_lens}
OF_OUTPUTS = {"lm-polygraph": lm_polygraph, "truthtorchlm": truthtorchlm}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=[*PEERS, *OF_OUTPUTS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", default="wall")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(chosen.folder, dtype=torch.float32)
    model = model.eval().requires_grad_(False)
    rows = json.loads((chosen.folder / "sequences.json").read_text(encoding="utf-8"))
    expected = torch.load(chosen.folder / "expected.pt", weights_only=True)
    if chosen.name in PEERS:
        plain, peer = one_pass, PEERS[chosen.name]
    else:
        plain, peer = token_probabilities, OF_OUTPUTS[chosen.name]
    ways = {"one-pass": (lambda: plain(model, rows), 1.0)} | peer(model, rows)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    differences, peaks = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for number in range(chosen.rounds):
        for name, (run, scale) in timing.in_turn(ways.items(), number):
            found, taken = timing.timed(run, chosen.clock)
            seconds[name].append(scale * taken.seconds)
            peaks[name] = max(peaks[name], taken.peak_mb)
            for (sequence, cut), states in found.items():
                difference = float((states - expected[sequence, cut]).abs().max())
                differences[name] = max(differences[name], difference)
    for name in list(ways)[1:]:
        ratio = timing.ratio(seconds[name], seconds["one-pass"])
        print(json.dumps({"way": name, "ratio": ratio, "max_difference": differences[name],
                          "peak_mb": peaks[name]}))  # fmt: skip


if __name__ == "__main__":
    main()
