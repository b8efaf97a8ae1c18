"""Adaptive data analysis: estimates for a population that stay valid when queries depend on earlier answers."""

from __future__ import annotations

from dodona.lab.adaptive.certificate import Certificate, Route, Values
from dodona.lab.adaptive.holdout import ReusableHoldout, correct
from dodona.lab.adaptive.holdout_design import HoldoutDesign, Method
from dodona.lab.adaptive.oracle import StatisticalQueryOracle, plan
from dodona.lab.adaptive.told import Told

__all__ = [
    "Certificate", "HoldoutDesign", "Method", "ReusableHoldout", "Route", "StatisticalQueryOracle", "Told", "Values",
    "correct", "plan",
]  # fmt: skip
