"""Errors of the HTTP door, and how every error is written: `application/problem+json`, from the one table of errors."""

import json
from http import HTTPStatus

from dodona.errors import DodonaError, InvalidRequest, InvariantBroken, Refused, Unavailable
from dodona.server.link import PROBLEM, problem_reply

MEDIA_TYPE = PROBLEM


class TokenForbidden(Refused):
    """A token was used where the caller has to be logged in."""

    code = "token-forbidden"

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("A token cannot make further tokens. Log in on the page, or ask an owner of all datasets.")


class UnknownAddress(InvalidRequest):
    """There is nothing at this address."""

    code = "unknown-address"
    http_status = 404

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("There is nothing at this address. The list of addresses is /api/v1/openapi.json.")


class MethodNotAllowed(InvalidRequest):
    """The address exists, but not for this method."""

    code = "method-not-allowed"
    http_status = 405

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("This address does not take this method; the header Allow names those that it takes.")


class NotAcceptable(InvalidRequest):
    """None of the media types that the client accepts can be sent."""

    code = "not-acceptable"
    http_status = 406

    def __init__(self, offered: tuple[str, ...]) -> None:
        """List what can be sent."""
        super().__init__(f"The header Accept excludes all that this address can send: {', '.join(offered)}.")


class RequestTooSlow(InvalidRequest):
    """The client took too long to send its request."""

    code = "request-too-slow"
    http_status = 408

    def __init__(self, seconds: float) -> None:
        """State the limit."""
        super().__init__(f"The request did not arrive within {seconds:g} seconds.")


class BodyTooLarge(InvalidRequest):
    """The body of a request is larger than the server reads."""

    code = "body-too-large"
    http_status = 413

    def __init__(self, limit: int) -> None:
        """State the limit."""
        super().__init__(f"The body is larger than {limit:,} bytes.")


class WrongMediaType(InvalidRequest):
    """The body of a request is not JSON."""

    code = "wrong-media-type"
    http_status = 415

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("The body is read as JSON: send it with `Content-Type: application/json`.")


class HeadersTooLarge(InvalidRequest):
    """The headers of a request are larger than the server reads."""

    code = "headers-too-large"
    http_status = 431

    def __init__(self, limit: int) -> None:
        """State the limit."""
        super().__init__(f"The headers are larger than {limit:,} bytes.")


class ReplyLost(Unavailable):
    """The core went away while it may have charged; asking again with the same key tells, and charges once at most."""

    code = "reply-lost"
    retry_after = 1

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("The reply was lost on its way. Ask again with the same key: it is charged once at most.")


class InternalFault(InvariantBroken):
    """A bug of the front: the request was not answered."""

    code = "internal-fault"

    def __init__(self) -> None:
        """Use a constant message."""
        super().__init__("The server made a mistake. Ask again with the same key: it is charged once at most.")


_UNKNOWN = (ReplyLost, InternalFault)


def problem(fault: DodonaError) -> bytes:
    """Return an error as JSON. `charged` is null where the front cannot know it: asking again with the key tells."""
    body = problem_reply(fault).body
    return json.dumps(json.loads(body) | {"charged": None}).encode() if isinstance(fault, _UNKNOWN) else body


def headers(fault: DodonaError) -> dict[str, str]:
    """Return the headers that belong to an error."""
    if fault.http_status == HTTPStatus.UNAUTHORIZED:
        return {"www-authenticate": 'Bearer realm="dodona"'}
    return {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
