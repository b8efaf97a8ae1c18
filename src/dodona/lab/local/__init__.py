"""The local model: answers are randomized on the respondents' devices, so nobody needs to be trusted with the truth."""

from __future__ import annotations

from dodona.lab.local.check import Verdict, enumerated, formula
from dodona.lab.local.diary import Cost, Diary
from dodona.lab.local.encoder import Encoder
from dodona.lab.local.estimates import Estimates, HeavyHitters
from dodona.lab.local.question import Question
from dodona.lab.local.report import Batch, Report
from dodona.lab.local.survey import Response, Survey, response_from_json, response_to_json

__all__ = [
    "Batch", "Cost", "Diary", "Encoder", "Estimates", "HeavyHitters", "Question", "Report", "Response", "Survey",
    "Verdict", "enumerated", "formula", "response_from_json", "response_to_json",
]  # fmt: skip
