"""Calls to the hub: retries where another attempt may help, and one clear message for each error.

Errors are told apart by type, never by their text. The cause is cut off, since a header or a URL
may hold the user's token.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any, TypeVar

from huggingface_hub import errors as client
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from anchorscope.storage.errors import CLOSED, FULL, AnchorscopeError, redacted

Found = TypeVar("Found")

ATTEMPTS = 6
"""After the first failure one second is waited, then twice as long each time."""
LONGEST = 300.0
"""Most seconds that are waited because the hub says so."""
SILENCE = 60.0
"""Seconds without a word from the hub after which an attempt failed; its client has no limit."""
TRANSIENT = frozenset((408, 429, 500, 502, 503, 504))
"""Statuses that another attempt may change; 401, 403 and 404 are answers."""

log = logging.getLogger(__name__)


def is_id(text: str) -> bool:
    """Whether the hub could have a repository of this id: `owner/name`, of old also `name`."""
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(text)
    except client.HFValidationError:
        return False
    # The client lets a line break at the end pass.
    return re.fullmatch(r"([\w.-]+/)?[\w.-]+", text, re.ASCII) is not None


def fetch(
    call: Callable[[], Found],
    kind: str,
    hub_id: str,
    revision: str | None = None,
    detail: str | None = None,
) -> Found:
    """The result of a call to the hub's client, with retries.

    Too many requests (429), trouble on the hub's side (5xx) and no answer in time are retried after
    what `Retry-After` says, else ever longer pauses. Refusals are not. For the other arguments, and
    what is raised, see `errors`.
    """

    def warn(state: RetryCallState) -> None:
        error = state.outcome and state.outcome.exception()
        why = _transient(error) if error else "no answer"
        said = "the %s %s: %s; attempt %d failed, the next in %g s"
        log.warning(said, kind, hub_id, why, state.attempt_number, state.upcoming_sleep)

    attempts = Retrying(
        retry=retry_if_exception(lambda error: _transient(error) is not None),
        stop=stop_after_attempt(ATTEMPTS),
        wait=_wait,
        before=lambda _: _limit_silence(),
        before_sleep=warn,
        sleep=lambda seconds: sleep(seconds),
        reraise=True,
    )
    with errors(kind, hub_id, revision, detail):
        return attempts(call)


def _wait(state: RetryCallState) -> float:
    """Seconds before the next attempt: what the hub asks for, else ever more."""
    error = state.outcome and state.outcome.exception()
    for one in _chain(error) if error else []:
        asked = getattr(getattr(one, "response", None), "headers", {}).get("Retry-After", "")
        if asked.isdigit():
            return min(float(asked), LONGEST)
    return float(2 ** (state.attempt_number - 1))


def _limit_silence() -> None:
    """Limit the silence that the client puts up with; a broken connection makes a new client."""
    from huggingface_hub import get_session

    session = get_session()
    hooks = session.event_hooks
    if _set_timeout not in hooks["request"]:
        session.event_hooks = {**hooks, "request": [*hooks["request"], _set_timeout]}


def _set_timeout(request: Any) -> None:
    limits = request.extensions.get("timeout") or dict.fromkeys(("connect", "read", "write"))
    found = {name: SILENCE if limit is None else limit for name, limit in limits.items()}
    request.extensions["timeout"] = found


def _transient(error: BaseException) -> str | None:
    """Why another attempt may succeed, in words; None where it would not."""
    chain = _chain(error)
    if any(isinstance(one, client.OfflineModeIsEnabled) for one in chain):
        return None
    statuses = [status for one in chain if (status := _status(one)) is not None]
    if statuses:
        return f"status {statuses[0]}" if statuses[0] in TRANSIENT else None
    silent = next(filter(_no_connection, chain), None)
    return None if silent is None else f"no answer ({type(silent).__name__})"


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


@contextmanager
def errors(
    kind: str, hub_id: str, revision: str | None = None, detail: str | None = None
) -> Iterator[None]:
    """Turn what fails in fetching something from the hub into an AnchorscopeError.

    Args:
        kind: what is fetched, `model` or `dataset`.
        hub_id: its id on the hub.
        revision: branch, tag or commit, None for the newest.
        detail: more for the message's place, such as config and split.

    Raises:
        AnchorscopeError: offline or not reached, gated, no such id or revision, disk, anything
            else that the clients raise. Other errors pass as they are.
    """
    where = hub_id if revision is None else f"{hub_id} at revision {revision}"
    try:
        yield
    except Exception as error:
        ours = not isinstance(error, OSError | ValueError | RuntimeError | client.HTTPError)
        if ours and not _of_datasets(error):
            raise
        raise _translated(error, kind, f"{where}, {detail}" if detail else where) from None


def _of_datasets(error: BaseException) -> bool:
    """Whether it is one of the `datasets` library, which is not imported for a model's sake."""
    return any(cls.__module__ == "datasets.exceptions" for cls in type(error).__mro__)


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what led to it, the outermost first."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in found:
        found.append(following)
        following = following.__cause__ or following.__context__
    return found


