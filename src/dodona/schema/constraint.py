"""Public constraints: facts about every row that need no data, such as that children are not married."""

from dataclasses import dataclass

from dodona.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Conditions in SQL: every row that meets `when` meets `then`, or no row meets `never`.

    >>> print(Constraint(when="age < 15", then="marital_status = 'never married'"))
    when age < 15 then marital_status = 'never married'
    """

    when: str | None = None
    then: str | None = None
    never: str | None = None

    def __post_init__(self) -> None:
        """Refuse anything but one of the two forms."""
        if (self.when is None) != (self.then is None) or (self.when is None) == (self.never is None):
            given = {"when": self.when, "then": self.then, "never": self.never}
            raise InvalidArgument("constraint", given, "write when= and then=, or never=, each a condition in SQL")

    def __str__(self) -> str:
        return f"never {self.never}" if self.never is not None else f"when {self.when} then {self.then}"
