"""When chance fails after a charge, the error says so and carries nothing else."""

import pytest

from dodona.curator.desk import mark_errors_charged
from dodona.errors import EntropyFailed

EXACT = 987_654_321


def noisy(_value: int) -> int:
    raise EntropyFailed


def test_a_failure_of_chance_carries_no_frame_that_knew_an_exact_value():
    with pytest.raises(EntropyFailed, match="The charge stands") as raised, mark_errors_charged():
        noisy(EXACT)
    fault: BaseException | None = raised.value
    while fault is not None:
        step = fault.__traceback__
        while step is not None:
            assert EXACT not in [value for value in step.tb_frame.f_locals.values() if isinstance(value, int)]
            step = step.tb_next
        fault = fault.__context__
