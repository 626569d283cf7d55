"""Tokenizers: read as their own file says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contents import edit
from transformers import AutoTokenizer

from anchorscope.anchors import tokens
from anchorscope.models import loading, vocabulary

QUESTION = "Q: What is George  Rankin's occupation? A:"


@pytest.mark.parametrize(
    ("family", "name"),
    [("llama", "LlamaTokenizer"), ("olmo2", "GPT2Tokenizer"), ("qwen2", "LlamaTokenizer"),
     ("qwen3", "Qwen2Tokenizer")],
)  # fmt: skip
def test_a_tokenizer_reads_what_its_file_says_whatever_class_is_declared(
    family: str, name: str, checkpoint: Any, tmp_path: Path
) -> None:
    """The first two by transformers alone, too: what its least version in pyproject.toml is for."""
    folder = shutil.copytree(checkpoint(family), tmp_path / "model")
    edit(folder, "tokenizer_config.json", tokenizer_class=name)
    file = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    parts = [{"type": "Digits", "individual_digits": True}, file["pre_tokenizer"]]
    edit(folder, "tokenizer.json", pre_tokenizer={"type": "Sequence", "pretokenizers": parts})
    of_transformers, tokenizer = AutoTokenizer.from_pretrained(folder), vocabulary.load(folder)
    if family in ("llama", "olmo2"):
        assert vocabulary.reads_as_its_file(of_transformers, folder)
    assert vocabulary.reads_as_its_file(tokenizer, folder)
    assert len(tokenizer.encode("1867")) == 4
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 0)


@pytest.mark.parametrize("name", ["byte_level", "metaspace"])
@pytest.mark.parametrize("switch", [True, False])
def test_texts_begin_as_add_bos_token_says_whatever_the_tokenizers_file_does(
    name: str, switch: bool, checkpoint: Any, tmp_path: Path
) -> None:
    """The file of `metaspace` adds the start token, that of `byte_level` does not."""
    folder = shutil.copytree(checkpoint("llama", name), tmp_path / "model")
    begins = {"byte_level": "<|endoftext|>", "metaspace": "<s>"}[name]
    edit(folder, "tokenizer_config.json", bos_token=begins, add_bos_token=switch)
    tokenizer = loading.load(folder).tokenizer
    (encoded,) = tokens.encode(tokenizer, [QUESTION], add_special_tokens=True)
    assert (encoded.ids[0] == tokenizer.bos_token_id) == switch
    (bare,) = tokens.encode(tokenizer, [QUESTION], add_special_tokens=False)
    assert (encoded.ids[switch:], encoded.offsets[switch:]) == (bare.ids, bare.offsets)


def test_loading_switches_cudnns_attention_off(checkpoint: Any) -> None:
    cuda, before = torch.backends.cuda, torch.backends.cuda.cudnn_sdp_enabled()
    try:
        cuda.enable_cudnn_sdp(True)
        loading.load(checkpoint("llama"))
        assert not cuda.cudnn_sdp_enabled()
    finally:
        cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize(
    "file", ["chat_template.jinja", "additional_chat_templates/default.jinja", None]
)
def test_a_chat_template_is_seen_and_counts_wherever_it_is(
    tmp_path: Path, file: str | None
) -> None:
    named = [{"name": "default", "template": "{{ messages }}"}]
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({} if file else {"chat_template": named})
    )
    bare = loading.files(tmp_path)
    if file:
        assert not vocabulary.has_template(tmp_path)
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("{{ messages }}")
        assert loading.files(tmp_path) == sorted([*bare, tmp_path / file])
    assert vocabulary.has_template(tmp_path)
