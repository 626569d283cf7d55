"""`anchorscope selftest --like`: test whether a model fits on this device, and how long it takes.

The trial builds a model of the same shape with random weights, so no weights are downloaded. It
makes the same passes, answers and probes as a run. Its prompts are random. Their length is that
of the prompts in the datasets with the longest prompts.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.config.settings import ASKED_PER_SAMPLE, Config
from anchorscope.models import families, loading
from anchorscope.models.families import Loaded
from anchorscope.passes import batches, planning, runner
from anchorscope.passes.batches import Sample
from anchorscope.passes.interventions import CROSSED, CROSSED_GOLD, GOLD, on
from anchorscope.probes import fitting, scoring
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.provenance import usage
from anchorscope.storage.room import Room, tried
from anchorscope.styles import CHAT, style_of
from anchorscope.workflow import resources, trials
from anchorscope.workflow.trials import Stage, Trial, duration

SHARED = {"plain": 2, "few_shot": 140, "chat": 35}
"""Prompt style → number of tokens that all prompts of a cell begin with."""
OWN = {"plain": 40, "few_shot": 40, "chat": 230}
"""Prompt style → number of further tokens. In a chat, PopQA's examples differ by question."""
QUESTION, EXACT, ANSWER = 25, 6, 10
"""Numbers of tokens of a question, of E_Q in it, and of an answer."""
SPARE = 1.1
"""Free memory that a device must have at least, as a multiple of the size of the weights."""
SOUGHT_ON = ("cuda",)
"""Devices whose largest batch is sought. On a CPU, full memory would kill the process."""
LEAST = 256
"""Smallest step of the search for the largest batch, in tokens."""


@dataclass(frozen=True)
class Work:
    """The workload of a trial: prompts of one length, and the settings of a run."""

    config: Config
    shared: int  # number of tokens that all prompts begin with
    own: int  # number of further tokens of a prompt
    vocabulary: int  # number of token ids

    @property
    def prompt(self) -> int:
        """Number of tokens of a prompt."""
        return self.shared + self.own


def report(config: Config, model: str, device: str) -> None:
    """Try a model of the catalogue on a device (`cpu`, `cuda`, …), then store and print the trial.

    Raises:
        AnchorscopeError: See `measure`.
    """
    trial = measure(config, model, torch.device(device))
    trials.keep(trial)
    for line in lines(trial, config):
        print(line)
    print(f"written to {trials.FILE}")


def lines(trial: Trial, config: Config) -> Iterator[str]:
    """Yield the lines of a trial's report, including how long a dataset and each figure take."""
    yield f"{trial.model} on {trial.card}, {trial.dtype}, random weights"
    stages = ", ".join(f"{stage} {gb:.1f}" for stage, gb in trial.memory_gb.items())
    yield f"memory         {trial.weights_gb:.1f} GB of weights; peak in GB: {stages}"
    if trial.largest_batch_tokens is None:
        yield f"batch_tokens   {trial.batch_tokens:,} fits; larger ones are tried on GPUs only"
    else:
        wanted = families.batch_tokens(config.batch_tokens, "cuda")
        how = "fits (the most tried)" if trial.limit is None else "is about the largest that fits"
        largest = f"{trial.largest_batch_tokens:,} {how}"
        yield f"batch_tokens   {largest}; a run uses {wanted:,}, or fewer if they do not fit"
    n, n_asked = samples(config), asked(config)
    each = dict.fromkeys(trial.seconds, n) | {"answers": n_asked}
    stages = ", ".join(
        f"{stage} {duration(each[stage] * seconds)}" for stage, seconds in trial.seconds.items()
    )
    counted = f"at most {n_asked:,} questions and {n:,} samples"
    yield f"one dataset    {duration(trial.time(n_asked, n))} for {counted}: {stages}"
    for name, figure in config.figures.items():
        if trial.model in figure.models:
            yield f"figure         {name}: {_time_of_figure(config, name, trial.card)}"


def _time_of_figure(config: Config, figure: str, card: str) -> str:
    """Return as text how long a figure's models take on a card, and which were not tried."""
    cells, known = config.cells(figure), trials.read()
    tried = {model: trials.of(known, config, model, [card]) for model, _ in cells}
    seconds = 0.0
    for model, dataset in cells:
        if one := tried[model]:
            of_cell = (count(config, dataset) for count in (resources.asked, resources.samples))
            seconds += one.time(*of_cell)
    lacking = [model for model, one in tried.items() if one is None]
    without = f", not counting {', '.join(lacking)} (not tried here)" if lacking else ""
    return f"{duration(seconds)}{without}"


def samples(config: Config) -> int:
    """Return the number of samples on a dataset without a `sample_size` of its own."""
    return min(config.sample_size, config.limit or config.sample_size)


