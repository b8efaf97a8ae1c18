"""Dodona without noise: the attacks must break it, or they would prove nothing about Dodona with noise."""

from __future__ import annotations

from dodona.lab.audit.patch import replacing

_DRAWN = "    noise = draw_runs(_noise_runs(measurement))"

NOISE_OFF = replacing("dodona.trusted.gate", _DRAWN, f"{_DRAWN} * 0", symbol="add_noise")
