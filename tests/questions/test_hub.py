"""The hub asked again where that may help, and only there: a played hub, the real client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playedhub import COMMIT, Hub, playing

from anchorscope.cli import cli_check
from anchorscope.models import loading
from anchorscope.questions import hub
from anchorscope.storage.errors import AnchorscopeError

TOKEN = "hf_PlantedPlantedPlantedPlantedPla0123"
GATED = {"X-Error-Code": "GatedRepo"}


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of them for real."""
    pauses: list[float] = []
    monkeypatch.setattr(hub, "ATTEMPTS", 4)
    monkeypatch.setattr(hub, "sleep", pauses.append)
    return pauses


@pytest.fixture
def played(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoint: Callable[..., Path]
) -> Iterator[Hub]:
    """The hub that the client asks; it serves a tiny model."""
    from huggingface_hub import constants

    with playing() as served:
        served.folder = checkpoint("llama")
        template = served.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", served.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 1)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served


def test_a_model_is_fetched_from_a_hub_that_answers(played: Hub, waited: list[float]) -> None:
    folder, commit = loading.fetch("owner/name")
    assert commit == COMMIT and (folder / "model.safetensors").is_file()
    loading.check(folder)
    assert waited == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_passes_is_waited_for_ever_longer(
    played: Hub, waited: list[float], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    played.refusals = [(status, {})] * 2
    with caplog.at_level(logging.WARNING, "anchorscope.questions.hub"):
        assert loading.fetch("owner/name")[1] == COMMIT
    assert waited == [1.0, 2.0]
    assert f"owner/name: status {status}; attempt 1 failed, the next in 1 s" in caplog.text
    assert TOKEN not in caplog.text


def test_the_hub_says_how_long_to_wait(played: Hub, waited: list[float]) -> None:
    played.refusals = [(429, {"Retry-After": seconds}) for seconds in ("7", "999999", "soon")]
    assert loading.fetch("owner/name")[1] == COMMIT
    assert waited == [7.0, hub.LONGEST, 4.0]


@pytest.mark.parametrize(
    ("status", "headers", "what", "see"),
    [
        (401, {}, "gated and access was not granted", "gated"),
        (401, {"X-Error-Code": "GatedRepo"}, "gated and access was not granted", "gated"),
        (403, GATED, "gated and access was not granted", "gated"),
        (403, {}, "gated and access was not granted", "gated"),
        (404, {"X-Error-Code": "RepoNotFound"}, "no such model", "no-such-repository"),
        (404, {"X-Error-Code": "RevisionNotFound"}, "no such revision", "no-such-revision"),
    ],
)
def test_what_is_refused_is_not_asked_again(
    played: Hub, waited: list[float], status: int, headers: dict[str, str], what: str, see: str
) -> None:
    played.always = (status, headers)
    with pytest.raises(AnchorscopeError, match=what) as caught:
        loading.fetch("owner/name")
    assert waited == [] and caught.value.see == see
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("trouble", "said", "see"),
    [
        (429, "status 429", "hub-status"),
        (503, "status 503", "hub-status"),
        ("no route", "the hub cannot be reached", "hub-unreachable"),
        ("silence", "the hub cannot be reached", "hub-unreachable"),
    ],
)
def test_a_hub_in_trouble_is_asked_again_then_given_up(
    played: Hub,
    waited: list[float],
    monkeypatch: pytest.MonkeyPatch,
    trouble: int | str,
    said: str,
    see: str,
) -> None:
    if isinstance(trouble, int):
        played.always = (trouble, {})
    elif trouble == "silence":
        monkeypatch.setattr(hub, "SILENCE", 0.2)
        played.pause = 1.0
    else:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(AnchorscopeError, match=said) as caught:
        loading.fetch("owner/name")
    assert waited == [1.0, 2.0, 4.0] and caught.value.see == see
    assert len(played.asked) == (0 if trouble == "no route" else 4)


@pytest.mark.parametrize(
    "answer", [(401, {}), (403, GATED), (404, {"X-Error-Code": "RepoNotFound"}), (429, {})]
)
def test_the_stage_says_what_the_check_before_it_says(
    played: Hub, waited: list[float], answer: tuple[int, dict[str, str]]
) -> None:
    played.always = answer
    with pytest.raises(AnchorscopeError) as caught:
        loading.fetch("owner/name")
    found = cli_check.ask("model", "owner/name", "model m")
    assert found.status == "error"
    assert found.what == f"model m: {caught.value.what}" and found.do == caught.value.do


def test_no_machine_waits_for_a_hub_that_it_may_not_ask(waited: list[float]) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    def offline() -> Any:
        raise LocalEntryNotFoundError("not here") from OfflineModeIsEnabled("offline")

    with pytest.raises(AnchorscopeError, match="cannot be reached"):
        hub.fetch(offline, "model", "owner/name")
    assert waited == []


def test_a_bug_is_neither_retried_nor_taken_for_the_hubs(waited: list[float]) -> None:
    with pytest.raises(KeyError):
        hub.fetch(lambda: {}["x"], "model", "owner/name")
    assert waited == []
