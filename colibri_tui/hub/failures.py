"""What can go wrong between here and a hub, in words for a person. Addresses and headers, which may hold a token or a
signature, never get into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from huggingface_hub import constants, get_token
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.errors import EngineError


class HubError(EngineError):
    """A hub that cannot be reached, or does not give what was asked for."""


TRANSIENT = (httpx2.TransportError, httpx2.StreamError)
"""What may work at the next attempt."""

BUSY = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Answers that may be others at the next attempt."""


@contextmanager
def explained(repo: str, what: str, endpoint: str) -> Iterator[None]:
    """Turn what the hub's library raises into a HubError. what: the file or revision that was asked for."""
    try:
        yield
    except HFValidationError:
        raise HubError(f"{repo!r} is no repository's name: it is OWNER/NAME, as in Qwen/Qwen3-30B-A3B") from None
    except OfflineModeIsEnabled:
        raise HubError("offline mode is on (HF_HUB_OFFLINE): nothing is downloaded; unset it first") from None
    except GatedRepoError:
        raise HubError(gated(repo, endpoint)) from None
    except RevisionNotFoundError:
        raise HubError(f"{repo}: there is no revision {what!r}; see {endpoint}/{repo}") from None
    except RemoteEntryNotFoundError:
        raise HubError(f"{repo}: there is no file {what!r} in it any more; try again") from None
    except RepositoryNotFoundError:
        hint = "" if get_token() else ", or it is private: then run 'hf auth login' or set HF_TOKEN first"
        raise HubError(f"{repo}: no such model at {endpoint}{hint}") from None
    except HfHubHTTPError as error:
        raise HubError(_by_status(repo, what, endpoint, error.response.status_code)) from None
    except (httpx2.TransportError, httpx2.InvalidURL) as error:
        raise HubError(f"{endpoint} cannot be reached ({type(error).__name__}); check the network and HF_ENDPOINT, "
                       "and give the same command again: what is here is kept") from None  # fmt: skip


def gated(repo: str, endpoint: str) -> str:
    """What to do about a repository whose owner wants to be asked."""
    if get_token():
        return (
            f"{repo} is gated, and the account of your token has not been let in: open {endpoint}/{repo}, accept the "
            "terms there (some owners answer within days), and pull again; a fine-grained token must be allowed to "
            "read gated repositories"
        )
    return (
        f"{repo} is gated: open {endpoint}/{repo} and accept the terms there, then run 'hf auth login' (or set "
        "HF_TOKEN) and pull again"
    )


def _by_status(repo: str, what: str, endpoint: str, status: int) -> str:
    if status == 401 and not get_token():
        return f"{repo}: {endpoint} wants to know who asks; run 'hf auth login' or set HF_TOKEN"
    if status == 401:
        return f"{repo}: {endpoint} does not accept the token; run 'hf auth login' again, or unset HF_TOKEN"
    if status == 403:
        return f"{repo}: {endpoint} refuses {what} (403); the token may not read it"
    if status == 429:
        return f"{endpoint} has had too many requests from here (429); wait a few minutes and give the command again"
    return f"{repo}: {endpoint} answered {status} to a request for {what}; try again later"


def is_offline() -> bool:
    """Whether a person has told the hub's library to stay off the network."""
    return constants.is_offline_mode()
