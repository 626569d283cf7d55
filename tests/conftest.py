"""Tiny checkpoints with random weights, saved to disk and loaded like any model of the hub."""

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import workflow
from filelock import FileLock
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

FIRST = (
    "test_first_model", "test_published_figures", "test_end_to_end", "test_contract",
    "test_figures", "test_page", "test_faults", "test_dag", "test_bad_inputs", "test_docs",
    "test_shipped", "test_benchmarks",
)  # fmt: skip
"""Files that take longest; those before `test_end_to_end` do not need the run that it makes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, for even loads; long tests only if `LONG_TESTS` is set."""
    for item in items:
        if item.get_closest_marker("long") and not os.environ.get("LONG_TESTS"):
            item.add_marker(pytest.mark.skip(reason="takes long: make test-all"))
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(FIRST)))


CORPUS = [
    "Q: What is George Rankin's occupation? A: politician .",
    "Q: What is Mary-Ann O'Neill's occupation? A: painter .",
    "Q: In what city was Zoltán Szabó born? A: Győr .",
    "Q: Who wrote The  Red House in 1894? A: The answer is Anna Lund. She was born in 1867 .",
    "Q: who is the author of 東京物語 A: 小津安二郎 .",
    "Q: Кто написал роман Тихий Дон? A: Михаил Шолохов .",
    "Q: Which film has the director of Second Street, or The 39 Steps? A: yes .",
    "Q: what year did the 2nd bridge over the river open A: in 1932 .",
]
ALL_FAMILIES = (
    "llama", "qwen2", "qwen3", "qwen3_moe", "mistral", "mixtral", "gemma3_text", "olmo2", "phi3",
    "gpt2", "gpt_neox", "falcon",
)  # fmt: skip
FINAL_NORM = {"gpt_neox": "final_layer_norm", "gpt2": "ln_f", "falcon": "ln_f"}
WINDOW = 96
LAYERS = 4
WIDTH = 32


def _byte_level() -> Any:
    """Byte-level BPE without a start token, as Qwen has it."""
    tokenizer, end = Tokenizer(models.BPE()), "<|endoftext|>"
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    every = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=[end], initial_alphabet=every)
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer, {"eos_token": end, "pad_token": end}


def _metaspace() -> Any:
    """Metaspace BPE with byte fallback and a start token, as Llama 2 and Mistral have it."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Metaspace(prepend_scheme="first")]
    )
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special)
    # Other letters than these become bytes; a limit on the alphabet would break ties by chance.
    tokenizer.train_from_iterator([text for text in CORPUS if text.isascii()] * 4, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer, {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def final_norm(loaded: Any) -> Any:
    """The norm after the last block."""
    return getattr(loaded.model.base_model, FINAL_NORM.get(loaded.model.config.model_type, "norm"))


@cache
def tokenizer(name: str) -> Any:
    """A fast tokenizer trained on CORPUS: `byte_level` or `metaspace`."""
    from transformers import PreTrainedTokenizerFast

    trained, special = {"byte_level": _byte_level, "metaspace": _metaspace}[name]()
    return PreTrainedTokenizerFast(tokenizer_object=trained, **special)


def config(family: str, vocabulary: int) -> Any:
    """The config of a tiny model that fits the tokenizers of the tests, which have no padding."""
    from anchorscope.models import tiny

    sizes = {
        "vocab_size": vocabulary, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH,
        "head_dim": 8, "query_pre_attn_scalar": 8, "moe_intermediate_size": WIDTH,
        "num_experts": 4, "num_local_experts": 4,
        "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None,
    }  # fmt: skip
    return tiny.config(family, **sizes)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`checkpoint(family, tokenizer="byte_level")`: the folder of a saved fp32 model."""

    @cache
    def save(family: str, name: str = "byte_level") -> Path:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp(f"{family}-{name}")
        fast = tokenizer(name)
        model = AutoModelForCausalLM.from_config(config(family, len(fast)), dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms and biases start at exactly 1 or 0, which hides errors
                parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(folder)
        fast.save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def load(checkpoint: Callable[..., Path]) -> Callable[..., Any]:
    """`load(family, tokenizer="byte_level")`: that model loaded; shared, so leave it unchanged."""
    from anchorscope.models import loading

    return cache(lambda *names: loading.load(checkpoint(*names)))


@pytest.fixture(scope="session")
def byte_level() -> Any:
    """The byte-level tokenizer."""
    return tokenizer("byte_level")


@pytest.fixture(scope="session")
def metaspace() -> Any:
    """The metaspace tokenizer."""
    return tokenizer("metaspace")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> workflow.Workspace:
    """A finished run of the figure `tiny`; shared, so leave its products as they are.

    The first test process that needs it makes it, and each works on a copy of its own.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which all processes share
    shared, finished = workflow.Workspace(folder / "made", workflow.TINY), folder / "finished"
    with FileLock(folder / "made.lock"):
        if not finished.exists():
            shutil.rmtree(shared.root, ignore_errors=True)  # left by a process whose run failed
            workflow.workspace(shared.root, workflow.TINY)
            workflow.taught(shared.root)
            shared.build()
            finished.touch()
    return shared.copy(tmp_path_factory.mktemp("tiny") / "clone")


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> workflow.Workspace:
    """A clone in which nothing was made; for dry runs."""
    return workflow.workspace(tmp_path_factory.mktemp("fresh") / "clone")


@pytest.fixture(scope="session")
def detector(load: Any) -> Any:
    """A `Detector` of a tiny model and 60 answers; shared, so leave it unchanged."""
    from own_rows import SETTINGS, rows

    import anchorscope

    loaded = load("llama")
    return anchorscope.measure(loaded.model, loaded.tokenizer, rows(), **SETTINGS).detector()


@pytest.fixture(scope="session")
def small() -> Any:
    """A planted cell of 240 answers that the tests of detectors share; leave it unchanged."""
    from planted import planted

    return planted(n=240)
