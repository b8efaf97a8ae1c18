"""Budgets and analysts: exact, and valid or not at all."""

from decimal import Decimal
from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument
from dodona.privacy.accountants import Accountant
from dodona.privacy.budget import Analyst, Budget

TENTHS = ["0.1", 0.1, "1/10", "1e-1", Decimal("0.1"), Fraction(1, 10), " .1 "]


@pytest.mark.parametrize("text", TENTHS, ids=repr)
def test_a_tenth_is_a_tenth_however_it_is_written(text: object):
    budget = Budget(text, "1e-6", "renyi")
    assert budget.epsilon == Fraction(1, 10)
    assert budget.delta == Fraction(1, 10**6)
    assert budget.accountant is Accountant.RENYI


BAD_EPSILONS = [
    *(0, "0", -1, "-0.1", "nan", "inf", "-inf", float("nan"), float("inf"), 1e-320, "1e-320", "1e320", "", "one"),
    *(None, True, "1/0", "0x1", "1e999999", "١", Decimal("NaN"), Decimal("Infinity"), 1j, b"1", ["1"], "1 000"),
    *("1e-13", 10**5, "9" * 300),
]


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=repr)
@pytest.mark.parametrize("accountant", ["pure", "renyi"])
def test_a_bad_epsilon_is_refused(epsilon: object, accountant: str):
    with pytest.raises(InvalidArgument, match="epsilon"):
        Budget(epsilon, 0 if accountant == "pure" else "1e-6", accountant)


BAD_DELTAS = [0, 1, 2, -1, "1", "1.0", "nan", "inf", float("nan"), 1e-320, "1e-320", None, True, "x", "1/0"]


@pytest.mark.parametrize("delta", BAD_DELTAS, ids=repr)
@pytest.mark.parametrize("accountant", ["zcdp", "renyi", "either"])
def test_a_bad_delta_is_refused(delta: object, accountant: str):
    with pytest.raises(InvalidArgument, match="delta"):
        Budget(1, delta, accountant)


def test_a_pure_budget_has_no_delta():
    assert Budget(1, 0, "pure").filter().epsilon == 1
    with pytest.raises(InvalidArgument, match="delta"):
        Budget(1, "1e-6", "pure")


@pytest.mark.parametrize("accountant", ["", "pure ", "Renyi", 1, ["renyi"]], ids=repr)
def test_an_unknown_accountant_is_refused(accountant: object):
    with pytest.raises(InvalidArgument, match="accountant"):
        Budget(1, "1e-6", accountant)


@pytest.mark.parametrize("share", ["50%", " 50 % ", "1/2", 0.5, "0.5"])
def test_a_share_may_be_a_percentage(share: object):
    assert Analyst("ada", share).share == Fraction(1, 2)


@pytest.mark.parametrize("share", ["0%", "101%", "%", "half%", 0, -1, "3/2", "nan", None, "", True, 1e-320], ids=repr)
def test_a_share_is_a_part(share: object):
    with pytest.raises(InvalidArgument, match="share"):
        Analyst("ada", share)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0", "n" * 101, None, 3, "\udc80"], ids=ascii)
def test_a_name_can_be_printed(name: object):
    with pytest.raises(InvalidArgument, match="name"):
        Analyst(name, "1/2")


@pytest.mark.parametrize(("delta", "accountant"), [(0, "pure"), ("1e-6", "renyi"), (1e-6, "renyi")])
def test_a_budget_that_names_no_accountant_has_the_one_of_the_dataset_file(delta: object, accountant: str):
    assert Budget(1, delta) == Budget(1, delta, accountant)


def test_a_budget_without_delta_is_pure():
    assert Budget(1) == Budget(1, 0, "pure")
