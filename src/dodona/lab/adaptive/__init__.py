"""Adaptive data analysis: estimates for a population that stay valid when queries depend on earlier answers."""

from __future__ import annotations

from dodona.lab.adaptive.answer import PopulationEstimate
from dodona.lab.adaptive.certificate import Certificate, Route, Values
from dodona.lab.adaptive.holdout import ReusableHoldout, correct
from dodona.lab.adaptive.holdout_design import HoldoutDesign, HoldoutMethod
from dodona.lab.adaptive.oracle import StatisticalQueryOracle, plan

__all__ = [
    "Certificate", "HoldoutDesign", "HoldoutMethod", "PopulationEstimate", "ReusableHoldout", "Route",
    "StatisticalQueryOracle", "Values", "correct", "plan",
]  # fmt: skip