def _translated(error: Exception, kind: str, where: str) -> AnchorscopeError:
    chain = _chain(error)
    causes = [_unreachable(one, kind, where) for one in chain if _no_connection(one)]
    causes += [found for one in chain if (found := _refused(one, kind, where))]
    causes += [found for one in chain if (found := _failed(one, kind, where))]
    if causes:
        return causes[0]
    said = redacted(f"{type(error).__name__}: {error}").splitlines()[0]
    do = "check config, split and revision" if kind == "dataset" else "check `hub` and `revision`"
    return AnchorscopeError(f"the {kind} cannot be read ({said})", where, do, see="hub-other")


def _no_connection(error: BaseException) -> bool:
    # An error of the transport that holds no answer: no route, or none in time.
    silent = isinstance(error, client.HTTPError) and getattr(error, "response", None) is None
    return silent or isinstance(error, ConnectionError | TimeoutError)


def _unreachable(error: BaseException, kind: str, where: str) -> AnchorscopeError:
    what = "is not in the cache and the hub cannot be reached"
    rows = "a folder" if kind == "model" else "rows of the same columns"
    do = "run the download where there is network (HF_HUB_OFFLINE unset), with the same HF_HOME; "
    return AnchorscopeError(
        f"the {kind} {what} ({type(error).__name__})",
        where,
        f"{do}or give {rows} with `local:`",
        see="hub-unreachable",
    )


def _refused(error: BaseException, kind: str, where: str) -> AnchorscopeError | None:
    """What the hub itself said, as far as the error's type or status tells."""
    status = _status(error)
    gated = isinstance(error, client.GatedRepoError)
    if isinstance(error, client.RevisionNotFoundError):
        what = f"the hub has no such revision of the {kind}"
        do = "set `revision` to null or one that its hub page lists"
        return AnchorscopeError(what, where, do, see="no-such-revision")
    if isinstance(error, client.RepositoryNotFoundError) and not gated:
        return _missing(kind, where)
    if gated or status in (401, 403):
        what = f"the {kind} is gated and access was not granted"
        do = "accept its terms on its hub page, then set HF_TOKEN to a token of that account"
        return AnchorscopeError(what, where, do, see="gated")
    if isinstance(error, client.HFValidationError):
        do = "write `hub: owner/name`, or give files of your own with `local:`"
        return AnchorscopeError("this is not a hub id", where, do, see="no-such-repository")
    if isinstance(error, client.HfHubHTTPError):
        what = f"the hub answered with status {status}"
        return AnchorscopeError(what, where, "run again later", see="hub-status")
    return None


def _failed(error: BaseException, kind: str, where: str) -> AnchorscopeError | None:
    """What went wrong on this side of the line."""
    if isinstance(error, client.LocalEntryNotFoundError):
        return _unreachable(error, kind, where)
    if type(error).__name__ == "DatasetNotFoundError" and _of_datasets(error):
        return _missing(kind, where)
    if isinstance(error, OSError) and error.errno in FULL | CLOSED:
        what = f"the download could not be stored ({error.strerror or type(error).__name__})"
        do = "check that the disk of HF_HOME has room and may be written to"
        return AnchorscopeError(what, where, do, see="download-not-stored")
    return None


def _missing(kind: str, where: str) -> AnchorscopeError:
    what = f"the hub has no such {kind}, or it is private"
    do = f"check `hub` in config.yaml; a private {kind} needs an HF_TOKEN that may read it"
    return AnchorscopeError(what, where, do, see="no-such-repository")
