"""The hub out of reach, slow, busy or closed: waited for where it helps, else one message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playedhub import COMMIT, Hub, playing
from workflow import Workspace

from anchorscope.cli import cli_check
from anchorscope.models import models
from anchorscope.questions import hub
from anchorscope.storage.errors import AnchorscopeError
from faults.conftest import Ledger
from faults.harness import FULL, World, run

WAITS = (0.01, 0.02, 0.04)
GATED = {"X-Error-Code": "GatedRepo"}
MISSING = {"X-Error-Code": "RepoNotFound"}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: World) -> Iterator[Hub]:
    """A hub on this machine, with the world's model, that this process asks."""
    from huggingface_hub import constants

    with playing() as served:
        served.folder = world.finished.results / "models" / "tiny"
        template = served.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", served.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub, "WAITS", WAITS)
        monkeypatch.setattr(hub, "SILENCE", 0.2)
        yield served


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_is_waited_for(played: Hub, ledger: Ledger, status: int, times: int) -> None:
    played.refusals = [(status, {"Retry-After": "0"} if status == 429 else {})] * times
    with ledger.entering(f"hub {status}, then well"):
        found = models.fetch("owner/name")
        assert found[1] == COMMIT and (found[0] / "model.safetensors").is_file()


def test_a_slow_hub_is_waited_for(played: Hub, ledger: Ledger) -> None:
    played.pauses = [0.5, 0.5]
    with ledger.entering("hub slow, then well"):
        assert models.fetch("owner/name")[1] == COMMIT


REFUSALS = {
    "unreachable": (None, "the hub cannot be reached"),
    "slow for good": (None, "the hub cannot be reached"),
    "429 for good": ((429, {}), "status 429"),
    "401": ((401, {}), "access was not granted"),
    "403 gated": ((403, GATED), "access was not granted"),
    "404": ((404, MISSING), "no such model"),
}


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_hub_that_stays_closed_ends_in_the_message_of_the_check(
    played: Hub, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    played.always, said = REFUSALS[fault]
    if fault == "unreachable":
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    played.pause = 0.5 if fault == "slow for good" else 0.0
    # What is given up ends in words: there is nothing to go on with.
    with ledger.entering(f"hub {fault}"):
        with pytest.raises(AnchorscopeError, match=said) as caught:
            models.fetch("owner/name")
        checked = cli_check.ask("model", "owner/name", "m")
        assert checked.what == f"m: {caught.value.what}" and checked.do == caught.value.do


def located(clone: Workspace, served: Hub) -> tuple[int, str]:
    """Ask the workflow for a model of the played hub."""
    change = {"models": {"far": {"hub": "owner/name", "prompt": "plain", "dtype": "float32"}}}
    env = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": served.address}
    return run(clone, "results/models/far.json", change=change, env=env)


@pytest.mark.skipif(not FULL, reason="make test-all runs it")
def test_the_workflow_waits_for_a_busy_hub_and_names_a_closed_one(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    with (
        ledger.entering("hub 403, then 429, then well"),
        world.before("table", tmp_path / "clone") as clone,
        playing() as served,
    ):
        served.folder = world.finished.results / "models" / "tiny"
        served.always = (403, GATED)
        closed, text = located(clone, served)
        named = "gated and access was not granted" in text and "#gated" in text
        left = (clone.results / "models" / "far.json").exists()
        served.always, served.refusals = None, [(429, {"Retry-After": "1"})]
        code, told = located(clone, served)
        waited = "status 429; attempt 1 failed, the next in 1 s" in told
        assert closed != 0 and named and not left, text
        assert code == 0 and waited, told
