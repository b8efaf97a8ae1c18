"""Faults in the noise itself."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, Patch, replace_lines

_DIRECT = "dodona.lab.direct"
_DRAW = "dodona.trusted.samplers.draw"
_VECTOR_PATH = "            return values + draw_many(mechanism, values.size)"


def _scale_noise(factor: str) -> tuple[Patch, ...]:
    old = "            return laplace_law(scale)"
    return (replace_lines(_DRAW, old, f"            return laplace_law(scale * {factor})", symbol="noise_law"),)


def _replace_vector_path(*lines: str) -> tuple[Patch, ...]:
    """Return the patch of the line that adds noise to several values at once."""
    return (Patch(_DIRECT, (_VECTOR_PATH,), tuple(" " * 12 + line for line in lines), symbol="run"),)


def _replace_rounded_law(new: str) -> tuple[Patch, ...]:
    old = "            return RoundedNormalLaw(scale)"
    return (replace_lines(_DRAW, old, f"            return {new}", symbol="noise_law"),)


MUTANTS = (
    Mutant(
        "rounded noise a few percent small",
        "rounded normal noise of 24/25 of the scale",
        _replace_rounded_law("RoundedNormalLaw(scale * 24 / 25)"),
        ("rounded large sum",),
    ),
    Mutant(
        "discrete noise by its μ",
        "discrete Gaussian noise at the price of rounded normal noise of the same scale",
        _replace_rounded_law("gaussian_law(scale**2)"),
        ("rounded narrow count",),
    ),
    Mutant(
        "rounded towards zero",
        "normal noise is cut to integers and not rounded",
        (replace_lines(_DRAW, "    place += 0.5", "    place += 0.0", symbol="_round"),),
        ("rounded count",),
    ),
    Mutant(
        "noise halved", "Laplace noise of half the scale", _scale_noise("1 / 2"), ("laplace count", "laplace singly")
    ),
    Mutant("noise a tenth too small", "Laplace noise of 9/10 of the scale", _scale_noise("9 / 10"), ("laplace count",)),
    Mutant(
        "noise small behind a clamp",
        "Laplace noise of 7/10 of the scale, and negative answers shown as zero",
        _scale_noise("7 / 10"),
        ("laplace behind max(0, ·)",),
    ),
    Mutant(
        "noise in doubles",
        "textbook Laplace noise by inverting its distribution in floating point",
        _replace_vector_path(
            "if isinstance(mechanism, Gaussian):",
            "    return values + draw_many(mechanism, values.size)",
            "words = SYSTEM.words(values.size)",
            "uniform = ((words >> np.uint64(11)) + 0.5) * 2.0**-53 - 0.5",
            "return values - float(mechanism.scale) * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))",
        ),
        ("laplace count",),
    ),
    Mutant(
        "zero released without noise",
        "an empty group is answered 0",
        _replace_vector_path(
            "noise = draw_many(mechanism, values.size)",
            "return np.where(values == 0, 0, values + noise)",
        ),
        ("laplace count",),
    ),
    Mutant(
        "four draws averaged",
        "one charge, and the mean of four noisy answers",
        _replace_vector_path(
            "noise = draw_many(mechanism, 4 * values.size)",
            "return values + noise.reshape(4, values.size).sum(axis=0) // 4",
        ),
        ("laplace count", "laplace sum"),
    ),
    Mutant(
        "Gaussian noise halved",
        "the variance is divided by four: a composition forgot a factor",
        (
            replace_lines(
                _DRAW,
                "            return gaussian_law(scale**2)",
                "            return gaussian_law(scale**2 / 4)",
                symbol="noise_law",
            ),
        ),
        ("gaussian sum", "gaussian singly"),
    ),
    Mutant(
        "Gaussian noise cut",
        "noise beyond three standard deviations is moved back there",
        _replace_vector_path(
            "noise = draw_many(mechanism, values.size)",
            "edge = int(3 * mechanism.scale)",
            "return values + (noise if isinstance(mechanism, Laplace) else np.clip(noise, -edge, edge))",
        ),
        ("gaussian sum",),
    ),
    Mutant(
        "biased sign",
        "noise is negative once in four times",
        (
            replace_lines(
                _DRAW,
                "    negative: NDArray[np.int64] = -(words[0] & np.uint64(1)).view(np.int64)",
                "    negative: NDArray[np.int64] = -((words[0] & np.uint64(3)) > 2).astype(np.int64)",
                symbol="_negative",
            ),
        ),
        ("laplace count",),
    ),
    Mutant(
        "zero twice, wide noise",
        "above a scale of 32, zero is kept with both its signs",
        (
            replace_lines(
                _DRAW,
                "        magnitude[zero[negative[zero] < 0]] = REJECTED  # zero has one sign only",
                "",
                symbol="_add_offsets",
            ),
        ),
        ("laplace wide sum",),
    ),
    Mutant(
        "zero twice, narrow noise",
        "the table does not know that a magnitude above zero stands for two values",
        (
            replace_lines(
                "dodona.trusted.samplers.law",
                "    fold = 2 if law.signed and law.shift == 0 else 1",
                "    fold = 1",
                symbol="_certified",
            ),
        ),
        ("laplace count",),
    ),
)
