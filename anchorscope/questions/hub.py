"""Calls to the hub: retries where another attempt may help, and one clear message for each error.

Errors are told apart by type, never by their text. The cause is cut off, since a header or a URL
may hold the user's token.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import TypeVar

from huggingface_hub import errors as client, get_session
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential

from anchorscope.storage.errors import CLOSED, FULL, AnchorscopeError

Result = TypeVar("Result")
ATTEMPTS = 6  # after the first failure one second is waited, then twice as long each time
SILENCE = 60.0  # seconds without a byte after which an attempt has failed
# Statuses that another attempt may change; 401, 403 and 404 are answers.
TRANSIENT = frozenset((408, 429, 500, 502, 503, 504))

log = logging.getLogger(__name__)


def fetch(call: Callable[[], Result], kind: str, where: str) -> Result:
    """The result of a call to the hub's client, retried where the hub is busy or silent.

    `where` is the id and what else says where it was looked for; for what is raised, see `errors`.
    """

    def warn(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        why = next(filter(None, map(_status, _chain(error))), type(error).__name__)
        message = "the %s %s: %s; attempt %d failed, the next in %g s"
        log.warning(message, kind, where, why, state.attempt_number, state.upcoming_sleep)

    attempts = Retrying(
        retry=retry_if_exception(_transient),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(),
        before_sleep=warn,
        sleep=sleep,
        reraise=True,
    )
    limit_silence()
    with errors(kind, where):
        return attempts(call)


def place(hub_id: str, revision: str | None) -> str:
    """A repository at a revision, in words."""
    return f"{hub_id} at revision {revision}" if revision else hub_id


def limit_silence() -> None:
    """Let the hub's client give up after `SILENCE`; by itself it waits for ever."""
    get_session().timeout = SILENCE


@contextmanager
def errors(kind: str, where: str) -> Iterator[None]:
    """Turn what fails in fetching a `model` or `dataset` from the hub into an AnchorscopeError.

    Offline or not reached, gated, no such id or revision, disk, anything else that the clients
    raise; other errors pass as they are.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError, client.HTTPError) as error:
        # "Not in the cache" comes last: another error of the chain may say why.
        chain = sorted(_chain(error), key=lambda e: isinstance(e, client.LocalEntryNotFoundError))
        translated = (_translated(cause, kind, where) for cause in chain)
        raise next(filter(None, translated), _unexpected(error, kind, where)) from None


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and its causes, the outermost first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _silent(error: BaseException) -> bool:
    """Whether no answer came: no route, a timeout, or the client's offline mode."""
    if isinstance(error, client.HTTPError):
        return getattr(error, "response", None) is None
    return isinstance(error, ConnectionError | TimeoutError)


def _transient(error: BaseException) -> bool:
    chain = _chain(error)
    if any(isinstance(one, client.OfflineModeIsEnabled) for one in chain):
        return False
    statuses = [status for one in chain if (status := _status(one)) is not None]
    return statuses[0] in TRANSIENT if statuses else any(map(_silent, chain))


def _translated(error: BaseException, kind: str, where: str) -> AnchorscopeError | None:
    """The message for one error of a chain, by its type or status; None for types not known."""
    status, gated = _status(error), isinstance(error, client.GatedRepoError)
    missing = isinstance(error, client.RepositoryNotFoundError) and not gated
    if isinstance(error, client.RevisionNotFoundError):
        what = f"the hub has no such revision of the {kind}"
        do, see = "set `revision` to null or one that its hub page lists", "no-such-revision"
    elif missing or type(error).__name__ == "DatasetNotFoundError":  # not imported for models
        what, see = f"the hub has no such {kind}, or it is private", "no-such-repository"
        do = f"check `hub` in config.yaml; a private {kind} needs an HF_TOKEN that may read it"
    elif gated or status in (401, 403):
        what, see = f"the {kind} is gated and access was not granted", "gated"
        do = "accept its terms on its hub page, then set HF_TOKEN to a token of that account"
    elif isinstance(error, client.HFValidationError):
        what, see = "this is not a hub id", "no-such-repository"
        do = "write `hub: owner/name`, or give files of your own with `local:`"
    elif status is not None:
        what, do, see = f"the hub answered with status {status}", "run again later", "hub-status"
    elif _silent(error) or isinstance(error, client.LocalEntryNotFoundError):
        why, see = type(error).__name__, "hub-unreachable"
        what = f"the {kind} is not in the cache and the hub cannot be reached ({why})"
        rows = "a folder" if kind == "model" else "rows of the same columns"
        do = "download where there is network (HF_HUB_OFFLINE unset), with the same HF_HOME and "
        do += f"revisions.lock.yaml; or give {rows} with `local:`"
    elif isinstance(error, OSError) and error.errno in FULL | CLOSED:
        what = f"the download could not be stored ({error.strerror or type(error).__name__})"
        do = "check that the disk of HF_HOME has room and may be written to"
        see = "download-not-stored"
    else:
        return None
    return AnchorscopeError(what, where, do, see=see)


def _unexpected(error: BaseException, kind: str, where: str) -> AnchorscopeError:
    first_line = f"{type(error).__name__}: {error}".splitlines()[0]
    do = "check config, split and revision" if kind == "dataset" else "check `hub` and `revision`"
    return AnchorscopeError(f"the {kind} cannot be read ({first_line})", where, do, see="hub-other")
