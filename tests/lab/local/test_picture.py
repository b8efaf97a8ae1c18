"""Noise on the input against noise on the output: √n apart, in what is promised and in what runs show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dodona.errors import InvalidArgument
from dodona.lab.local.picture import compare_errors, draw_noise
from dodona.lab.mechanisms import Laplace, RandomizedResponse


def test_promises_are_those_of_the_two_mechanisms():
    for point in compare_errors([100, 10_000], epsilon="1/2", runs=1):
        response = RandomizedResponse(epsilon="1/2").accuracy(respondents=point.respondents)
        assert point.input_within == pytest.approx(response.within, rel=1e-9)
        assert point.output_within == Laplace(scale=2).accuracy().within / point.respondents


@pytest.mark.distribution
def test_a_hundred_times_the_people_help_noise_on_the_input_ten_times_and_on_the_output_a_hundred_times():
    """200 runs: a mean absolute error is within 30% of what it should be but with probability 10^-6."""
    few, many = compare_errors([400, 40_000], runs=200)
    for errors, factor in (("input_errors", 10), ("output_errors", 100)):
        ratio = np.mean(np.abs(getattr(few, errors))) / np.mean(np.abs(getattr(many, errors)))
        assert 0.55 < ratio / factor < 1.8
    assert np.mean(np.abs(many.input_errors)) > 20 * np.mean(np.abs(many.output_errors))
    assert np.mean(np.abs(few.input_errors) <= few.input_within) > 0.9
    assert np.mean(np.abs(few.output_errors) <= few.output_within) > 0.9


def test_a_picture_is_drawn(tmp_path: Path):
    path = tmp_path / "noise.png"
    draw_noise(path, compare_errors([100, 200, 400], runs=20))
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"runs": 0}, {"confidence": 1}, {"respondents": [0]}])
def test_what_cannot_be_compared_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        compare_errors(**{"respondents": [100], **wrong})