def asked(config: Config) -> int:
    """Return the most questions asked of a dataset without sizes of its own."""
    pool = config.pool_size or ASKED_PER_SAMPLE * config.sample_size
    return math.ceil(pool * samples(config) / config.sample_size)


def shape_of(config: Config, model: str) -> Mapping[str, Any]:
    """Return the config.json of a catalogue model: from local files, `shapes.yaml` or the hub.

    Raises:
        AnchorscopeError: There is no config.json.
    """
    entry, found = config.models[model], resources.shape(config, model)
    if found is None and entry.hub:
        found = loading.fetch_config(entry.hub, entry.revision)
    if found is None:
        what, do = "there is no config.json", "name a folder with one, or train the model first"
        raise AnchorscopeError(what, entry.local or model, do, see="no-checkpoint")
    return found


def measure(config: Config, model: str, device: torch.device) -> Trial:
    """Measure memory and time of a model's shape on a device.

    Raises:
        AnchorscopeError: The config.json or the GPU is missing, the weights or a single sample do
            not fit, or models of this family cannot be measured.
    """
    entry, shape = config.models[model], shape_of(config, model)
    layers, width = families.sizes(shape, model)
    _check_device(device)
    weights = _check_room(model, shape, entry.dtype, device)
    tokens = families.batch_tokens(config.batch_tokens, device.type)
    loading.without_cudnn()
    loaded, largest = loading.build(shape, entry.dtype, device), None
    work = _work(config, entry.prompt, loaded)
    if device.type in SOUGHT_ON:
        most = trials.MOST * tokens
        largest = largest_batch(partial(_fits, loaded, work), start=tokens, most=most)
        tokens = min(tokens, largest)
    taken: dict[Stage, tuple[float, float]] = {
        "answers": _timed(partial(answer, loaded, work, tokens), device),
        "activations": _timed(partial(passes, loaded, work, tokens), device),
    }
    del loaded
    gc.collect()
    torch.cuda.empty_cache()
    fit = partial(fit_layer, config, samples(config), width, device)
    seconds, memory = _timed(fit, device)
    taken["scores"] = seconds * layers * len(config.readouts), memory
    return Trial(
        model=model,
        card=trials.processor() if device.type == "cpu" else torch.cuda.get_device_name(device),
        settings=trials.settings_of(config, entry),
        dtype=entry.dtype,
        batch_tokens=tokens,
        largest_batch_tokens=largest,
        weights_gb=weights / 1e9,
        memory_gb={stage: memory for stage, (_, memory) in taken.items()},
        seconds={stage: seconds for stage, (seconds, _) in taken.items()},
    )


def _check_device(device: torch.device) -> None:
    """Refuse a GPU that this machine does not have."""
    if device.type == "cpu":
        return
    if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
        do = "run the command on a GPU node, or with `--device cpu` (slow)"
        raise AnchorscopeError("there is no usable GPU", f"device {device}", do, see="no-gpu")


def _check_room(model: str, shape: Mapping[str, Any], dtype: str, device: torch.device) -> int:
    """Return the bytes of a model's weights. Refuse a model that does not fit on the device.

    The weights are counted on the device `meta`, which allocates no memory.
    """
    whole = loading.build(shape, dtype, torch.device("meta")).model
    weights = sum(one.numel() * one.element_size() for one in whole.parameters())
    on_gpu = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if on_gpu else psutil.virtual_memory().available
    if SPARE * weights > free:
        what = (
            f"{model} has {weights / 1e9:.1f} GB of weights in {dtype} and takes at least "
            f"{SPARE * weights / 1e9:.1f} GB, but {free / 1e9:.1f} GB are free"
        )
        do = "try it on a device with more memory; a run can use several GPUs (`resources.gpus`)"
        raise AnchorscopeError(what, f"memory of {device}", do, see="out-of-memory")
    return weights


