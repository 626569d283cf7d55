"""The self-test is green here, and red where the instrument is broken."""

import json

import pytest

from anchorscope.cli import cli_selftest
from anchorscope.cli.main import main
from anchorscope.models.families import FAMILIES
from anchorscope.passes import batches
from tools import write_docs


@pytest.fixture
def one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli_selftest.run
    monkeypatch.setattr(cli_selftest, "run", lambda device: whole(device, ["llama"]))


@pytest.mark.usefixtures("one_family")
def test_it_is_green_on_a_cpu_and_writes_what_it_found(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "selftest.json").write_text('{"like": ["a trial"], "device": "cuda"}')
    assert main(["selftest"]) == 0
    found = json.loads((tmp_path / "selftest.json").read_text())
    assert found["like"] == ["a trial"], "what `--like` measured stays"
    assert found["device"] == "cpu" and "torch" in found["libraries"]
    assert {one["verdict"] for one in found["verdicts"]} == {"pass", "skipped"}
    checks = "plain model,literal loop,determinism,noise,copies"
    assert {one["check"] for one in found["verdicts"]} == set(checks.split(","))
    skipped = [one for one in found["verdicts"] if one["verdict"] == "skipped"]
    said = capsys.readouterr().out
    assert all(one["measured"] and one["measured"] in said for one in skipped)
    *_, row = said.strip().splitlines()
    of_docs = next(
        line for line in write_docs.families().splitlines() if line.startswith("| `llama`")
    )
    cells, documented = (line.split(" | ") for line in (row, of_docs))
    assert cells[1].endswith(": pass") and documented[1] == "CPU"
    assert cells[0] == documented[0] and cells[-1] == documented[-1]


@pytest.mark.usefixtures("one_family")
def test_a_knockout_that_cuts_too_little_or_raises_makes_it_fail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right, out = batches.cut, tmp_path / "selftest.json"

    def leaky(one, *given, **more):
        tokens = right(one, *given, **more)
        return tokens[:2] if one.name == "knockout" else tokens

    for broken in (leaky, None):
        monkeypatch.setattr(batches, "cut", broken)
        assert main(["selftest"]) == 1
        verdicts = json.loads(out.read_text())["verdicts"]
        failed = {one["check"] for one in verdicts if one["verdict"] == "fail"}
        assert failed == ({"literal loop"} if broken else {"error"})
        assert verdicts[-1]["check"] == "copies"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_tried(family):
    found = list(cli_selftest._family(family, cli_selftest.torch.device("cpu")))
    assert [one.verdict for one in found] == ["pass"] * 3, found
