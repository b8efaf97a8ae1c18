"""A survey: several questions that one respondent answers together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.local.alphabet import CollidingLabels
from dodona.lab.local.estimates import Estimates
from dodona.lab.local.question import SurveyQuestion
from dodona.lab.local.report import FORMAT, BadReport, NoReports, Report
from dodona.privacy.events import ComposedEvent, PureEvent

Response = tuple[Report, ...]
"""One respondent's reports, one for each question, in the survey's order."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Questions that everyone answers, all of them. Privacy losses add up for each respondent.

    >>> smokes = SurveyQuestion.yes_no("smokes", epsilon=1)
    >>> survey = Survey((smokes, SurveyQuestion.choice("fuel", ["gas", "oil"], epsilon="1/2")))
    >>> survey.epsilon
    Fraction(3, 2)
    >>> [report.question for report in survey.respond({"smokes": "no", "fuel": "oil"})]
    ['smokes', 'fuel']
    """

    questions: tuple[SurveyQuestion, ...]

    def __post_init__(self) -> None:
        """Refuse a survey without questions and duplicate names."""
        if not self.questions or any(not isinstance(question, SurveyQuestion) for question in self.questions):
            raise InvalidArgument("questions", self.questions, "write a tuple of at least one Question")
        names = set[str]()
        for question in self.questions:
            if question.name in names:
                raise CollidingLabels(question.name, question.name, why="two questions have this name; rename one")
            names.add(question.name)

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of all reports of a respondent together."""
        return sum((question.epsilon for question in self.questions), start=Fraction(0))

    def event(self) -> PureEvent | ComposedEvent:
        """Return the event of one response, for an accountant.

        Theorem: composition
        """
        events = [question.event() for question in self.questions]
        return events[0] if len(events) == 1 else ComposedEvent(tuple((event, 1) for event in events))

    def respond(self, answers: Mapping[str, object]) -> Response:
        """Return a report for every question. All must be answered: leaving one out would reveal something.

        Nothing is drawn before all answers are validated.
        """
        names = [question.name for question in self.questions]
        if set(answers) != set(names):
            # The answers are private, even if their form is wrong.
            raise InvalidRequest(f"Write one answer for each of {', '.join(names)}, and no other. Nothing was drawn.")
        for question in self.questions:
            question.keys([answers[question.name]])
        return tuple(question.respond(answers[question.name]) for question in self.questions)

    def collect(
        self,
        responses: Iterable[Response],
        *,
        candidates: Mapping[str, Iterable[str]] | None = None,
        confidence: float = 0.95,
    ) -> dict[str, Estimates]:
        """Return the estimates of every question; candidates are declared by question, for open texts."""
        columns: list[list[Report]] = [[] for _ in self.questions]
        for number, response in enumerate(responses):
            if len(response) != len(self.questions):
                raise BadReport("it does not hold one report for each question", number=number)
            for column, report in zip(columns, response, strict=True):
                column.append(report)
        if not columns[0]:
            raise NoReports(self.questions[0].name)
        declared = {} if candidates is None else candidates
        return {
            question.name: question.collect(column, candidates=declared.get(question.name), confidence=confidence)
            for question, column in zip(self.questions, columns, strict=True)
        }

    def to_json(self) -> str:
        """Return the survey as text, for the respondents' devices."""
        questions = ",".join(question.to_json() for question in self.questions)
        return f'{{"format":{FORMAT},"questions":[{questions}]}}'

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the survey that a text encodes."""
        try:
            parts = json.loads(text)["questions"]
            spelled = [json.dumps(part, sort_keys=True, separators=(",", ":")) for part in parts]
        except (ValueError, TypeError, LookupError, RecursionError):
            spelled = []
        made = cls(tuple(map(SurveyQuestion.from_json, spelled))) if spelled else None
        if made is None or made.to_json() != text:
            raise InvalidRequest("The text does not encode a survey of this version: write what `to_json` returned.")
        return made


def response_to_json(response: Response) -> str:
    """Return one respondent's reports as text: a JSON list."""
    return f"[{','.join(report.to_json() for report in response)}]"


def response_from_json(text: str) -> Response:
    """Return the reports that a text encodes."""
    try:
        parts = json.loads(text)
        spelled = [json.dumps(part) for part in parts] if isinstance(parts, list) else None
    except (ValueError, TypeError, RecursionError):
        spelled = None
    if spelled is None:
        raise BadReport("it is not a list of reports in JSON")
    return tuple(map(Report.from_json, spelled))
