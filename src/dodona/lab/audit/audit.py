"""The whole audit: every correct mechanism must stay below its claim, and every mutant must be caught above it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass

from dodona.errors import InvalidArgument, InvariantBroken
from dodona.lab.audit.examine import Finding, all_cases
from dodona.lab.audit.mutants import MUTANTS
from dodona.lab.audit.mutants.mutant import Mutant
from dodona.lab.audit.patch import Patch

FULL = 1_000_000
"""Samples per table for the correct mechanisms."""
REDUCED = 200_000
"""Samples for mutants, which are further from their claims, and for a quick audit."""
_SLOW = 400_000  # of which slow cases take their share; more would take minutes and prove little more

Progress = Callable[[int, int, str], None]
"""Called with the number of finished trials, their total, and the name of the last one."""

Run = Callable[[str, str], "subprocess.CompletedProcess[str]"]
"""Runs a module with one argument in a process that has not imported Dodona."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one fresh process examines."""

    name: str
    count: int
    cases: tuple[str, ...]
    patches: tuple[Patch, ...] = ()


@dataclass(frozen=True, slots=True)
class Capture:
    """The result for one mutant."""

    mutant: Mutant
    findings: tuple[Finding, ...]

    @property
    def caught(self) -> bool:
        """Whether one of its cases was violated."""
        return any(finding.violated for finding in self.findings)

    @property
    def clearest(self) -> Finding:
        """The result that is furthest above its claim."""
        return max(self.findings, key=lambda finding: finding.tightness)


@dataclass(frozen=True, slots=True)
class Audit:
    """The results for the correct mechanisms and the mutants."""

    findings: tuple[Finding, ...]
    captures: tuple[Capture, ...]

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Correct mechanisms that lose more privacy than they claim."""
        return tuple(finding for finding in self.findings if finding.violated)

    @property
    def passed(self) -> bool:
        """Whether no correct mechanism is violated and no mutant is missed."""
        return not self.violations and all(capture.caught for capture in self.captures)


def audited(
    count: int, *, mutants: Iterable[Mutant] = MUTANTS, only: str | None = None, progress: Progress, workers: int = 2
) -> Audit:
    """Run the audit with `count` samples per table, for what `only` names or for everything."""
    chosen = [mutant for mutant in mutants if only is None or only.casefold() in mutant.name.casefold()]
    right = list(right_trials(count, only))
    if not right and not chosen:
        raise InvalidArgument("only", only, "write (part of) the name of a mechanism, a case or a mutant")
    wrong = [Trial(mutant.name, min(count, REDUCED), mutant.cases, mutant.patches) for mutant in chosen]
    found: dict[Trial, tuple[Finding, ...]] = {}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = {pool.submit(tried, trial): trial for trial in (*right, *wrong)}
        try:
            for done in as_completed(running):
                trial = running[done]
                found[trial] = done.result()
                progress(len(found), len(running), trial.name)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    captures = tuple(Capture(mutant, found[trial]) for mutant, trial in zip(chosen, wrong, strict=True))
    return Audit(tuple(finding for trial in right for finding in found[trial]), captures)


def right_trials(count: int, only: str | None = None) -> Iterator[Trial]:
    """Yield the trials of correct mechanisms: slow cases alone, quick ones together to save starting processes."""
    groups: dict[tuple[str, int], dict[str, None]] = {}
    for case in all_cases():
        if only is None or only in case.mechanism or only.casefold() in case.name.casefold():
            group = (case.mechanism, count) if case.share == 1 else (case.name, min(count, _SLOW))
            groups.setdefault(group, {})[case.name] = None
    for (name, samples), names in groups.items():
        yield Trial(name, samples, tuple(names))


def fresh(module: str, argument: str) -> subprocess.CompletedProcess[str]:
    """Return the result of running a module in its own process."""
    command = [sys.executable, "-m", module, argument]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own module


def tried(trial: Trial, *, run: Run = fresh) -> tuple[Finding, ...]:
    """Return the results of a trial; a process that failed is a fault of the audit, not a caught mutant."""
    done = run("dodona.lab.audit.trial", json.dumps(asdict(trial)))
    findings = tuple(Finding(**json.loads(line)) for line in done.stdout.splitlines())
    if done.returncode != 0 or {finding.case for finding in findings} != set(trial.cases):
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InvariantBroken(f"The trial of {trial.name} did not finish: {reason}")
    return findings
