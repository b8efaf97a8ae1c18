"""The planner beside known guarantees: (1, 10^-6), β = .05, replace-one, all answers within α at once."""

from __future__ import annotations

from dodona.lab.plan import Setting, promise_for

INDEPENDENT = ("laplace-basic", "laplace-zcdp", "laplace-exact", "gaussian-zcdp", "gaussian-exact")
NOISE: dict[tuple[int, int], tuple[float | None, ...]] = {
    (10**4, 10**3): (0.9878, 0.1414, 0.1318, 0.05802, 0.0541),
    (10**4, 10**6): (None, None, None, None, None),
    (10**5, 10**3): (0.09878, 0.01414, 0.01318, 0.005802, 0.00541),
    (10**5, 10**6): (None, 0.7605, 0.7091, 0.2468, 0.2301),
    (10**6, 10**3): (0.009878, 0.001414, 0.001318, 0.0005802, 0.000541),
    (10**6, 10**6): (None, 0.07605, 0.07091, 0.02468, 0.02301),
    (10**7, 10**3): (9.878e-4, 1.414e-4, 1.318e-4, 5.802e-5, 5.41e-5),
    (10**7, 10**6): (None, 0.007605, 0.007091, 0.002468, 0.002301),
}
"""By rows and questions, in the order of `INDEPENDENT`; None where nothing is promised."""
BITS = (10, 20, 40)
LEARNED: dict[tuple[int, int], dict[str, tuple[float | None, ...]]] = {
    (10**4, 10**3): {"blr": (0.247, 0.381, 0.507), "mwem": (0.233, 0.280, 0.336), "pmw": (0.579, 0.695, 0.838)},
    (10**4, 10**6): {"blr": (0.296, 0.469, 0.626), "mwem": (0.277, 0.331, 0.397), "pmw": (0.670, 0.810, 0.974)},
    (10**5, 10**3): {"blr": (0.081, 0.167, 0.230), "mwem": (0.0785, 0.0942, 0.113), "pmw": (0.195, 0.233, 0.279)},
    (10**5, 10**6): {"blr": (0.0929, 0.206, 0.284), "mwem": (0.0916, 0.110, 0.131), "pmw": (0.226, 0.271, 0.324)},
    (10**6, 10**3): {
        "blr": (0.0172, 0.0725, 0.104), "mwem": (0.0263, 0.0315, 0.0378), "pmw": (0.0644, 0.0771, 0.0922),
    },
    (10**6, 10**6): {
        "blr": (0.0185, 0.0889, 0.129), "mwem": (0.0302, 0.0362, 0.0433), "pmw": (0.0745, 0.0891, 0.107),
    },
    (10**7, 10**3): {
        "blr": (0.00266, 0.0308, 0.0472), "mwem": (0.00874, 0.0105, 0.0126), "pmw": (0.0212, 0.0253, 0.0302),
    },
    (10**7, 10**6): {
        "blr": (0.00279, 0.0377, 0.0583), "mwem": (0.00995, 0.0119, 0.0142), "pmw": (0.0244, 0.0291, 0.0348),
    },
}  # fmt: skip
"""By rows and questions, for universes of 2^10, 2^20 and 2^40; for weights the better, exact column."""


def plan_max_relative_difference() -> float:
    """Return the largest relative difference from a known guarantee; weights may be below theirs.

    Where nothing is promised there, nothing may be promised here; a promise counts as infinitely different.
    """
    differences = [
        _difference(setting_of(rows, questions, BITS[0]), name, known)
        for (rows, questions), row in NOISE.items()
        for name, known in zip(INDEPENDENT, row, strict=True)
    ]
    differences += [
        _difference(setting_of(rows, questions, bits), name, known)
        for (rows, questions), row in LEARNED.items()
        for name, column in row.items()
        for bits, known in zip(BITS, column, strict=True)
    ]
    return max(differences)


def setting_of(rows: int, questions: int, bits: int) -> Setting:
    """Return the setting of a cell."""
    return Setting(rows=rows, questions=questions, cells=1 << bits, epsilon=1, delta="1e-6")


def _difference(setting: Setting, name: str, known: float | None) -> float:
    ours = promise_for(setting, name).within
    if known is None:
        return 0.0 if ours > 1 else float("inf")
    above = ours / known - 1
    return max(above, 0.0) if name == "pmw" else abs(above)
