"""The whole audit: every correct mechanism must stay below its claim, and every mutant must be caught above it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass

from dodona.errors import InvalidArgument, InvariantBroken
from dodona.lab.audit.examine import AuditResult, all_cases
from dodona.lab.audit.mutants import MUTANTS
from dodona.lab.audit.patch import Mutant, Patch

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
    results: tuple[AuditResult, ...]

    @property
    def caught(self) -> bool:
        """Whether one of its cases was violated."""
        return any(result.violated for result in self.results)

    @property
    def clearest(self) -> AuditResult:
        """The result that is furthest above its claim."""
        return max(self.results, key=lambda result: result.tightness)


@dataclass(frozen=True, slots=True)
class Audit:
    """The results for the correct mechanisms and the mutants."""

    results: tuple[AuditResult, ...]
    captures: tuple[Capture, ...]

    @property
    def violations(self) -> tuple[AuditResult, ...]:
        """Correct mechanisms that lose more privacy than they claim."""
        return tuple(result for result in self.results if result.violated)

    @property
    def passed(self) -> bool:
        """Whether no correct mechanism is violated and no mutant is missed."""
        return not self.violations and all(capture.caught for capture in self.captures)


def run_audit(
    count: int, *, mutants: Iterable[Mutant] = MUTANTS, only: str | None = None, progress: Progress, workers: int = 2
) -> Audit:
    """Run the audit with `count` samples per table, for what `only` names or for everything."""
    chosen = [mutant for mutant in mutants if only is None or only.casefold() in mutant.name.casefold()]
    right = list(correct_trials(count, only))
    if not right and not chosen:
        raise InvalidArgument("only", only, "write (part of) the name of a mechanism, a case or a mutant")
    wrong = [Trial(mutant.name, min(count, REDUCED), mutant.cases, mutant.patches) for mutant in chosen]
    results: dict[Trial, tuple[AuditResult, ...]] = {}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = {pool.submit(run_trial, trial): trial for trial in (*right, *wrong)}
        try:
            for done in as_completed(running):
                trial = running[done]
                results[trial] = done.result()
                progress(len(results), len(running), trial.name)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    captures = tuple(Capture(mutant, results[trial]) for mutant, trial in zip(chosen, wrong, strict=True))
    return Audit(tuple(result for trial in right for result in results[trial]), captures)


def correct_trials(count: int, only: str | None = None) -> Iterator[Trial]:
    """Yield the trials of correct mechanisms: slow cases alone, quick ones together to save starting processes."""
    groups: dict[tuple[str, int], dict[str, None]] = {}
    for case in all_cases():
        if only is None or only in case.mechanism or only.casefold() in case.name.casefold():
            group = (case.mechanism, count) if case.share == 1 else (case.name, min(count, _SLOW))
            groups.setdefault(group, {})[case.name] = None
    for (name, samples), names in groups.items():
        yield Trial(name, samples, tuple(names))


def run_module(module: str, argument: str) -> subprocess.CompletedProcess[str]:
    """Return the result of running a module in its own process."""
    command = [sys.executable, "-m", module, argument]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own module


def run_trial(trial: Trial, *, run: Run = run_module) -> tuple[AuditResult, ...]:
    """Return the results of a trial; a process that failed is a fault of the audit, not a caught mutant."""
    done = run("dodona.lab.audit.trial", json.dumps(asdict(trial)))
    results = tuple(AuditResult(**json.loads(line)) for line in done.stdout.splitlines())
    if done.returncode != 0 or {result.case for result in results} != set(trial.cases):
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InvariantBroken(f"The trial of {trial.name} did not finish: {reason}")
    return results
