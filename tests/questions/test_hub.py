"""The hub asked again where that may help, and only there: a played hub, the real client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled
from playedhub import COMMIT, Hub, playing

from anchorscope.cli import cli_check
from anchorscope.models import loading
from anchorscope.questions import hub
from anchorscope.storage.errors import AnchorscopeError

TOKEN = "hf_PlantedPlantedPlantedPlantedPla0123"


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


@pytest.mark.parametrize("status", [None, 429, 503])
def test_what_passes_is_waited_for_ever_longer(
    played: Hub, waited: list[float], status: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    played.refusals = [(status, {})] * 2 if status else []
    with caplog.at_level(logging.WARNING, "anchorscope.questions.hub"):
        folder, commit = loading.fetch("owner/name")
    assert commit == COMMIT and (folder / "model.safetensors").is_file()
    loading.check(folder)
    assert waited == ([1.0, 2.0] if status else []) and TOKEN not in caplog.text
    if status:
        assert f"owner/name: status {status}; attempt 1 failed, the next in 1 s" in caplog.text


@pytest.mark.parametrize(
    ("status", "code", "what", "see"),
    [
        (401, None, "gated and access was not granted", "gated"),
        (401, "GatedRepo", "gated and access was not granted", "gated"),
        (403, "GatedRepo", "gated and access was not granted", "gated"),
        (404, "RepoNotFound", "no such model", "no-such-repository"),
        (404, "RevisionNotFound", "no such revision", "no-such-revision"),
    ],
)  # fmt: skip
def test_what_is_refused_is_not_asked_again_and_said_as_the_check_says_it(
    played: Hub, waited: list[float], status: int, code: str | None, what: str, see: str
) -> None:
    played.always = (status, {"X-Error-Code": code} if code else {})
    with pytest.raises(AnchorscopeError, match=what) as caught:
        loading.fetch("owner/name")
    assert waited == [] and caught.value.see == see
    assert TOKEN not in str(caught.value)
    with pytest.raises(AnchorscopeError) as asked:
        cli_check.ask("model", "owner/name")
    assert (asked.value.what, asked.value.do) == (caught.value.what, caught.value.do)


@pytest.mark.parametrize(
    ("trouble", "said", "see"),
    [
        (503, "status 503", "hub-status"),
        ("no route", "the hub cannot be reached", "hub-unreachable"),
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
    else:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(AnchorscopeError, match=said) as caught:
        loading.fetch("owner/name")
    assert waited == [1.0, 2.0, 4.0] and caught.value.see == see
    assert len(played.asked) == (0 if trouble == "no route" else 4)


def test_neither_a_hub_that_may_not_be_asked_nor_a_bug_is_retried(waited: list[float]) -> None:
    def offline() -> Any:
        raise LocalEntryNotFoundError("not here") from OfflineModeIsEnabled("offline")

    with pytest.raises(AnchorscopeError, match="cannot be reached"):
        hub.fetch(offline, "model", "owner/name")
    with pytest.raises(KeyError):
        hub.fetch(lambda: {}["x"], "model", "owner/name")
    assert waited == []
