"""The local model: answers are randomized on the respondents' devices, so nobody needs to be trusted with the truth."""

from __future__ import annotations

from dodona.lab.local.channel import PrivacyCheck, check_by_enumeration, check_by_formula
from dodona.lab.local.diary import Cost, Diary
from dodona.lab.local.encoder import Encoder
from dodona.lab.local.estimates import Estimates, HeavyHitters
from dodona.lab.local.question import SurveyQuestion
from dodona.lab.local.report import Batch, Report
from dodona.lab.local.survey import Response, Survey, response_from_json, response_to_json

__all__ = [
    "Batch", "Cost", "Diary", "Encoder", "Estimates", "HeavyHitters", "PrivacyCheck", "Report", "Response",
    "Survey", "SurveyQuestion", "check_by_enumeration", "check_by_formula", "response_from_json", "response_to_json",
]  # fmt: skip
