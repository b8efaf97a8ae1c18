"""Faults in the price: the mechanism is right and the charge is not."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

_LAPLACE = "dodona.privacy.additive_noise"
_EXPONENTIAL = "dodona.privacy.selection"

MUTANTS = (
    Mutant(
        "replaced rows priced as added ones",
        "a histogram has sensitivity 1 although a replaced row moves two cells",
        (
            replace_lines(
                "dodona.query.sensitivity",
                "        moved = 1 if neighbours is Neighbours.ADD_REMOVE else 2\n"
                "        return cls(l1=moved, l2_squared=moved, linf=1, neighbours=neighbours, monotone=moved == 1)",
                "        monotone = neighbours is Neighbours.ADD_REMOVE\n"
                "        return cls(l1=1, l2_squared=1, linf=1, neighbours=neighbours, monotone=monotone)",
                symbol="Sensitivity.histogram",
            ),
        ),
        ("laplace histogram",),
    ),
    Mutant(
        "Laplace noise by the l2 distance",
        "a vector's Laplace noise is scaled and priced by its l2 sensitivity",
        (
            replace_lines(
                _LAPLACE,
                "        return cls(scale=sensitivity.l1 / validate_noise_epsilon(epsilon))",
                "        return cls(scale=math.isqrt(sensitivity.l2_squared) / validate_noise_epsilon(epsilon))",
                symbol="Laplace.for_privacy",
            ),
            replace_lines(
                _LAPLACE,
                "        return LaplaceEvent(sensitivity.l1, self.scale, sensitivity.neighbours)",
                "        return LaplaceEvent(math.isqrt(sensitivity.l2_squared), self.scale, sensitivity.neighbours)",
                symbol="Laplace.event",
            ),
        ),
        ("laplace vector",),
    ),
    Mutant(
        "monotone price for any score",
        "the constant for scores that only rise is used for all",
        (
            replace_lines(
                _EXPONENTIAL,
                "    return (1 if sensitivity.monotone else 2) * sensitivity.linf / scale",
                "    return sensitivity.linf / scale",
                symbol="choice_epsilon",
            ),
            replace_lines(
                _EXPONENTIAL,
                "    return validate_scale("
                "(1 if sensitivity.monotone else 2) * sensitivity.linf / validate_noise_epsilon(epsilon))",
                "    return validate_scale(sensitivity.linf / validate_noise_epsilon(epsilon))",
                symbol="choice_scale",
            ),
        ),
        ("permute and flip of two", "exponential of twenty", "noisy max of eight"),
    ),
    Mutant(
        "permute-and-flip at ε²/8",
        "permute-and-flip has the zCDP price of the exponential mechanism",
        (
            replace_lines(
                "dodona.privacy.selection",
                "        return PureEvent(PureMechanism.PERMUTE_AND_FLIP, epsilon, sensitivity.neighbours)",
                "        from dodona.privacy.events import ExponentialEvent\n\n"
                "        return ExponentialEvent(epsilon, sensitivity.neighbours)",
                symbol="PermuteAndFlip.event",
            ),
        ),
        ("permute and flip of two in zCDP",),
    ),
    Mutant(
        "every pure price at ε²/8",
        "the zCDP price of bounded range is charged for any pure mechanism",
        (
            replace_lines(
                "dodona.privacy.events",
                "        return round_up(loss * (1 - power) / (1 + power))",
                "        return round_up(loss * loss / 8)",
                symbol="pure_rho",
            ),
        ),
        ("randomized response in zCDP",),
    ),
    Mutant(
        "responses at half price",
        "randomized response is charged half its ε",
        (
            replace_lines(
                "dodona.lab.randomized_response",
                "        return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, self.epsilon, neighbours)",
                "        return PureEvent(PureMechanism.RANDOMIZED_RESPONSE, self.epsilon / 2, neighbours)",
                symbol="RandomizedResponse.event",
            ),
        ),
        ("randomized response", "coins"),
    ),
    Mutant(
        "Gaussian noise by the variance",
        "the zCDP price divides by the variance twice",
        (
            replace_lines(
                "dodona.privacy.events",
                "        return price_as_decimal(self.squared_distance / (2 * self.variance))",
                "        return price_as_decimal(self.squared_distance / (2 * self.variance**2))",
                symbol="GaussianEvent.rho",
            ),
        ),
        ("gaussian sum", "gaussian sum in zCDP"),
    ),
)
