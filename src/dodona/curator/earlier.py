"""Answers about an older version of the rows: free, marked as stale, and never taken for current ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dodona.errors import InvalidArgument, InvalidRequest

if TYPE_CHECKING:
    from dodona.answer.answer import Answer
    from dodona.curator.ladder import Ladder
    from dodona.curator.request import Request
    from dodona.query.question import Question


def answer_as_of(
    ladder: Ladder, asked: tuple[Question, ...], request: Request, version: object, *, anyhow: bool
) -> tuple[Answer, ...]:
    """Return what was released about a version of the rows, or follows from that; with `anyhow` at any accuracy.

    No row is read and nothing is charged.
    """
    dataset = ladder.desk.dataset
    dataset.ledger.permit(ladder.desk.analyst)
    if request.fresh:
        raise InvalidRequest("An older version is never measured anew. Write one of as_of= and fresh=True.")
    released = ladder.shared.of_version(version) if isinstance(version, str) else None
    if released is None or not isinstance(version, str):
        listed = dict.fromkeys(
            receipt.version for receipt, _ in dataset.ledger.releases() if receipt.dataset == dataset.name
        )
        known = ", ".join([*listed][-10:])
        accepted = f"write a version about which something was released: {known}" if known else "nothing was released"
        raise InvalidArgument("as_of", version, accepted)
    answers = ladder.reading(released).free_answers(asked, request, None, anyhow=anyhow)
    if answers is None:
        wanted = "" if anyhow else " as accurately as this"
        raise InvalidRequest(f"Nothing that was released about version {version} of the data answers this{wanted}.")
    return tuple(replace(answer, version=version, stale=version != dataset.source.version) for answer in answers)
