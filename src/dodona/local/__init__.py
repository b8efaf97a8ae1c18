"""The local model: answers become noisy on the respondents' own devices, and nobody is trusted with the truth."""

from __future__ import annotations

from dodona.local.check import Verdict, enumerated, formula
from dodona.local.diary import Cost, Diary
from dodona.local.encoder import Encoder
from dodona.local.estimates import Estimates, HeavyHitters
from dodona.local.question import Question
from dodona.local.report import Batch, Report
from dodona.local.survey import Response, Survey, response_from_json, response_to_json

__all__ = [
    "Batch", "Cost", "Diary", "Encoder", "Estimates", "HeavyHitters", "Question", "Report", "Response", "Survey",
    "Verdict", "enumerated", "formula", "response_from_json", "response_to_json",
]  # fmt: skip
