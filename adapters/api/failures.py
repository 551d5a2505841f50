"""Why a request is not carried out, as a status and a sentence for the operator."""

from __future__ import annotations

from typing import Final

BAD, FORBIDDEN, UNKNOWN, NOT_NOW, AWAY = 400, 403, 404, 409, 503
STATUSES: Final = {
    400: "The request is not as the table says: a parameter or the body is wrong.",
    401: "The token is missing, or nobody's.",
    403: "The role does not suffice, the request comes from a page of elsewhere, or `serve` has no token file.",
    404: "There is no such feed, job or page.",
    409: "It cannot be done now, as the sentence says.",
    413: "The body is too large.",
    503: "The feed's process, its servers or the bookkeeping do not answer, or too much is asked at once.",
}


class ApiError(Exception):
    """A request is not carried out; `args[0]` says why."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
