"""What an audit says to people and to programs, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dodona.audit.audit import Audit
from dodona.audit.examine import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = tuple[str, ...]
CASE_HEADINGS = ("case", "neighbours", "claim", "certified", "certified/claim", "verdict")
MUTANT_HEADINGS = ("mutant", "caught by", "claim", "certified", "certified/claim", "verdict")

# Okabe and Ito's colours, which people with any colour vision tell apart; shapes differ as well.
_RIGHT, _WRONG = "#0072B2", "#D55E00"
_SYMBOLS = {"epsilon": "ε", "mu": "μ", "rho": "ρ"}
_LEAST = 0.01  # certified values below this are drawn on the edge


def summary(audit: Audit) -> dict[str, object]:
    """Return the audit as plain numbers: tightness is the best that a mechanism's cases reached."""
    tightness: dict[str, float] = {}
    for finding in audit.findings:
        tightness[finding.mechanism] = max(finding.tightness, tightness.get(finding.mechanism, 0.0))
    return {
        "mechanisms": len(audit.findings),
        "violations": len(audit.violations),
        "mutants": len(audit.captures),
        "caught": sum(capture.caught for capture in audit.captures),
        "tightness": {name: round(tightness[name], 4) for name in sorted(tightness)},
    }


def case_rows(audit: Audit) -> list[Row]:
    """Return a row for each right case."""
    return [
        (finding.case, finding.neighbours, *_numbers(finding), "VIOLATED" if finding.violated else "holds")
        for finding in audit.findings
    ]


def mutant_rows(audit: Audit) -> list[Row]:
    """Return a row for each mutant, with the finding that gives it away most clearly."""
    return [
        (
            capture.mutant.name,
            f"{capture.clearest.case}, {capture.clearest.neighbours}: {capture.clearest.feature}",
            *_numbers(capture.clearest),
            "caught" if capture.caught else "MISSED",
        )
        for capture in audit.captures
    ]


def _numbers(finding: Finding) -> tuple[str, str, str]:
    symbol = _SYMBOLS[finding.currency]
    return f"{symbol} = {finding.claim:.4g}", f"{finding.certified:.4g}", f"{finding.tightness:.3f}"


def picture(audit: Audit, path: Path) -> None:
    """Draw claimed against certified losses: the right ones under the diagonal, the mutants above it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel="claimed loss (ε, μ or ρ)", ylabel="certified loss")
    edges = (_LEAST, 30.0)
    axes.plot(edges, edges, color="black", linewidth=1)
    axes.fill_between(edges, edges, [edges[1]] * 2, color=_WRONG, alpha=0.07, linewidth=0)
    axes.text(0.012, 10, "more is lost than claimed", color="#8a3c00", fontsize=11)
    _scatter(axes, [capture.clearest for capture in audit.captures], "mutant", _WRONG, "^")
    _scatter(axes, audit.findings, "right mechanism", _RIGHT, "o")
    axes.set(xlim=edges, ylim=edges, title="What samples prove to be lost, against what is claimed")
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", frameon=True)
    axes.text(0.012, 0.0112, f"certified below {_LEAST}: drawn on the edge", fontsize=8, color="#444444")
    figure.savefig(path, dpi=150)


def _scatter(axes: Axes, findings: Sequence[Finding], label: str, colour: str, marker: str) -> None:
    axes.scatter(
        [finding.claim for finding in findings],
        [max(finding.certified, _LEAST) for finding in findings],
        s=34,
        color=colour,
        marker=marker,
        alpha=0.8,
        edgecolors="white",
        linewidths=0.6,
        label=f"{label} ({len(findings)})",
        clip_on=False,
        zorder=3,
    )
