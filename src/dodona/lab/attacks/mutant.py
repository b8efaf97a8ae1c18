"""Dodona without noise: what the attacks must break, or they would prove nothing about Dodona with it."""

from __future__ import annotations

from dodona.lab.audit.patch import replacing

_DRAWN = "    noise = draw_runs(_noise_runs(measurement))"

NOISE_OFF = replacing("dodona.trusted.gate", _DRAWN, f"{_DRAWN} * 0", symbol="add_noise")
