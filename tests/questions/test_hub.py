"""The hub: asked again where that may help and only there, its refusals told by their type."""

import logging
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import errors

from anchorscope.questions import hub, reading
from anchorscope.storage.errors import AnchorscopeError

TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of them for real."""
    pauses: list[float] = []
    monkeypatch.setattr(hub, "ATTEMPTS", 4)
    monkeypatch.setattr(hub, "sleep", pauses.append)
    return pauses


def refusal(status: int, kind: type[errors.HfHubHTTPError] = errors.HfHubHTTPError) -> Exception:
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = SimpleNamespace(status_code=status, headers=headers, request=None)
    return kind(TOKEN, response=answer)  # type: ignore[arg-type]


GATED = refusal(403, errors.GatedRepoError)
UNREACHED = "cannot be reached"
TWICE, ALWAYS, NEVER = [1.0, 2.0], [1.0, 2.0, 4.0], []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_passes_is_waited_for_ever_longer(
    waited: list[float], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    call = Mock(side_effect=[refusal(status), ConnectionError(TOKEN), "rows"])
    with caplog.at_level(logging.WARNING, "anchorscope.questions.hub"):
        assert hub.fetch(call, "model", "a/b") == "rows"
    assert waited == TWICE and TOKEN not in caplog.text
    assert f"the model a/b: {status}; attempt 1 failed, the next in 1 s" in caplog.text


@pytest.mark.parametrize(
    ("error", "cause", "said", "pauses"),
    [
        (ConnectionError("Couldn't reach 'a/b'"), None, UNREACHED, ALWAYS),
        (errors.OfflineModeIsEnabled("offline"), None, UNREACHED, NEVER),
        (errors.LocalEntryNotFoundError("no"), errors.OfflineModeIsEnabled(""), UNREACHED, NEVER),
        (errors.LocalEntryNotFoundError("no"), refusal(503), "status 503", ALWAYS),
        (errors.LocalEntryNotFoundError("no"), None, UNREACHED, NEVER),
        (errors.HTTPError(f"no route, Bearer {TOKEN}"), None, UNREACHED, ALWAYS),
        (OSError("401 gated"), TimeoutError("slow"), UNREACHED, ALWAYS),
        (refusal(401), None, "accept its terms", NEVER),
        (ValueError("no"), GATED, "accept its terms", NEVER),
        (DatasetNotFoundError("somehow not there"), GATED, "accept its terms", NEVER),
        (DatasetNotFoundError("somehow not there"), None, "no such dataset", NEVER),
        (refusal(401, errors.RepositoryNotFoundError), None, "no such dataset", NEVER),
        (ValueError("no"), refusal(404, errors.RevisionNotFoundError), "such revision", NEVER),
        (errors.HFValidationError("no"), None, "not a hub id", NEVER),
        (ValueError(f'Unknown split "401 gated", {TOKEN}'), None, "check config, split", NEVER),
        (OSError(28, "No space left on device", TOKEN), None, "No space left", NEVER),
    ],
)
def test_what_fails_is_told_by_its_type_without_the_token(
    monkeypatch: pytest.MonkeyPatch,
    waited: list[float],
    error: Exception,
    cause: Exception | None,
    said: str,
    pauses: list[float],
) -> None:
    error.__cause__ = cause
    monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=error))
    monkeypatch.setattr("huggingface_hub.auth_check", Mock(side_effect=cause))
    with pytest.raises(AnchorscopeError) as raised:
        reading.hub_split("a/b", None, "dev", "f" * 40)
    assert said in str(raised.value) and "a/b" in str(raised.value) and "dev" in str(raised.value)
    assert TOKEN not in str(raised.value) and waited == pauses
    assert raised.value.__suppress_context__, "the cause may hold the token"


def test_a_bug_is_neither_retried_nor_taken_for_the_hubs(waited: list[float]) -> None:
    with pytest.raises(KeyError):
        hub.fetch(lambda: {}["x"], "model", "owner/name")
    assert waited == []
