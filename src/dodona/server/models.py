"""What requests hold, as pydantic checks it and OpenAPI shows it. The names are those of `Curator`'s arguments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

LONGEST_QUESTION = 64 * 1024
MOST_QUESTIONS = 10_000

Question = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_QUESTION)]
Questions = Annotated[list[Question], Field(min_length=1, max_length=MOST_QUESTIONS)]
Amount = (
    Annotated[int, Field(ge=-(2**53), le=2**53)]
    | Annotated[float, Field(allow_inf_nan=False)]
    | Annotated[str, StringConstraints(min_length=1, max_length=100)]
)
"""An exact number: 1, 0.1, "1/10" or "2%"."""
Tolerances = (
    Amount
    | Annotated[dict[str, Amount], Field(min_length=1, max_length=100)]
    | Annotated[list[Amount], Field(min_length=1, max_length=100)]
)
"""One for all columns, or one for each: by name, or in their order."""
Confidence = Annotated[float, Field(gt=0, lt=1)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
View = Literal["single", "simultaneous", "population", "any_choice"]
Role = Literal["analyst", "owner", "auditor"]

_COUNT = "SELECT sex, count(*) FROM stays WHERE age >= 65 GROUP BY sex"


class _Body(BaseModel):
    """A body refuses fields that it does not know, so that a misspelt limit is noticed before anything is spent."""

    model_config = ConfigDict(extra="forbid")

    def arguments(self) -> dict[str, object]:
        """Return the fields that the caller gave."""
        return self.model_dump(exclude_none=True)


class _Priced(_Body):
    within: Tolerances | None = Field(None, description='How far off it may be: 50, "1%", or one for each column.')
    confidence: Confidence | None = Field(None, description="How sure an interval is.")
    epsilon: Amount | None = Field(None, description="What it may cost alone, instead of `within`.")
    max_price: Amount | None = Field(None, description='What it may take of the budget, such as "2%".')
    fresh: bool = Field(default=False, description="Measure with new noise alone, for what earlier answers led to.")


def _example(**fields: JsonValue) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class AskBody(_Priced):
    """A question to be answered."""

    model_config = _example(question=_COUNT, within="1%", max_price="2%")
    question: Question = Field(description="SQL over the dataset's table.")
    view: View = Field("single", description="Which intervals the reply shows; all of them come from one answer.")


class RehearseBody(_Priced):
    """A question to be tried on made-up rows."""

    model_config = _example(question=_COUNT, within="1%")
    question: Question
    view: View = "single"


class QuoteBody(_Priced):
    """A question, or several together, to be priced."""

    model_config = _example(question=_COUNT, within="1%")
    question: Question | None = None
    questions: Questions | None = None


class BatchBody(_Priced):
    """Questions that are planned together and charged once: all or none."""

    model_config = _example(
        questions=["SELECT count(*) FROM stays", "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis"],
        within="1%",
    )
    questions: Questions
    view: View = "single"


class PrepareBody(_Body):
    """Questions that are coming, to be made free by one measurement."""

    model_config = _example(questions=["SELECT sex, diagnosis, count(*) FROM stays GROUP BY sex, diagnosis"], within=50)
    questions: Questions
    within: Tolerances | None = None
    confidence: Confidence | None = None
    max_price: Amount | None = None


class ChooseBody(_Body):
    """A question whose largest groups are wanted by name."""

    model_config = _example(
        question="SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis", epsilon="0.05", count=3
    )
    question: Question
    epsilon: Amount
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    max_price: Amount | None = None


class WatchBody(_Body):
    """A threshold that counts are compared with; charged in full when it is opened."""

    model_config = _example(threshold=9000, epsilon="0.1", alerts=2, questions=100)
    threshold: Annotated[int, Field(ge=-(2**53), le=2**53)]
    epsilon: Amount
    alerts: Annotated[int, Field(ge=1, le=10_000)] = 1
    questions: Annotated[int, Field(ge=1, le=10**9)] = 1000
    max_price: Amount | None = None


class WatchQuestionBody(_Body):
    """A count to be compared with the watch's threshold."""

    model_config = _example(question="SELECT count(*) FROM stays WHERE admitted >= '2025-01-01'")
    question: Question
    threshold: Annotated[int, Field(ge=-(2**53), le=2**53)] | None = Field(
        None, description="What this count is compared with, instead of the watch's threshold."
    )


class WeightsBody(_Body):
    """Counts that one charge answers by multiplicative weights."""

    model_config = _example(questions=["SELECT count(*) FROM stays WHERE sex = 'female'"], epsilon="0.2")
    questions: Questions
    epsilon: Amount
    columns: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    confidence: Confidence | None = None
    max_price: Amount | None = None


class SynthesizeBody(_Body):
    """A synthetic table to be released: a job that goes on after the reply."""

    model_config = _example(ways=2, columns=["sex", "age"], share="10%")
    columns: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    ways: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="All combinations of so many columns are to be answered well."
    )
    marginals: (
        Annotated[
            list[Annotated[list[Name], Field(min_length=1, max_length=100)]], Field(min_length=1, max_length=1000)
        ]
        | None
    ) = Field(None, description="The combinations of columns that are to be answered well, instead of `ways`.")
    epsilon: Amount | None = None
    share: Amount | None = Field(None, description="What it takes of the budget, instead of `epsilon`.")
    method: Literal["annealed", "mwem", "guaranteed", "blr"] | None = None
    count: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(None, description="How many rows to make up.")
    rows: Literal["rounded", "sampled", "weighted"] | None = Field(None, description="How rows are made up.")
    max_price: Amount | None = None


class RequestBody(_Priced):
    """A question over a cap, for an owner to grant or to decline."""

    model_config = _example(question=_COUNT, within="0.1%", max_price="20%")
    question: Question
    reason: Annotated[str, StringConstraints(max_length=1000)] | None = None


class DecisionBody(_Body):
    """An owner's decision on a request."""

    model_config = _example(grant=True)
    grant: bool


class BudgetBody(_Body):
    """A new, larger budget."""

    model_config = _example(epsilon="2", delta="1e-6")
    epsilon: Amount
    delta: Amount | None = None


class AdmitBody(_Body):
    """An analyst's share of the budget."""

    model_config = _example(share="1/2")
    share: Amount | None = None


class LimitsBody(_Body):
    """Caps on spending, as shares of the budget. A cap that is left out stays as it is."""

    model_config = _example(question="5%", analyst_day="10%", dataset_day="25%", approvals=True)
    question: Amount | None = None
    analyst_day: Amount | None = None
    dataset_day: Amount | None = None
    approvals: bool | None = None


class AccountBody(_Body):
    """A new account."""

    model_config = _example(name="ada", grants={"hospital-stays": "analyst"})
    name: Name
    grants: Annotated[dict[Name, Role], Field(max_length=1000)] = Field(default_factory=dict)
    password: Annotated[str, StringConstraints(min_length=12, max_length=200)] | None = None


class GrantBody(_Body):
    """A role for a dataset."""

    model_config = _example(role="analyst")
    role: Role


class TokenBody(_Body):
    """A new token. It is shown once, in the reply."""

    model_config = _example(name="notebook", days=90, datasets=["hospital-stays"], max_price="1%")
    name: Name
    days: Annotated[int, Field(ge=1, le=3650)] | None = None
    datasets: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    max_price: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None


class LoginBody(_Body):
    """A name and its password."""

    model_config = _example(name="ada", password="correct horse battery staple")  # noqa: S106  an example
    name: Name
    password: Annotated[str, StringConstraints(min_length=1, max_length=200)]
