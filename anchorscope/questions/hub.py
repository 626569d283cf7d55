"""Calls to the hub, with one clear message for each error.

Errors are distinguished by type, never by their text. The original error is not chained, since its
headers or URL may contain the user's token.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from huggingface_hub import constants, errors as client, get_session

from anchorscope.storage.errors import CLOSED, FULL, AnchorscopeError

Result = TypeVar("Result")
PAUSE = 2.0  # seconds between two tries
PASSING = ("hub-unreachable", "hub-status")  # errors that may not recur at the next try
SILENCE = 60.0  # seconds without a byte after which an attempt has failed
# No answer came: no route, a timeout, the client's offline mode, or a file that is not cached.
_SILENT = (client.HTTPError, ConnectionError, TimeoutError, client.LocalEntryNotFoundError)


def fetch(call: Callable[[], Result], kind: str, where: str, tries: int = 3) -> Result:
    """Call the hub's client, and try again if the hub is silent or busy.

    The client itself retries downloads, but not the preceding look-up of the commit.

    Raises:
        AnchorscopeError: See `errors`, which also explains `kind` and `where`.
    """
    try:
        with errors(kind, where):
            return call()
    except AnchorscopeError as error:
        if constants.HF_HUB_OFFLINE or error.see not in PASSING or tries == 1:
            raise
    time.sleep(PAUSE)
    return fetch(call, kind, where, tries - 1)


def place(hub_id: str, revision: str | None) -> str:
    """Describe a repository at a revision in words."""
    return f"{hub_id} at revision {revision}" if revision else hub_id


@contextmanager
def errors(kind: str, where: str) -> Iterator[None]:
    """Turn the errors of the hub's clients, and of the disk, into an AnchorscopeError.

    `kind` is `model` or `dataset`. `where` names it, with further details such as the revision.
    """
    get_session().timeout = SILENCE  # the client's default is to wait forever
    try:
        yield
    except (OSError, ValueError, RuntimeError, client.HTTPError) as error:
        # "Not in the cache" comes last, since another error of the chain may give the reason.
        chain = sorted(_chain(error), key=lambda e: isinstance(e, client.LocalEntryNotFoundError))
        translated = (_translated(cause, kind, where) for cause in chain)
        first_line = f"{type(error).__name__}: {error}".splitlines()[0]
        what, do = f"the {kind} cannot be read ({first_line})", "check hub, config, split, revision"
        unknown = AnchorscopeError(what, where, do, see="hub-other")
        raise next(filter(None, translated), unknown) from None


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return the error and its causes, the outermost first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _translated(error: BaseException, kind: str, where: str) -> AnchorscopeError | None:
    """Return the AnchorscopeError for one error of a chain, or None for an unknown type."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    gated = isinstance(error, client.GatedRepoError)
    missing = isinstance(error, client.RepositoryNotFoundError) and not gated
    if isinstance(error, client.RevisionNotFoundError):
        what = f"the hub has no such revision of the {kind}"
        do, see = "set `revision` to null or one that its hub page lists", "no-such-revision"
    elif missing or type(error).__name__ == "DatasetNotFoundError":  # not imported for models
        what, see = f"the hub has no such {kind}, or it is private", "no-such-repository"
        do = f"check `hub` in the config; a private {kind} needs an HF_TOKEN that may read it"
    elif gated or status in (401, 403):
        what, see = f"the {kind} is gated and access was not granted", "gated"
        do = "accept its terms on its hub page, then set HF_TOKEN to a token of the same account"
    elif isinstance(error, client.HFValidationError):
        what, see = "this is not a hub id", "no-such-repository"
        do = "write `owner/name`, or give the path of a folder with `local:`"
    elif status is not None:
        what, do, see = f"the hub answered with status {status}", "run again later", "hub-status"
    elif isinstance(error, _SILENT):
        why, see = type(error).__name__, "hub-unreachable"
        what = f"the {kind} is not in the cache and the hub cannot be reached ({why})"
        rows = "a folder" if kind == "model" else "rows of the same columns"
        do = "download where there is a network (HF_HUB_OFFLINE unset), with the same HF_HOME and "
        do += f"revisions.lock.yaml; or give {rows} with `local:`"
    elif isinstance(error, OSError) and error.errno in FULL | CLOSED:
        what = f"the download could not be stored ({error.strerror or type(error).__name__})"
        do = "check that the disk of HF_HOME has room and may be written to"
        see = "download-not-stored"
    else:
        return None
    return AnchorscopeError(what, where, do, see=see)
