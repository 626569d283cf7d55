"""The hub: its refusals are told by their type."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import errors

from anchorscope.questions import hub, reading
from anchorscope.storage.errors import AnchorscopeError

TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"


def refusal(status: int, kind: type[errors.HfHubHTTPError] = errors.HfHubHTTPError) -> Exception:
    headers = {"authorization": f"Bearer {TOKEN}"}
    answer = SimpleNamespace(status_code=status, headers=headers, request=None)
    return kind(TOKEN, response=answer)  # type: ignore[arg-type]


GATED = refusal(403, errors.GatedRepoError)
UNREACHED = "cannot be reached"


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        (ConnectionError("Couldn't reach 'a/b'"), None, UNREACHED),
        (errors.OfflineModeIsEnabled("offline"), None, UNREACHED),
        (errors.LocalEntryNotFoundError("no"), errors.OfflineModeIsEnabled(""), UNREACHED),
        (errors.LocalEntryNotFoundError("no"), refusal(503), "status 503"),
        (errors.LocalEntryNotFoundError("no"), None, UNREACHED),
        (errors.HTTPError(f"no route, Bearer {TOKEN}"), None, UNREACHED),
        (OSError("401 gated"), TimeoutError("slow"), UNREACHED),
        (refusal(401), None, "accept its terms"),
        (ValueError("no"), GATED, "accept its terms"),
        (DatasetNotFoundError("somehow not there"), GATED, "accept its terms"),
        (DatasetNotFoundError("somehow not there"), None, "no such dataset"),
        (refusal(401, errors.RepositoryNotFoundError), None, "no such dataset"),
        (ValueError("no"), refusal(404, errors.RevisionNotFoundError), "such revision"),
        (errors.HFValidationError("no"), None, "not a hub id"),
        (ValueError(f'Unknown split "401 gated", {TOKEN}'), None, "check config, split"),
        (OSError(28, "No space left on device", TOKEN), None, "No space left"),
    ],
)
def test_what_fails_is_told_by_its_type_without_the_token(
    monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception | None, said: str
) -> None:
    error.__cause__ = cause
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    monkeypatch.setattr("datasets.load_dataset", Mock(side_effect=error))
    monkeypatch.setattr("huggingface_hub.auth_check", Mock(side_effect=cause))
    with pytest.raises(AnchorscopeError) as raised:
        reading.hub_split("a/b", None, "dev", "f" * 40)
    assert said in str(raised.value) and "a/b" in str(raised.value) and "dev" in str(raised.value)
    assert TOKEN not in str(raised.value)
    assert raised.value.__suppress_context__, "the cause may hold the token"


def test_a_hub_that_is_silent_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    ask = Mock(side_effect=[ConnectionError(), refusal(503), "commit"])
    assert hub.fetch(ask, "dataset", "a/b") == "commit"
    refused = Mock(side_effect=GATED)
    with pytest.raises(AnchorscopeError, match="gated"):
        hub.fetch(refused, "dataset", "a/b")
    assert refused.call_count == 1


def test_a_bug_is_not_taken_for_the_hubs() -> None:
    with pytest.raises(KeyError):
        hub.fetch(lambda: {}["x"], "model", "owner/name")
