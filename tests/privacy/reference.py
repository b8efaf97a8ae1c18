"""The table of references: limits of budgets, how many mechanisms fit them, and ε of compositions at 1e-6.

Each line has a name, its side, the number as it was published and the same with more digits, which
`tests/privacy/digits.py` computes anew. The sides:

- `epsilon`: an upper bound; ours may not be below it.
- `limit`: what may be spent; ours may not be above it.
- `count`: how many fit; ours is the same.
- `other`: of continuous Laplace noise, which is not drawn here; to compare.

Published by, or computed with: dp-accounting 0.6.0 (`continuous Laplace, plan`: its pessimistic bound on a grid of
1e-4), autodp 0.2.3.1 and OpenDP 0.16.0 (Rényi and zCDP), Balle and Wang 2018 (Gaussian), Kairouz, Oh, Viswanath 2015
and Murtagh, Vadhan 2016 (`plan`), Harrison and Manurangsi 2025 (zCDP prices). A dash is for what was not published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

Side = Literal["epsilon", "limit", "count", "other"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A number as published, or None, and with all digits that are known."""

    side: Side
    published: str | None
    value: str


_TABLE = """
rho of (0.1, 1e-6) | limit | 0.00032105 | 0.0003210476903457
textbook rho of (0.1, 1e-6) | limit | 0.00018030 | 0.0001803040801808
limit of (0.1, 1e-6) at 165.5 | limit | 0.0531333336 | 0.05313333365031
mu of (0.1, 1e-6) | limit | 0.02754465 | 0.02754465024383
rho of (0.5, 1e-6) | limit | 0.00664152 | 0.006641524356661
textbook rho of (0.5, 1e-6) | limit | 0.00444384 | 0.004443844159097
limit of (0.5, 1e-6) at 40 | limit | 0.2656606001 | 0.2656606001933
mu of (0.5, 1e-6) | limit | 0.12410615 | 0.1241061490305
rho of (1, 1e-6) | limit | 0.02435597 | 0.02435597035954
textbook rho of (1, 1e-6) | limit | 0.01746890 | 0.01746890476912
limit of (1, 1e-6) at 22 | limit | 0.5358310582 | 0.5358310582727
mu of (1, 1e-6) | limit | 0.23670438 | 0.2367043806634
rho of (1, 1e-9) | limit | 0.01497306 | 0.01497305767359
textbook rho of (1, 1e-9) | limit | 0.01178116 | 0.0117811603952
limit of (1, 1e-9) at 34.875 | limit | 0.5221853417 | 0.5221853418478
mu of (1, 1e-9) | limit | 0.18197481 | 0.1819748072953
rho of (2, 1e-6) | limit | 0.08815269 | 0.08815268837995
textbook rho of (2, 1e-6) | limit | 0.06757388 | 0.06757388167314
limit of (2, 1e-6) at 12.375 | limit | 1.0908684974 | 1.090868497507
mu of (2, 1e-6) | limit | 0.44833474 | 0.4483347403952
rho of (4, 1e-6) | limit | 0.31106495 | 0.3110649549408
textbook rho of (4, 1e-6) | limit | 0.25393558 | 0.2539355782895
limit of (4, 1e-6) at 7.1875 | limit | 2.2357650617 | 2.23576506177
mu of (4, 1e-6) | limit | 0.83785876 | 0.83785875709
rho of (8, 1e-6) | limit | 1.05235800 | 1.052358004557
textbook rho of (8, 1e-6) | limit | 0.90970683 | 0.9097068296901
limit of (8, 1e-6) at 4.4375 | limit | - | 4.669770138162
mu of (8, 1e-6) | limit | 1.53154512 | 1.531545117566
rho of (10, 1e-5) | limit | 1.78269562 | 1.782695616329
textbook rho of (10, 1e-5) | limit | 1.55035523 | 1.550355228575
limit of (10, 1e-5) at 3.375 | limit | - | 6.016016774987
mu of (10, 1e-5) | limit | 2.00044562 | 2.000445620431
pure of 0.01, basic, in (1, 1e-6) | count | 100 | 100
pure of 0.01, advanced, in (1, 1e-6) | count | 349 | 349
pure of 0.01, half the square, in (1, 1e-6) | count | 487 | 487
pure of 0.01, zCDP, in (1, 1e-6) | count | 487 | 487
pure of 0.01, Rényi, in (1, 1e-6) | count | 490 | 490
pure of 0.01, Gaussian, in (1, 1e-6) | count | 356 | 356
pure of 0.01, fixed beforehand, in (1, 1e-6) | count | 562 | 562
continuous Laplace of 0.01, zCDP, in (1, 1e-6) | count | 488 | 488
continuous Laplace of 0.01, Rényi, in (1, 1e-6) | count | 492 | 492
exponential of 0.01, zCDP, in (1, 1e-6) | count | 1948 | 1948
exponential of 0.01, Rényi, in (1, 1e-6) | count | 1949 | 1949
pure of 0.05, basic, in (1, 1e-6) | count | 20 | 20
pure of 0.05, advanced, in (1, 1e-6) | count | 13 | 13
pure of 0.05, half the square, in (1, 1e-6) | count | 19 | 19
pure of 0.05, zCDP, in (1, 1e-6) | count | 19 | 19
pure of 0.05, Rényi, in (1, 1e-6) | count | 22 | 22
pure of 0.05, Gaussian, in (1, 1e-6) | count | 14 | 14
pure of 0.05, fixed beforehand, in (1, 1e-6) | count | 26 | 26
continuous Laplace of 0.05, zCDP, in (1, 1e-6) | count | 19 | 19
continuous Laplace of 0.05, Rényi, in (1, 1e-6) | count | 23 | 23
exponential of 0.05, zCDP, in (1, 1e-6) | count | 77 | 77
exponential of 0.05, Rényi, in (1, 1e-6) | count | 79 | 79
pure of 0.1, basic, in (1, 1e-6) | count | 10 | 10
pure of 0.1, advanced, in (1, 1e-6) | count | 3 | 3
pure of 0.1, half the square, in (1, 1e-6) | count | 4 | 4
pure of 0.1, zCDP, in (1, 1e-6) | count | 4 | 4
pure of 0.1, Rényi, in (1, 1e-6) | count | 7 | 7
pure of 0.1, Gaussian, in (1, 1e-6) | count | 3 | 3
pure of 0.1, fixed beforehand, in (1, 1e-6) | count | 10 | 10
pure of 0.01, basic, in (4, 1e-6) | count | 400 | 400
pure of 0.01, advanced, in (4, 1e-6) | count | 5078 | 5078
pure of 0.01, half the square, in (4, 1e-6) | count | 6221 | 6221
pure of 0.01, zCDP, in (4, 1e-6) | count | 6221 | 6221
pure of 0.01, Rényi, in (4, 1e-6) | count | 6225 | 6225
pure of 0.01, Gaussian, in (4, 1e-6) | count | 4469 | 4469
pure of 0.01, fixed beforehand, in (4, 1e-6) | count | 7024 | 7024
pure of 0.1, basic, in (4, 1e-6) | count | 40 | 40
pure of 0.1, advanced, in (4, 1e-6) | count | 50 | 50
pure of 0.1, half the square, in (4, 1e-6) | count | 62 | 62
pure of 0.1, zCDP, in (4, 1e-6) | count | 62 | 62
pure of 0.1, Rényi, in (4, 1e-6) | count | 66 | 66
pure of 0.1, Gaussian, in (4, 1e-6) | count | 44 | 44
pure of 0.1, fixed beforehand, in (4, 1e-6) | count | 74 | 74
continuous Laplace of 0.1, zCDP, in (4, 1e-6) | count | 64 | 64
continuous Laplace of 0.1, Rényi, in (4, 1e-6) | count | 68 | 68
exponential of 0.1, zCDP, in (4, 1e-6) | count | 248 | 248
exponential of 0.1, Rényi, in (4, 1e-6) | count | 250 | 250
Gaussian of 50, zCDP, in (1, 1e-6) | count | 121 | 121
Gaussian of 50, Rényi, in (1, 1e-6) | count | 121 | 121
continuous Gaussian of 50, in (1, 1e-6) | count | 140 | 140
Gaussian of 100, zCDP, in (1, 1e-6) | count | 487 | 487
Gaussian of 100, Rényi, in (1, 1e-6) | count | 487 | 487
continuous Gaussian of 100, in (1, 1e-6) | count | 560 | 560
Gaussian of 50, zCDP, in (4, 1e-6) | count | 1555 | 1555
Gaussian of 50, Rényi, in (4, 1e-6) | count | 1555 | 1555
continuous Gaussian of 50, in (4, 1e-6) | count | 1755 | 1755
100 of 0.1, basic | epsilon | 10 | 10.0
100 of 0.1, advanced | epsilon | 6.308231 | 6.308230950513
100 of 0.1, sharp advanced | epsilon | 5.756106 | 5.756105519336
100 of 0.1, textbook zCDP | epsilon | 5.756522 | 5.756521769757
100 of 0.1, half the square | epsilon | 5.221534 | 5.22153444453
100 of 0.1, zCDP | epsilon | 5.219075 | 5.219075238262
100 of 0.1, Rényi | epsilon | 5.073106 | 5.073106174632
100 of 0.1, plan | epsilon | 4.774568 | 4.774567588108
100 of 0.1, continuous Laplace, zCDP | other | 5.124860 | 5.12485996024
100 of 0.1, continuous Laplace, Rényi | other | 4.984174 | 4.98417395864
100 of 0.1, continuous Laplace, plan | other | 4.692667 | 4.692667438644
100 of 0.01, basic | epsilon | 1 | 1.0
100 of 0.01, advanced | epsilon | 0.535702 | 0.5357023440599
100 of 0.01, sharp advanced | epsilon | 0.530652 | 0.5306521353094
100 of 0.01, textbook zCDP | epsilon | 0.530652 | 0.5306521769757
100 of 0.01, half the square | epsilon | 0.429941 | 0.4299414688369
100 of 0.01, zCDP | epsilon | 0.429940 | 0.4299395644224
100 of 0.01, Rényi | epsilon | 0.422009 | 0.4220091730671
100 of 0.01, plan | epsilon | 0.392264 | 0.3922639430935
100 of 0.01, continuous Laplace, zCDP | other | 0.429181 | 0.4291810075436
100 of 0.01, continuous Laplace, Rényi | other | 0.421277 | 0.4212771755206
100 of 0.01, continuous Laplace, plan | other | 0.391325 | 0.3913254612665
10000 of 0.1, basic | epsilon | 1000 | 1000.0
10000 of 0.1, advanced | epsilon | 157.736136 | 157.7361357732
10000 of 0.1, sharp advanced | epsilon | 102.523593 | 102.5235926554
10000 of 0.1, textbook zCDP | epsilon | 102.565218 | 102.5652176976
10000 of 0.1, half the square | epsilon | 100.689905 | 100.6899051611
10000 of 0.1, zCDP | epsilon | 100.626728 | 100.6267282704
10000 of 0.1, Rényi | epsilon | 100.527441 | 100.527441179
10000 of 0.1, plan | epsilon | 96.571840 | 96.57184003313
10000 of 0.1, continuous Laplace, zCDP | other | 98.215605 | 98.21560467725
10000 of 0.1, continuous Laplace, Rényi | other | 98.121230 | 98.12123019904
10000 of 0.1, continuous Laplace, plan | other | 94.235869 | 94.23586865626
10000 of 0.01, basic | epsilon | 100 | 100.0
10000 of 0.01, advanced | epsilon | 6.261538 | 6.261538478174
10000 of 0.01, sharp advanced | epsilon | 5.756518 | 5.756517603132
10000 of 0.01, textbook zCDP | epsilon | 5.756522 | 5.756521769757
10000 of 0.01, half the square | epsilon | 5.221534 | 5.22153444453
10000 of 0.01, zCDP | epsilon | 5.221510 | 5.221509832196
10000 of 0.01, Rényi | epsilon | 5.220083 | 5.220082701865
10000 of 0.01, plan | epsilon | 4.885516 | 4.885515601007
10000 of 0.01, continuous Laplace, zCDP | other | 5.211707 | 5.211707426232
10000 of 0.01, continuous Laplace, Rényi | other | 5.210286 | 5.210285569723
10000 of 0.01, continuous Laplace, plan | other | 4.876258 | 4.876257931959
1 Gaussian of 1, continuous | epsilon | 4.88655412 | 4.886554117462
1 Gaussian of 1, zCDP | epsilon | 5.22153444 | 5.22153444453
1 Gaussian of 1, textbook zCDP | epsilon | 5.75652177 | 5.756521769757
1 Gaussian of 2, continuous | epsilon | 2.25408465 | 2.25408465022
1 Gaussian of 2, zCDP | epsilon | 2.41909318 | 2.419093176867
1 Gaussian of 2, textbook zCDP | epsilon | 2.75326088 | 2.753260884878
1 Gaussian of 5, continuous | epsilon | 0.83411755 | 0.8341175486241
1 Gaussian of 5, zCDP | epsilon | 0.89993527 | 0.8999352676606
1 Gaussian of 5, textbook zCDP | epsilon | 1.07130435 | 1.071304353951
1 Gaussian of 10, continuous | epsilon | 0.39685738 | 0.3968573776441
1 Gaussian of 10, zCDP | epsilon | 0.42994147 | 0.4299414688369
1 Gaussian of 10, textbook zCDP | epsilon | 0.53065218 | 0.5306521769757
100 Gaussian of 10, continuous | epsilon | 4.88655412 | 4.886554117462
100 Gaussian of 10, zCDP | epsilon | 5.22153444 | 5.22153444453
100 Gaussian of 10, textbook zCDP | epsilon | 5.75652177 | 5.756521769757
10000 Gaussian of 100, continuous | epsilon | 4.88655412 | 4.886554117462
10000 Gaussian of 100, zCDP | epsilon | 5.22153444 | 5.22153444453
10000 Gaussian of 100, textbook zCDP | epsilon | 5.75652177 | 5.756521769757
1000 Gaussian of 20, continuous | epsilon | 8.30622505 | 8.306225049955
1000 Gaussian of 20, zCDP | epsilon | 8.84588935 | 8.845889348462
1000 Gaussian of 20, textbook zCDP | epsilon | 9.56129068 | 9.561290681346
100 Gaussian of 50, continuous | epsilon | 0.83411755 | 0.8341175486241
100 Gaussian of 50, zCDP | epsilon | 0.89993527 | 0.8999352676606
100 Gaussian of 50, textbook zCDP | epsilon | 1.07130435 | 1.071304353951
10000 Gaussian of 50, continuous | epsilon | 10.99715121 | 10.99715121422
10000 Gaussian of 50, zCDP | epsilon | 11.68859625 | 11.68859624935
10000 Gaussian of 50, textbook zCDP | epsilon | 12.51304354 | 12.51304353951
pure mixture, basic | epsilon | 5.5 | 5.5
pure mixture, advanced | epsilon | 3.446228 | 3.446228372169
pure mixture, textbook zCDP | epsilon | 3.260007 | 3.260007455051
pure mixture, half the square | epsilon | 2.886114 | 2.886114442696
pure mixture, zCDP | epsilon | 2.885226 | 2.885225692106
pure mixture, Rényi | epsilon | 2.751962 | 2.751962067227
pure mixture, plan | epsilon | 2.594131 | 2.594131471931
mixture, basic | epsilon | 31.53 | 31.52620145321
mixture, half the square | epsilon | 4.604440 | 4.604440049437
mixture, zCDP | epsilon | - | 4.35469107865
mixture, Rényi | epsilon | - | 4.204381803435
mixture, continuous Laplace, an eighth of the square | other | 4.341006 | 4.341005991173
mixture, continuous Laplace, zCDP | other | - | 4.340994275089
mixture, continuous Laplace, Rényi | other | 4.190273 | 4.190272877716
mixture, continuous Laplace, plan | other | 4.171097 | 4.171097
"""


def _read(line: str) -> tuple[str, Reference]:
    name, side, published, value = line.split(" | ")
    return name, Reference(cast("Side", side), None if published == "-" else published, value)


REFERENCES = dict(_read(line) for line in _TABLE.strip().splitlines())
"""All references, by name."""
