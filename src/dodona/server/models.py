"""What requests hold, as pydantic checks it and OpenAPI shows it. The names are those of `Curator`'s arguments."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

LONGEST_QUESTION = 64 * 1024
MOST_QUESTIONS = 10_000

Question = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_QUESTION)]
Questions = Annotated[list[Question], Field(min_length=1, max_length=MOST_QUESTIONS)]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Amount = (
    Whole
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
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Columns = Annotated[list[Name], Field(min_length=1, max_length=100)]
Confidence = Annotated[float, Field(gt=0, lt=1)]
View = Literal["single", "simultaneous", "population", "any_choice"]
Role = Literal["analyst", "owner", "auditor"]

_COUNT = "SELECT sex, count(*) FROM stays WHERE age >= 65 GROUP BY sex"


class _Body(BaseModel):
    """A body refuses fields that it does not know, so that a misspelt limit is noticed before anything is spent.

    It is strict: `true` is no tolerance of 1, and "no" is not false.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    def arguments(self) -> dict[str, object]:
        """Return the fields that the caller gave."""
        return self.model_dump(exclude_none=True)


class _Priced(_Body):
    within: Tolerances | None = Field(None, description='The tolerance: 50, "1%", or one for each column.')
    confidence: Confidence | None = Field(None, description="The confidence of each interval.")
    epsilon: Amount | None = Field(None, description="The price of the question alone, instead of `within`.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')
    fresh: bool = Field(default=False, description="Use fresh noise only, for a question that earlier answers led to.")


def _example(**fields: JsonValue) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [fields]})


class AskBody(_Priced):
    """A question to be answered."""

    model_config = _example(question=_COUNT, within="1%", max_price="2%")
    question: Question = Field(description="SQL over the dataset's table.")
    view: View = Field("single", description="Which intervals the reply shows; all of them come from one answer.")
    as_of: Name | None = Field(
        None, description="An older version of the data: a free estimate from what was released about it."
    )


class RehearseBody(_Priced):
    """A question to be tried on made-up rows."""

    model_config = _example(question=_COUNT, within="1%")
    question: Question = Field(description="SQL over the dataset's table.")
    view: View = Field("single", description="Which intervals the reply shows.")


class QuoteBody(_Priced):
    """A question, or several together, to be priced."""

    model_config = _example(question=_COUNT, within="1%")
    question: Question | None = Field(None, description="SQL over the dataset's table.")
    questions: Questions | None = Field(None, description="Several of them, instead of one.")


class BatchBody(_Priced):
    """Questions that are planned together and charged once: all or none."""

    model_config = _example(
        questions=["SELECT count(*) FROM stays", "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis"],
        within="1%",
    )
    questions: Questions = Field(description="SQL over the dataset's table.")
    view: View = Field("single", description="Which intervals the reply shows.")


