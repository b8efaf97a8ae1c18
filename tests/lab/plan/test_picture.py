"""Pictures of promises are drawn along every side, for every task."""

import pytest

from dodona.errors import InvalidArgument
from dodona.lab.plan import Marginals, PlanParameter, Setting, Task
from dodona.lab.plan.picture import draw

PLAN = Setting(rows=10**4, questions=20, cells=16, epsilon=1, delta="1e-6", positives=2)


@pytest.mark.parametrize(
    "over",
    [
        PlanParameter.QUESTIONS,
        *(pytest.param(parameter, marks=pytest.mark.slow) for parameter in (PlanParameter.ROWS, PlanParameter.EPSILON)),
    ],
)
def test_a_picture_has_a_line_for_each_family(over, tmp_path):
    path = tmp_path / "plan.svg"
    draw(path, PLAN, over=over, mechanisms=["laplace-basic", "gaussian-zcdp", "blr", "pmw"])
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 1
    for title in ("Laplace noise, basic composition", "Gaussian noise, zCDP", "synthetic table (BLR)"):
        assert f"<!-- {title}" in text
    assert f"<!-- {over.value} -->" in text


@pytest.mark.parametrize("task", [Task.LARGEST, pytest.param(Task.ABOVE, marks=pytest.mark.slow)])
def test_choices_and_thresholds_are_drawn_too(task, tmp_path):
    path = tmp_path / "plan.png"
    draw(path, PLAN, task=task)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 10_000


def test_what_cannot_be_drawn_is_refused(tmp_path):
    workload = Setting(rows=100, epsilon=1, delta="1e-6", workload=Marginals([2, 2], ways=1))
    with pytest.raises(InvalidArgument, match="workload"):
        draw(tmp_path / "plan.png", workload, over=PlanParameter.QUESTIONS)
    with pytest.raises(InvalidArgument, match="none of these"):
        draw(tmp_path / "plan.png", Setting(rows=100, questions=5, epsilon=1), mechanisms=["pmw"])
    draw(tmp_path / "plan.png", workload, mechanisms=["residuals"])
