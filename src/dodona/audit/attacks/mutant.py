"""Dodona without noise: what the attacks must break, or they would prove nothing about Dodona with it."""

from __future__ import annotations

from dodona.audit.patch import replacing

_DRAWN = "    noise = in_runs(_runs(measurement))"

NOISE_OFF = replacing("dodona.trusted.release", _DRAWN, f"{_DRAWN} * 0", symbol="noisy")
