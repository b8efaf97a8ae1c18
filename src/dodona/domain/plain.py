"""Plain numbers: fractions as people write them."""

from __future__ import annotations

from fractions import Fraction


def plain(number: Fraction, *, digits: int | None = None) -> str:
    """Return a number as people write it: the whole decimal where it ends, else the ratio; or some digits of it.

    >>> plain(Fraction(1, 4)), plain(Fraction(-3)), plain(Fraction(1, 3)), plain(Fraction(1, 3), digits=3)
    ('0.25', '-3', '1/3', '0.333')
    """
    if digits is not None:
        return f"{float(number):.{digits}g}"
    rest, places = number.denominator, 0
    while rest % 10 in {0, 2, 4, 5, 6, 8}:  # each round takes one 2, one 5 or both out of the denominator
        rest //= 10 if rest % 10 == 0 else 5 if rest % 5 == 0 else 2
        places += 1
    if rest != 1:
        return str(number)
    scaled = f"{abs(number.numerator) * 10**places // number.denominator:0{places + 1}d}"
    sign = "-" if number < 0 else ""
    if places == 0:
        return sign + scaled
    return f"{sign}{scaled[:-places]}.{scaled[-places:]}".rstrip("0").rstrip(".")