class PrepareBody(_Body):
    """Questions that are coming, to be made free by one measurement."""

    model_config = _example(questions=["SELECT sex, diagnosis, count(*) FROM stays GROUP BY sex, diagnosis"], within=50)
    questions: Questions = Field(description="SQL over the dataset's table.")
    within: Tolerances | None = Field(None, description='The tolerance: 50, "1%", or one for each column.')
    confidence: Confidence | None = Field(None, description="The confidence of each interval.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')


class ChooseBody(_Body):
    """A question whose largest groups are wanted by name."""

    model_config = _example(
        question="SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis", epsilon="0.05", count=3
    )
    question: Question = Field(description="SQL over the dataset's table.")
    epsilon: Amount = Field(description="The price of the call alone.")
    count: Annotated[int, Field(ge=1, le=10_000)] = Field(1, description="How many to name.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')


class WatchBody(_Body):
    """A threshold that counts are compared with; charged in full when it is opened."""

    model_config = _example(threshold=9000, epsilon="0.1", alerts=2, questions=100)
    threshold: Whole = Field(description="The count that an alert is about.")
    epsilon: Amount = Field(description="The price of the call alone.")
    alerts: Annotated[int, Field(ge=1, le=10_000)] = Field(1, description="How many alerts are paid for.")
    questions: Annotated[int, Field(ge=1, le=10**9)] = Field(1000, description="How many counts will be compared.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')


class WatchQuestionBody(_Body):
    """A count to be compared with the watch's threshold."""

    model_config = _example(question="SELECT count(*) FROM stays WHERE admitted >= '2025-01-01'")
    question: Question = Field(description="SQL over the dataset's table.")
    threshold: Whole | None = Field(None, description="Another threshold for this question.")


class WeightsBody(_Body):
    """Counts that one charge answers by multiplicative weights."""

    model_config = _example(questions=["SELECT count(*) FROM stays WHERE sex = 'female'"], epsilon="0.2")
    questions: Questions = Field(description="SQL over the dataset's table.")
    epsilon: Amount = Field(description="The price of the call alone.")
    columns: Columns | None = Field(None, description="The columns. Default: all in the questions.")
    confidence: Confidence | None = Field(None, description="The confidence of each interval.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')


class SynthesizeBody(_Body):
    """A synthetic table to be released: a job that goes on after the reply."""

    model_config = _example(workload="2-way", columns=["sex", "age", "diagnosis"], share="10%", count=20_000)
    workload: Annotated[str, Field(max_length=60)] | None = Field(
        None, description='What it should answer: "2-way" or "3-way", all tables of so many columns.'
    )
    target: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="A column to be predicted from the others, instead of `workload`."
    )
    ways: Annotated[int, Field(ge=1, le=20)] | None = Field(
        None, description="All tables of so many columns, as a number."
    )
    columns: Columns | None = Field(None, description="The columns. Default: all.")
    marginals: Annotated[list[Columns], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="These marginals, instead of `ways`."
    )
    epsilon: Amount | None = Field(None, description="The price of the call alone.")
    share: Amount | None = Field(None, description="What it may take of the budget, instead of `epsilon`.")
    method: Literal["annealed", "mwem", "guaranteed", "blr"] | None = Field(None, description="How it is made.")
    rows: Literal["rounded", "sampled", "weighted"] | None = Field(None, description="How rows are made up.")
    count: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(None, description="How many rows.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')


class RequestBody(_Body):
    """A question over a cap, or several together, for an owner to grant or to decline."""

    model_config = _example(question=_COUNT, within="0.1%")
    question: Question | None = Field(None, description="SQL over the dataset's table.")
    questions: Questions | None = Field(None, description="Several of them, instead of one.")
    within: Tolerances | None = Field(None, description='The tolerance: 50, "1%", or one for each column.')
    confidence: Confidence | None = Field(None, description="The confidence of each interval.")
    epsilon: Amount | None = Field(None, description="The price of the question alone, instead of `within`.")


class DecisionBody(_Body):
    """An owner's decision on a request."""

    model_config = _example(grant=True)
    grant: bool = Field(description="Whether it is allowed.")


class BudgetBody(_Body):
    """A new, larger budget; what is left out stays as it is."""

    model_config = _example(epsilon="2", delta="1e-6")
    epsilon: Amount | None = Field(None, description="The new total.")
    delta: Amount | None = Field(None, description="The new total.")


class PublishBody(_Body):
    """What a noisy figure of the rows that the cap leaves out may cost."""

    model_config = _example(epsilon="0.1", max_price="2%")
    epsilon: Amount = Field(description="The price of the call alone.")
    max_price: Amount | None = Field(None, description='The most it may take of the budget, such as "2%".')


class AdmitBody(_Body):
    """An analyst's share of the budget."""

    model_config = _example(share="1/2")
    share: Amount | None = Field(None, description="The analyst's share of the budget. Default: all of it.")


class LimitsBody(_Body):
    """Caps on spending, as shares of the budget."""

    model_config = _example(question="5%", analyst_day="10%", dataset_day="25%", approvals=True)
    question: Amount | None = Field(None, description="The most one question may take.")
    analyst_day: Amount | None = Field(None, description="The most one analyst may spend in a day.")
    dataset_day: Amount | None = Field(None, description="The most all together may spend in a day.")
    approvals: bool = Field(default=False, description="Whether analysts may ask an owner to allow more.")


class AccountBody(_Body):
    """A new account."""

    model_config = _example(name="ada", grants={"hospital-stays": "analyst"})
    name: Name = Field(description="The name, which is also the analyst's in the ledger.")
    grants: Annotated[dict[Name, Role], Field(max_length=1000)] = Field(
        default_factory=dict, description="Role by dataset; * for all."
    )
    email: Annotated[str, StringConstraints(min_length=3, max_length=200)] | None = Field(
        None, description="Lets its person log in at the OpenID Connect provider."
    )
    password: Annotated[str, StringConstraints(min_length=12, max_length=200)] | None = Field(
        None, description="For the page alone."
    )


class GrantBody(_Body):
    """A role for a dataset."""

    model_config = _example(role="analyst")
    role: Role = Field(description="What the account may do with the dataset.")


class TokenBody(_Body):
    """A new token. It is shown once, in the reply."""

    model_config = _example(name="notebook", days=90, datasets=["hospital-stays"], max_price="1%")
    name: Name = Field(description="What it is for.")
    days: Annotated[int, Field(ge=1, le=3650)] | None = Field(None, description="Days until it expires. Default: 90.")
    datasets: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="For these alone."
    )
    max_price: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = Field(
        None, description="The most one call may take of a budget."
    )


class SavedBody(_Body):
    """Something that a person keeps on the page."""

    model_config = _example(content={"text": "for the yearly report"})
    content: dict[str, JsonValue] = Field(description="A JSON object of at most 64 KiB.")


class DraftBody(_Body):
    """A table to draft a dataset file from, and the owner's choices; what is left out is proposed from the rows."""

    model_config = _example(source="stays.parquet", id="patient", epsilon="1")
    source: Name = Field(description="A file in the server's folder, or env:NAME of a database's address.")
    table: Name | None = Field(None, description="The name that analysts use; of a database, the table inside it.")
    id: Name | None = Field(None, description="The column that identifies people.")
    rows: Annotated[int, Field(ge=1, le=2**31)] | None = Field(None, description="How many rows of a person count.")
    protects: Literal["row", "person"] | None = Field(None, description="Who is protected.")
    neighbours: Literal["add-remove", "replace"] | None = Field(None, description="Which change is covered.")
    epsilon: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = Field(
        None, description="The whole budget. Default: 1."
    )
    delta: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = Field(
        None, description="The budget's delta. Default: 1e-6, or less for a large table."
    )


class DraftValuesBody(_Body):
    """Corrections of values that a draft took from the rows."""

    model_config = _example(values={"columns.age.upper": "110"})
    values: Annotated[dict[Name, Annotated[str, StringConstraints(max_length=100_000)]], Field(min_length=1)] = Field(
        description="By the name in the review, each as the dataset file would have it."
    )


class LoginBody(_Body):
    """A name and its password."""

    model_config = _example(name="ada", password="correct horse battery staple")  # noqa: S106  an example
    name: Name = Field(description="The account's name.")
    password: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(description="Its password.")
