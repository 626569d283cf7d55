"""A model whose `local` is a GGUF file: its sizes, its jobs, and what is said of a bad one."""

from pathlib import Path

import gguf
import pytest
from gguf_model import SIZES, model, tokenizer, write
from workflow import SHIPPED, Workspace, merged

from anchorscope.cli import cli_check
from anchorscope.models import gguf_files
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json
from anchorscope.workflow import config, resources

WORDS = tokenizer()
TARGET = "results/models/given.json"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write(path, model("llama", WORDS), WORDS, quantised=gguf.GGMLQuantizationType.Q8_0)
    return path


def test_sizes_are_those_of_the_dequantised_model_before_it_is_made(file: Path) -> None:
    given = {"local": str(file), "dtype": "float32", "resources": {"gpus": 0}}
    settings = config.load(merged(SHIPPED, {"models": {"given": given}}))
    header = gguf_files.read_header(file)
    layers, width = SIZES["num_hidden_layers"], SIZES["hidden_size"]
    bytes_in_memory = 2.3 * 4 * header.numbers
    assert resources.weights_gb(settings, "given") == pytest.approx(bytes_in_memory / 1e9)
    one = resources.activation_bytes(settings, "given", "popqa")
    larger = merged(SHIPPED, {"models": {"given": given | {"dtype": "bfloat16"}}})
    assert one == 2 * resources.activation_bytes(config.load(larger), "given", "popqa")
    per_state = settings.sample_size * len(settings.readouts) * 4
    assert one % (per_state * layers * width) == 0


def test_a_file_is_dequantised_once_and_again_when_it_changes(
    fresh: Workspace, file: Path, tmp_path: Path
) -> None:
    clone = fresh.copy(tmp_path / "clone")
    change = {"models": {"given": {"local": str(file), "dtype": "float32", "prompt": "chat"}}}
    assert clone.planned(TARGET, change=change) == {"dequantise": 1, "model": 1}
    clone.build(TARGET, change=change)
    located = read_json(clone.root / TARGET)
    assert located["dequantised_from"] == "Q8_0"
    assert Path(located["path"]) == clone.results / "models" / "given"
    weights = Path(located["path"]) / "model.safetensors"
    assert weights.stat().st_mode & 0o777 == (clone.root / TARGET).stat().st_mode & 0o777
    assert clone.planned(TARGET, change=change) == {}
    write(file, model("llama", WORDS, intermediate_size=64), WORDS)
    assert clone.planned(TARGET, change=change) == {"dequantise": 1, "model": 1}


def test_a_file_that_is_absent_is_reported_by_its_job(fresh: Workspace, tmp_path: Path) -> None:
    clone = fresh.copy(tmp_path / "clone")
    done = clone.run(TARGET, change={"models": {"given": {"local": "absent.gguf"}}})
    assert done.returncode and "there is no such GGUF file" in done.stdout + done.stderr


def test_check_says_what_a_file_will_become_or_why_it_cannot_be_used(file: Path) -> None:
    assert cli_check.checkpoint(file, "chat").endswith("to be dequantised from Q8_0")
    broken = file.with_name("broken.gguf")
    broken.write_bytes(file.read_bytes()[:-5000])
    with pytest.raises(AnchorscopeError, match="the GGUF file cannot be read"):
        cli_check.checkpoint(broken, "chat")
