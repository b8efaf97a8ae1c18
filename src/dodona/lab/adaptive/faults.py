"""Errors of adaptive data analysis. Messages reveal nothing about the rows."""

from __future__ import annotations

from dodona.errors import InvalidRequest, Refused


class UnreachableAccuracy(Refused):
    """Too few rows, or too many queries, for the requested error."""

    code = "unreachable-within"

    def __init__(self, *, rows: int, asked: str, within: float, best: str, instead: str) -> None:
        """Say what was requested, what can be guaranteed, and what would be needed."""
        super().__init__(f"{rows} rows cannot answer {asked} within {within:.4g}: {best}. {instead}")


class QueriesUsed(Refused):
    """All declared queries have been asked."""

    code = "queries-used"

    def __init__(self, queries: int, left: int = 0) -> None:
        """Say how many were declared."""
        rest = f"{left} are left" if left else "all have been asked"
        super().__init__(
            f"This was opened for {queries} questions and {rest}. Its error is proved only for those: declare more "
            "questions when you open one on other rows."
        )


class OverfitsUsed(Refused):
    """The last correction from the holdout was released, and another would be needed."""

    code = "overfits-used"

    def __init__(self, overfits: int) -> None:
        """Say how many were declared."""
        super().__init__(
            f"This holdout was opened to correct {overfits} questions and has corrected them all. "
            "All its answers still hold; open another one on fresh rows."
        )


class QueryFault(InvalidRequest):
    """A query did not assign a number from 0 to 1 to each row."""

    code = "query-fault"

    def __init__(self, where: str, fault: str, instead: str) -> None:
        """Say what is wrong, and what to write instead."""
        super().__init__(f"The query failed on {where}: {fault}. {instead}.")


class OracleClosed(Refused):
    """A query failed on the data itself, which reveals something that no proof covers."""

    code = "oracle-closed"

    def __init__(self, fault: str = "A query failed on the rows.") -> None:
        """Say what failed, why the oracle closes, and what still holds."""
        super().__init__(
            f"{fault} The failure reveals something about the rows that no proof covers, so nothing more is "
            "answered; earlier answers still hold. Try queries on made-up rows first: `example` takes some."
        )


class AnotherProcess(Refused):
    """The caller is a fork of the process that counts the queries."""

    code = "another-process"

    def __init__(self) -> None:
        """Say where to ask."""
        super().__init__(
            "This was opened in the parent process, and its error is proved only for the questions counted there. "
            "Ask there, or open another one here on fresh rows."
        )


class TooFewRows(InvalidRequest):
    """Too few rows to say anything."""

    code = "too-few-rows"

    def __init__(self, name: str, rows: int, least: int) -> None:
        """Say how many there are and how many are needed."""
        super().__init__(
            f"{name} has {rows} rows, and at least {least} are needed before an answer says anything about the "
            "population. Sample more rows."
        )