def _work(config: Config, prompt: str, loaded: Loaded) -> Work:
    """Return the workload of a prompt style. Prompts are cut to the model's number of positions."""
    style = style_of(prompt)
    name = "chat" if style.templated else "few_shot" if style.shows_examples else "plain"
    most = families.positions(loaded.model.config) or 1 << 30
    own = min(OWN[name], most // 2)
    room = most - own - max(ANSWER, config.generation.max_new_tokens)
    return Work(config, min(SHARED[name], max(0, room)), own, families.embedded(loaded.model))


def _prompts(work: Work, n: int) -> list[tuple[int, ...]]:
    """Return random token ids of `n` prompts, the same in every call."""
    generator = Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(generator.choices(range(work.vocabulary), k=count))

    shared = ids(work.shared)
    return [shared + ids(work.own) for _ in range(n)]


def _samples(work: Work, n: int) -> list[Sample]:
    """Return samples that suit all conditions: each has a wrong and a gold answer and a partner."""
    prompts, start = _prompts(work, n + 1), work.prompt
    first = work.shared + max(0, work.own - QUESTION - 8)
    question = tuple(range(first, min(first + QUESTION, start - 2)))
    places = {"final": ANSWER - 1, "last_answer": ANSWER - 2, "before_answer": -1, "prompt_end": -1}
    positions = {name: start + place for name, place in places.items()}
    answered = [prompts[number] + prompts[-1][-ANSWER:] for number in range(n)]
    made = [
        Sample(str(number), ids, positions, question, question[:EXACT], start)
        for number, ids in enumerate(answered)
    ]
    for number, sample in enumerate(made):
        moved = planning.behind(sample, made[number - 1])
        gold = replace(sample, others={})
        sample.others.update({CROSSED: moved, GOLD: gold, CROSSED_GOLD: moved})
    return made


class _Strict(Room):
    """A `Room` that raises an error if a batch does not fit, instead of halving it."""

    def run(self, samples: Any, tokens: Any, work: Any) -> list[Any]:
        return [work(samples)]


def passes(loaded: Loaded, work: Work, tokens: int) -> int:
    """Run one full batch under all conditions. Return the number of samples in it."""
    conditions = on(work.config.conditions.model_dump())
    rows = sum(not one.own_batch for one, _ in conditions)
    n = tokens // (rows * (work.prompt + ANSWER))
    made = _samples(work, max(2, n))  # a sample needs a partner
    plan = batches.arrange(made, conditions, batch_tokens=tokens)
    readouts = families.readable(loaded, work.config.readouts)
    found = runner.measure(loaded, plan, readouts, numbers=[0], room=_Strict(), outputs=True)
    return sum(len(batch.samples) for batch, _ in found)


def answer(loaded: Loaded, work: Work, tokens: int) -> int:
    """Generate one full batch of answers of full length. Return their number."""
    most = work.config.generation.max_new_tokens
    prompts = _prompts(work, max(1, tokens // (work.prompt + most)))
    ending = Ending(CHAT, closing=(), eos=frozenset())
    sized = replace(loaded, batch_tokens=tokens)
    return len(generation.generate(prompts, sized, ending, max_new_tokens=most, room=_Strict()))


def _fits(loaded: Loaded, work: Work, tokens: int) -> bool:
    """Return whether full batches of `tokens` tokens fit in memory."""
    return all(tried(partial(call, loaded, work, tokens)) for call in (passes, answer))


def largest_batch(fits: Callable[[int], bool], *, start: int, most: int) -> int:
    """Return the largest batch that fits, in tokens, or one at most an eighth or `LEAST` smaller.

    The search doubles or halves from `start`, up to `most`, then bisects.

    Raises:
        AnchorscopeError: Not even one sample fits.
    """
    low, high, size = 0, most + 1, start
    while high - low > max(low // 8, LEAST):
        if fits(size):
            low = size
        else:
            high = size
        size = min(2 * low, most) if high > most else (low + high) // 2
    if not low:
        what = "one sample does not fit beside the weights"
        do = "use a larger GPU, or fewer conditions"
        raise AnchorscopeError(what, "memory of the device", do, see="out-of-memory")
    return low


def fit_layer(config: Config, n: int, width: int, device: torch.device) -> int:
    """Fit and score the probes of one layer and read-out, on made-up states of `n` samples."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(2, (n,), generator=generator)
    ids = [str(number) for number in range(n)]
    columns = dict.fromkeys(("id", "question", "subject", "ea_text"), ids)
    answers = pd.DataFrame({**columns, "label": label.numpy(), "dropped": None})
    # Like hidden states, these are ill-conditioned: the scale of direction k falls as 1/k.
    mixed = torch.randn(width, width, generator=generator) / torch.arange(1, width + 1)[:, None]
    x = torch.randn(n, width, generator=generator)
    x[:, :8] += 0.3 * label[:, None]
    states = (x @ mixed)[None]
    settings = fitting.ProbeSettings(**config.probe.model_dump(), seed=config.seed)
    design = fitting.design(answers, settings)
    scoring.Scoring(
        lambda *_: (np.arange(n), states),
        design,
        scoring.refit_weights(answers, design),
        config.readouts[:1],
        planning.conditions_of(config.conditions.model_dump()),
        device,
    ).run()
    return n


def _timed(call: Callable[[], int], device: torch.device) -> tuple[float, float]:
    """Return the seconds per sample of a call, and the peak memory in GB.

    On a GPU, the first call is not timed, since it also sets up libraries.
    """
    on_gpu = device.type == "cuda"
    if on_gpu:
        call()
        torch.cuda.reset_peak_memory_stats(device)
    start = time.perf_counter()
    n = call()  # returns after its results are in main memory
    seconds = (time.perf_counter() - start) / n
    peak = torch.cuda.max_memory_allocated(device) if on_gpu else usage()["peak_memory_mib"] * 2**20
    return seconds, peak / 1e9
