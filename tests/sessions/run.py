"""Runs a session through the public door and holds its invariants. What breaks one is `Broken`, named after it."""

from __future__ import annotations

import json
import math
import random as chances
import re
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from typer.testing import CliRunner

import dodona
from dodona.answer.estimate import Estimate, to_float
from dodona.answer.labels import key_labels
from dodona.answer.laws import DerivedValues
from dodona.answer.recorded import RecordedAnswer
from dodona.errors import InvalidRequest, Refused
from dodona.privacy.measurement import MeasuredValues
from dodona.schema.partition import Partition
from tests.house.tree import ROOT
from tests.sessions.dataset import FILES, Request, people_of, table
from tests.sessions.question import (
    Aggregate,
    Among,
    And,
    Arithmetic,
    Compare,
    Key,
    Question,
    Term,
    groups,
    labels,
    truth,
)
from tests.sessions.session import (
    Above,
    Anew,
    Ask,
    AskMany,
    Choose,
    Compute,
    Drill,
    Prepare,
    Raise,
    Renew,
    Reopen,
    Session,
    Step,
    Stop,
    Synthesize,
    Threads,
    Weigh,
    Wrong,
)
from tests.sessions.shapes import Shape, comparable, exact_rows
from tests.sessions.squares import evidence, faults

if TYPE_CHECKING:
    from dodona.answer.answer import Answer
    from dodona.answer.offer import Offer
    from dodona.curator.curator import Curator
    from dodona.privacy.budget import BudgetState

Got = TypeVar("Got")
Batch = tuple[Question, ...]
"""Questions that are asked together; mostly one."""
CONFIDENCE = 0.95
_CELLS = 6
"""Of one answer, so many cells are looked at: more cost time."""
_SOLVED = 3
"""Of one session, so many derived answers are held to least squares."""
_LOOSE = 1e-9


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, detail: str, step: int = -1) -> None:
        """Keep the name of the invariant, what was seen, and at which step."""
        super().__init__(f"{invariant}: {detail}")
        self.invariant, self.detail, self.step = invariant, detail, step
        self.further: tuple[str, ...] = ()
        """What that step asked on its own account, as Python."""

    @property
    def kind(self) -> tuple[str, str]:
        """The invariant, and the class of the error that broke it: what a smaller session must break too."""
        return self.invariant, "" if self.__cause__ is None else type(self.__cause__).__name__


@dataclass(frozen=True, slots=True)
class Sample:
    """One interval, and whether it held the truth."""

    kind: str
    rung: str
    failing: float
    """How often it may fail."""
    held: bool
    tested: bool = True
    """Whether its promise covers the way in which its question was chosen."""


@dataclass(slots=True)
class Found:
    """What a session showed."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)


def run(session: Session) -> Found:
    """Return what a session showed; Broken where an invariant does not hold."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        player = _Player(session, Path(folder))
        try:
            for number, step in enumerate(session.steps):
                try:
                    player.step(step)
                except Broken as broken:
                    broken.step, broken.further = number, tuple(player.further)
                    raise
            return player.finish()
        finally:
            player.close()


@cache
def documented() -> frozenset[str]:
    """Return the codes of errors that the documentation lists."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^\| `([a-z-]+)`", page, flags=re.MULTILINE))


@dataclass(frozen=True, slots=True)
class _Told:
    """What was answered to questions that were asked together."""

    cells: tuple[Any, ...]
    charges: int
    """How many charges there were then."""
    certain: bool
    """Whether it does not hang on a check, which may end, or on a model."""


class _Player:
    def __init__(self, session: Session, folder: Path) -> None:
        self.dataset, self.folder, self.found = session.dataset, folder, Found()
        self.rows = table(session.dataset)
        self.random = chances.Random(session.seed)  # noqa: S311  which of several cells is looked at
        self.told: dict[tuple[Batch, Request], _Told] = {}
        self.further: list[str] = []
        self.keyed: dict[tuple[str, int], tuple[Any, ...] | None] = {}
        """What was paid for under each key; None where the command told it."""
        self.bought: dict[tuple[str, int], tuple[Batch, Request, tuple[Any, ...]]] = {}
        """What was asked and answered under each key that paid for it."""
        self.older: set[tuple[str | None, int]] = set()
        """Keys of which the rows have changed since."""
        self.candidates: dict[tuple[str, str], list[Sample]] = {}
        self.curators: dict[int, Curator] = {}
        self.command = CliRunner()
        self.version, self.since, self.solved, self.raised = 1, 0, 0, 1
        self.create()

    # --- the door ---------------------------------------------------------------------------------------------------

    def create(self) -> None:
        dataset = self.dataset
        if dataset.door in FILES:
            self.path = dataset.write(self.folder)
            dodona.create_ledger(self.path)
        elif dataset.door == "ledger":
            analysts = [dodona.Analyst(name, share) for name, share in dataset.analysts]
            self.path = self.folder / "t.ledger"
            dodona.create_ledger(self.path, schema=dataset.schema, budget=dataset.budget, analysts=analysts)

    def curator(self, analyst: int) -> Curator:
        if analyst not in self.curators:
            self.curators[analyst] = self.open(analyst)
        return self.curators[analyst]

    def open(self, analyst: int) -> Curator:
        dataset = self.dataset
        who = dataset.analysts[analyst][0] if dataset.analysts else None
        try:
            if dataset.door in FILES:
                return dodona.open(self.path, analyst=who)
            ledger = self.path if dataset.door == "ledger" else None
            frame = self.rows.frame
            return dodona.open(
                {"t": frame, "p": people_of(dataset)} if dataset.linked else frame,
                schema=dataset.schema,
                budget=dataset.budget,
                analyst=who,
                ledger=ledger,
                version=str(self.version),
                after=dataset.after,  # type: ignore[arg-type]
            )
        except Exception as fault:
            raise Broken("opening never fails", _shown(fault)) from fault

    def close(self) -> None:
        for curator in self.curators.values():
            curator.close()
        self.curators.clear()

    # --- invariants of every call -----------------------------------------------------------------------------------

    def call(
        self, analyst: int, act: Callable[[Curator], Got], *, accepted: frozenset[str] = frozenset()
    ) -> Got | None:
        """Return what a call returns, and None where it is refused as the documentation says."""
        curator = self.curator(analyst)
        before = self.state(curator)
        try:
            got = act(curator)
        except (InvalidRequest, Refused) as fault:
            after = self.state(curator)
            self.refused(fault, accepted)
            if (after.spent, after.head) != (before.spent, before.head):
                raise Broken(
                    "what is refused is not charged", f"{_shown(fault)}; spent {before.spent} -> {after.spent}"
                ) from fault
            return None
        except Broken:
            raise
        except Exception as fault:
            raise Broken("no error but refusals", _shown(fault)) from fault
        self.grown(before, self.state(curator))
        return got

    def refused(self, fault: InvalidRequest | Refused, accepted: frozenset[str]) -> None:
        self.found.counts[f"refused: {fault.code}"] += 1
        if fault.code not in documented():
            raise Broken("every refusal is documented", _shown(fault)) from fault
        if fault.charged:
            raise Broken("what is refused is not charged", _shown(fault)) from fault
        if isinstance(fault, InvalidRequest) and fault.code not in accepted:
            raise Broken("a plain question is answered or refused by the policy", _shown(fault)) from fault

    def state(self, curator: Curator) -> BudgetState:
        try:
            return curator.budget
        except Exception as fault:
            raise Broken("the budget can always be read", _shown(fault)) from fault

    def grown(self, before: BudgetState, after: BudgetState) -> None:
        if after.spent < before.spent or after.charges < before.charges:
            raise Broken("what is spent only grows", f"{before.spent} -> {after.spent}")
        if after.spent > 1 or after.left != 1 - after.spent:
            raise Broken("the budget is never passed", f"spent {after.spent}, left {after.left}")
        if any(analyst.spent > 1 for analyst in after.analysts):
            raise Broken("a share is never passed", str(after.analysts))

    # --- steps ------------------------------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        self.found.counts[f"step: {type(step).__name__}"] += 1
        self.further.clear()
        match step:
            case Ask():
                self.ask(step)
            case Anew():
                self.anew(step)
            case AskMany():
                self.ask_many(step)
            case Prepare():
                self.prepare(step)
            case Choose():
                self.choose(step)
            case Above():
                self.above(step)
            case Weigh():
                self.weigh(step)
            case Drill():
                self.drill(step)
            case Compute():
                self.compute(step)
            case Threads():
                self.threads(step)
            case Reopen():
                self.reopen()
            case Renew():
                self.renew()
            case Wrong():
                self.wrong(step)
            case Shape():
                self.shaped(step)
            case Raise():
                self.raise_budget()
            case Stop():
                self.stop(step)
            case Synthesize():
                self.synthesize(step)

    def ask(self, step: Ask) -> Answer | None:
        text, arguments = step.question.text(self.dataset, step.words), step.request.arguments()
        if step.door == "command":
            self.ask_by_command(step, text)
            return None
        accepted = self.without_values(step.question)
        offer = None
        if step.quoted:
            offer = self.call(step.analyst, lambda one: one.quote(text, **arguments), accepted=accepted)
        accepted |= {"key-reused"} if (step.key, step.analyst) in self.older else set()
        if step.quoted and offer is None:
            accepted |= {"refused"}  # what cannot be quoted cannot be asked
            answer = self.charged_as(step.analyst, lambda one: one.ask(text, key=step.key, **arguments), accepted)
            if answer is not None and answer.price.share > 0:
                raise Broken("what cannot be quoted is not sold", text)
        else:
            answer = self.charged_as(step.analyst, lambda one: one.ask(text, key=step.key, **arguments), accepted)
        if answer is None:
            return None
        free = step.key is not None and (step.key, step.analyst) in self.keyed
        if offer is not None and not free:
            self.as_quoted(offer, (answer,))
        self.keep((step.question,), step, (answer,))
        self.look(step.question, step.request, answer, key=step.key, analyst=step.analyst)
        return answer

    def anew(self, step: Anew) -> None:
        """Ask for new noise alone: it is paid for, and its interval holds however the question was chosen."""
        text, arguments = step.question.text(self.dataset), step.request.arguments()
        accepted, offer = self.without_values(step.question), None
        if step.quoted:
            offer = self.call(step.analyst, lambda one: one.quote(text, fresh=True, **arguments), accepted=accepted)
        answer = self.charged_as(step.analyst, lambda one: one.ask(text, fresh=True, **arguments), accepted)
        if answer is None:
            return
        if offer is not None:
            self.as_quoted(offer, (answer,))
        unknown = all(cell.value is None or not cell.within for row in answer.rows for cell in row.estimates)
        if not answer.price.share and not unknown:  # a quotient of public numbers may be by 0
            raise Broken("what is measured anew is paid for", f"{answer.source}: {text}")
        self.look(step.question, step.request, answer, analyst=step.analyst, alone=False)

    def keep(self, asked: Batch, step: Ask | AskMany, answers: Sequence[Answer]) -> None:
        """Keep what was paid for under a key, which the end of the session asks for again."""
        if step.key is not None and any(answer.price.share for answer in answers):
            shown = tuple(_values(cells(answer)) for answer in answers)
            self.bought[step.key, step.analyst] = (asked, step.request, shown)

    def without_values(self, *asked: Question) -> frozenset[str]:
        """Return the code of a refusal that may be where an average has no row: it may be NULL in every row."""
        for question in asked:
            meant = np.logical_or.reduce([*groups(question, self.dataset, self.rows)])
            several = (term for term in question.terms if isinstance(term, Aggregate))
            if any(truth(term, self.dataset, self.rows, meant) is None for term in several):
                return frozenset({"invalid-sql"})
        return frozenset()

    def nothing_to_choose(self, asked: Question) -> frozenset[str]:
        """Return the code of a refusal that may be where the condition leaves one value of each sum, which is 0."""
        many = table(replace(self.dataset, rows=max(5_000, self.dataset.rows)))
        sums = (
            truth(term, self.dataset, many, group)
            for term in asked.terms
            for group in groups(asked, self.dataset, many)
        )
        return frozenset() if any(sums) else frozenset({"invalid-request"})

    def charged_as(
        self, analyst: int, act: Callable[[Curator], Answer], accepted: frozenset[str] = frozenset()
    ) -> Answer | None:
        """Return an answer whose price is what was charged."""
        before = self.state(self.curator(analyst))
        answer = self.call(analyst, act, accepted=accepted)
        if answer is not None:
            self.paid(before, self.state(self.curator(analyst)), answer.price.share, answer.source)
        return answer

    def paid(self, before: BudgetState, after: BudgetState, share: Fraction, source: str) -> None:
        grown = after.spent - before.spent
        if (share == 0) != (after.charges == before.charges):
            raise Broken(
                "an answer is charged as it says", f"{source}: price {share}, {after.charges - before.charges} charges"
            )
        if self.dataset.accountant != "either" and grown != share:  # of two accounts, the better one may change
            raise Broken(
                "an answer is charged as it says", f"{source}: price {float(share)}, spent {float(grown)} more"
            )

    def as_quoted(self, offer: Offer, answers: Sequence[Answer]) -> None:
        shares = {answer.price.share for answer in answers}
        if any(answer.source == "model" for answer in answers):
            return
        if max(shares) != offer.price.share:
            raise Broken("a quote is what is charged", f"quoted {offer.price.share}, charged {max(shares)}")

    def look(  # noqa: PLR0913  what was asked, and what was answered
        self,
        asked: Question,
        request: Request,
        answer: Answer,
        *,
        key: str | None = None,
        analyst: int = 0,
        tested: bool = True,
        alone: bool = True,
    ) -> None:
        """Hold what was answered against what was asked, what was answered before, and the truth."""
        self.found.counts[f"rung: {answer.source}"] += 1
        shown = cells(answer)
        if answer.version != str(self.version):
            raise Broken("an answer is about the rows of now", f"version {answer.version} of {self.version}")
        if answer.source == "replayed" and self.version > 1 and self.since == self.charges():
            raise Broken("older rows are not told of again", asked.text(self.dataset))
        self.found.counts["cells"] += len(answer.rows)
        self.shape(asked, answer)
        if key is not None and (key, analyst) in self.keyed:
            if answer.price.share:
                raise Broken("a key never pays twice", f"{key}: {answer.price.share}")
            if self.keyed[key, analyst] not in {None, _values(shown)}:
                raise Broken("a key tells the same answer", f"{self.keyed[key, analyst]} -> {shown}")
            return
        if key is not None and answer.price.share:  # what was free left nothing under its key
            self.keyed.setdefault((key, analyst), _values(shown))
        self.accurate(asked, request, answer)
        if alone:
            self.same((asked,), request, (answer,))
        self.views(answer)
        self.best(answer, analyst)
        if not self.dataset.crowded:
            self.cover(asked, request, answer, tested=tested)

    def best(self, answer: Answer, analyst: int) -> None:
        """Hold what is derived to the best that follows from the ledger, for some answers over a few cells."""
        derived = answer.measured
        if (
            answer.source not in {"derived", "measured"}
            or not isinstance(derived, DerivedValues)
            or self.solved >= _SOLVED
        ):
            return
        known = evidence(self.curator(analyst))
        if known is not None:
            self.solved += 1
            self.found.counts["derived answers beside least squares"] += 1
            for fault in faults(known, derived):
                raise Broken("what is derived is a combination of what was told, with its variance", fault)

    def shape(self, asked: Question, answer: Answer) -> None:
        """Hold the rows to the groups that are public."""
        expected = labels(asked, self.dataset)
        places = self.places(asked, answer)
        if len(set(places)) != len(places):
            raise Broken("every group is answered once", str([row.keys for row in answer.rows]))
        if not asked.selected and asked.where is None and len(places) != expected:
            raise Broken("every group is answered", f"{len(places)} rows of {expected}")
        if asked.limit is not None and len(answer.rows) > asked.limit:
            raise Broken("LIMIT is held", f"{len(answer.rows)} rows")
        keys = len(asked.keys)
        for row in answer.rows:
            if row.keys != tuple(row.cells[:keys]):
                raise Broken("keys are in the order of SELECT", f"{row.keys} beside {row.cells[:keys]}")
        firsts = [
            to_float(cell.value)
            for row in answer.rows
            if isinstance(cell := row.cells[keys], Estimate) and cell.value is not None
        ]
        if asked.having is not None and any(value <= asked.having for value in firsts):
            raise Broken("HAVING is held", f"{min(firsts)} is not above {asked.having}")
        if asked.order and firsts != sorted(firsts, reverse=asked.order == "DESC"):
            raise Broken("ORDER BY is held", str(firsts))
        if not (asked.selected or asked.order):
            for place, key in enumerate(asked.keys):
                self.named(key, [row.keys[place] for row in answer.rows])

    def places(self, asked: Question, answer: Answer) -> list[int]:
        """Return which group each row is of; those that WHERE excludes have none. Names come from the product."""
        places = [0] * len(answer.rows)
        domain = answer.question.query.domain
        for place, key in enumerate(asked.keys):
            partition = next(
                partition
                for partition in answer.question.keys
                if isinstance(partition, Partition) and partition.attribute == key.column
            )
            names = key_labels(partition, domain)
            numbers = {name: number for number, name in enumerate(names)}
            if len(numbers) != len(names):
                raise Broken("groups have different names", str(names))
            places = [
                number * len(names) + numbers[row.keys[place]] for number, row in zip(places, answer.rows, strict=True)
            ]
        return places

    def named(self, key: Key, names: list[Any]) -> None:
        column = self.dataset.column(key.column)
        if key.width is None and column.cuts is None:
            expected = {column.value(code) for code in range(column.size)}
            further = set() if column.otherwise is not None else {"<missing>", "<outside>"}
            if not set(names) <= expected | further:
                raise Broken("groups are named by their values", f"{sorted(map(str, set(names)))}")

    def accurate(self, asked: Question, request: Request, answer: Answer) -> None:
        """Hold counts and sums to the tolerance that was asked for."""
        if request.within is None or answer.source == "model":  # without a tolerance it is chosen by its price
            return
        for place, term in enumerate(asked.terms):
            room = self.room(term, request.within)
            if room is None:
                continue
            for row in answer.rows:
                cell = row.cells[len(asked.keys) + place]
                if isinstance(cell, Estimate) and cell.within > room * (1 + _LOOSE):
                    raise Broken(
                        "an answer is as accurate as was asked", f"{answer.source}: ±{cell.within}, asked for ±{room}"
                    )

    def room(self, own: Term, within: float | str) -> float | None:
        """Return how far off a count or a sum may be; of percentages, at most."""
        if not isinstance(own, Aggregate) or own.measure not in {"count", "count_of", "people", "sum"}:
            return None
        if not isinstance(within, str):
            return float(within)
        whole = float(self.dataset.size)
        if own.measure == "sum":
            assert own.column is not None
            column = self.dataset.column(own.column)
            ends = (column.lower, column.lower + (column.size - 1) * column.step)
            steps = column.step * own.factor  # a value of less than one step counts as one
            whole *= float(max(*(abs(own.factor * end + own.shift) for end in ends), steps))
        return whole * float(within.rstrip("%")) / 100

    def same(self, asked: Batch, request: Request, answers: Sequence[Answer]) -> None:
        """Hold what was asked before to the same answers, for nothing."""
        charges, shown = self.charges(), tuple(map(cells, answers))
        before = self.told.get((asked, request))
        if before is not None and before.certain:
            price = max(answer.price.share for answer in answers)
            if price:
                raise Broken("what was answered is told again for nothing", f"{answers[0].source}, {float(price)}")
            if before.charges == charges and not alike(before.cells, shown):
                raise Broken("what is told again is the same", f"{before.cells} -> {shown}")
        certain = all(answer.source != "model" for answer in answers)
        self.told[asked, request] = _Told(shown, charges, certain)

    def charges(self) -> int:
        return self.state(next(iter(self.curators.values()))).charges

    def views(self, answer: Answer) -> None:
        """Show an answer in one of the ways in which it can be shown."""
        ways: tuple[Callable[[], object], ...] = (
            answer.to_json, answer.to_pandas, answer.rounded().to_json, answer.simultaneous().to_json,
            lambda: str(answer), lambda: (answer.accuracy, answer.mechanism, answer.theorem, answer.warnings),
        )  # fmt: skip
        way = self.random.choice(ways)
        try:
            way()
            again = RecordedAnswer.from_json(answer.to_json())
        except Exception as fault:
            raise Broken("every answer can be shown", _shown(fault)) from fault
        if str(again) != str(answer) or again.to_json() != answer.to_json():
            raise Broken("an answer is read back from its JSON as it was", f"{answer}\n{again}")

    # --- the truth --------------------------------------------------------------------------------------------------

    def cover(self, asked: Question, request: Request, answer: Answer, *, tested: bool) -> None:
        """Note whether intervals hold the truth.

        Noise that was drawn for this answer alone is independent of all before it, so several of its cells count. Of
        other answers, one a session and kind is drawn: what shares noise fails together.
        """
        if asked.selected or answer.source == "model":
            return
        new = answer.source == "measured" and isinstance(answer.measured, MeasuredValues)
        if asked.order:
            return
        failing = 1 - (CONFIDENCE if request.confidence is None else request.confidence)
        keys = len(asked.keys)
        rows = dict(zip(self.places(asked, answer), answer.rows, strict=True))
        chosen = set(self.random.sample(sorted(rows), min(_CELLS, len(rows))))
        for place, meant in enumerate(groups(asked, self.dataset, self.rows)):
            if place not in rows and meant.any():
                raise Broken("every group with rows is answered", f"group {place} of {asked.text(self.dataset)}")
            if place not in chosen:
                continue
            (column,) = self.random.sample(range(len(asked.terms)), 1)
            term, cell = asked.terms[column], rows[place].cells[keys + column]
            exact = truth(term, self.dataset, self.rows, meant)
            if exact is None or not isinstance(cell, Estimate):
                continue
            if cell.value is None and not math.isinf(cell.within):
                raise Broken("an estimate without a value has no ends", str(cell))
            self.note(Sample(kind_of(term), answer.source, failing, within(cell, exact), tested), new=new)

    def note(self, sample: Sample, *, new: bool) -> None:
        if new:
            self.found.samples.append(sample)
        else:
            self.candidates.setdefault((sample.kind, sample.rung + str(sample.tested)), []).append(sample)

    def finish(self) -> Found:
        for (key, analyst), kept in self.bought.items():
            self.recall(key, analyst, *kept)
        for several in self.candidates.values():
            self.found.samples.append(self.random.choice(several))
        self.found.counts["sessions"] += 1
        return self.found

    def recall(self, key: str, analyst: int, asked: Batch, request: Request, shown: tuple[Any, ...]) -> None:
        """Hold what is asked under a key again to what it bought, whatever was answered since."""
        texts, arguments = [question.text(self.dataset) for question in asked], request.arguments()
        answers = self.call(analyst, lambda one: one.ask_many(texts, key=key, **arguments))
        if answers is None or any(answer.price.share for answer in answers):
            raise Broken("a key never pays twice", f"{key}: {'; '.join(texts)}")
        again = tuple(_values(cells(answer)) for answer in answers)
        if again != shown:
            raise Broken("a key tells the same answer", f"{key}: {'; '.join(texts)}: {shown} -> {again}")

    # --- further steps ----------------------------------------------------------------------------------------------

    def ask_many(self, step: AskMany) -> None:
        texts, arguments = [question.text(self.dataset) for question in step.questions], step.request.arguments()
        accepted = self.without_values(*step.questions)
        offer = None
        if step.quoted:
            offer = self.call(step.analyst, lambda one: one.quote(texts, **arguments), accepted=accepted)
        before = self.state(self.curator(step.analyst))
        answers = self.call(step.analyst, lambda one: one.ask_many(texts, key=step.key, **arguments), accepted=accepted)
        if answers is None:
            return
        share = max(answer.price.share for answer in answers)
        self.paid(before, self.state(self.curator(step.analyst)), share, "batch")
        if offer is not None:
            self.as_quoted(offer, answers)
        self.keep(step.questions, step, answers)
        if len(answers) != len(texts):
            raise Broken("every question of a batch is answered", f"{len(answers)} of {len(texts)}")
        # A price is that of all questions together: for the same price, one of them alone is more accurate.
        alone = step.request.epsilon is None or len(set(texts)) == 1
        looked = self.random.randrange(len(answers))
        for number, (question, answer) in enumerate(zip(step.questions, answers, strict=True)):
            if number != looked:
                self.shape(question, answer)
                self.accurate(question, step.request, answer)
                self.found.counts[f"rung: {answer.source}"] += 1
            elif ((question,), step.request) not in self.told:  # a batch may buy what one of its questions would not
                self.look(question, step.request, answer, alone=alone)
        if not alone:
            self.same(step.questions, step.request, answers)

    def prepare(self, step: Prepare) -> None:
        texts, arguments = [question.text(self.dataset) for question in step.questions], step.request.arguments()
        before = self.state(self.curator(step.analyst))
        prepared = self.call(step.analyst, lambda one: one.prepare(texts, **arguments))
        if prepared is None:
            return
        self.paid(before, self.state(self.curator(step.analyst)), prepared.price.share, "prepared")
        for question in step.questions:
            answer = self.ask(Ask(question, step.request, analyst=step.analyst))
            if answer is None or answer.price.share:
                raise Broken("what was prepared is free", question.text(self.dataset))

    def choose(self, step: Choose) -> None:
        text = step.question.text(self.dataset)
        before = self.state(self.curator(step.analyst))
        chosen = self.call(
            step.analyst,
            lambda one: one.choose(text, epsilon=step.epsilon, count=step.count, key=step.key),
            accepted=self.nothing_to_choose(step.question),
        )
        if chosen is None:
            return
        self.paid(before, self.state(self.curator(step.analyst)), chosen.price.share, "choose")
        if len(set(chosen.names)) != step.count:
            raise Broken("as many are chosen as were asked for", str(chosen.names))
        again = self.call(
            step.analyst, lambda one: one.choose(text, epsilon=step.epsilon, count=step.count, key=step.key)
        )
        if again is None or again.price.share or again.names != chosen.names:
            raise Broken("a choice is told again for nothing", f"{chosen} -> {again}")

    def above(self, step: Above) -> None:
        watch = self.call(step.analyst, lambda one: one.above(step.threshold, epsilon=step.epsilon, alerts=step.alerts))
        if watch is None:
            return
        right = True
        for question in step.questions:
            verdict = self.call(step.analyst, lambda _, own=question: watch.ask(own.text(self.dataset)))
            if verdict is None:
                if watch.left:
                    raise Broken("a watch answers until its last alert", question.text(self.dataset))
                break
            if not self.dataset.crowded:
                (meant,) = groups(question, self.dataset, self.rows)
                exact = truth(question.terms[0], self.dataset, self.rows, meant)
                assert exact is not None
                far = abs(exact - step.threshold) > watch.within
                right = right and not (far and bool(verdict.above) != (exact > step.threshold))
        self.found.samples.append(Sample("above", "watch", 1 - watch.confidence, right))

    def weigh(self, step: Weigh) -> None:
        weights = self.call(
            step.analyst,
            lambda one: one.weights(questions=10, epsilon=step.epsilon, columns=list(step.columns)),
            accepted=frozenset({"invalid-argument", "unsuitable", "invalid-request", "universe-too-large"}),
        )
        if weights is None:
            return
        # Of several tables, which one a row is of is a column of its own, which these weights are not over.
        several = frozenset({"invalid-request"}) if self.dataset.linked else frozenset()
        for question in step.questions:
            self.call(step.analyst, lambda _, own=question: weights.ask(own.text(self.dataset)), accepted=several)

    def drill(self, step: Drill) -> None:
        first = self.ask(Ask(step.question, step.request, analyst=step.analyst))
        if first is None:
            return
        (key,) = step.question.keys
        values = [
            (to_float(cell.value), place)
            for place, row in zip(self.places(step.question, first), first.rows, strict=True)
            if isinstance(cell := row.cells[1], Estimate)
        ]
        column = self.dataset.column(key.column)
        single = column.cuts is None
        ranked = [place for _, place in sorted(values, reverse=True) if place < column.size]
        if not single or not ranked:
            return
        codes = tuple(sorted(ranked[: 1 if step.into == "largest" else max(1, len(ranked) // 2)]))
        where = Compare(key.column, "=", codes[0]) if len(codes) == 1 else Among(key.column, codes)
        if column.kind == "boolean":
            where = Among(key.column, codes)
        asked = Question(
            (Aggregate("count"),), where if step.question.where is None else And((step.question.where, where))
        )
        text, arguments = asked.text(self.dataset), step.request.arguments()
        self.further.append(written([text], step.request, step.analyst))
        answer = self.charged_as(step.analyst, lambda one: one.ask(text, **arguments))
        if answer is not None:
            self.look(asked, step.request, answer, analyst=step.analyst, tested=False)
            self.any_choice(asked, step.request, answer)

    def any_choice(self, asked: Question, request: Request, answer: Answer) -> None:
        """Note whether an interval for any choice holds the truth of a question that follows from an answer."""
        if self.dataset.crowded or answer.source not in {"replayed", "derived", "measured"}:
            return
        (meant,), (row,) = groups(asked, self.dataset, self.rows), answer.any_choice().rows
        exact, (cell,) = truth(asked.terms[0], self.dataset, self.rows, meant), row.estimates
        assert exact is not None
        failing = 1 - (CONFIDENCE if request.confidence is None else request.confidence)
        self.note(Sample("chosen by answers", "any choice", failing, within(cell, exact)), new=False)

    def compute(self, step: Compute) -> None:
        """Ask a statement: it costs what its quote says, and asked again it is free and the same."""
        text, arguments = step.text(self.dataset), step.request.arguments()
        offer = self.call(step.analyst, lambda one: one.quote(text, **arguments)) if step.quoted else None
        answer = self.charged_as(step.analyst, lambda one: one.ask(text, key=step.key, **arguments))
        if answer is None:
            return
        if offer is not None:
            self.as_quoted(offer, (answer,))
        answer.to_json()
        if answer.source == "model":
            return
        again = self.charged_as(step.analyst, lambda one: one.ask(text, key=step.key, **arguments))
        if again is None or again.price.share > 0 or not alike(cells(answer), cells(again)):
            raise Broken("a statement that was asked is free and the same", text)
        if step.outer == 0:
            exact = sum(int(meant.sum()) for meant in groups(step.question, self.dataset, self.rows))
            failing = 1 - (CONFIDENCE if step.request.confidence is None else step.request.confidence)
            held = not isinstance(cell := answer.rows[0].cells[0], Estimate) or within(cell, Fraction(exact))
            self.note(Sample("statement", answer.source, failing, held), new=answer.source == "measured")

    def threads(self, step: Threads) -> None:
        curator, arguments = self.curator(step.analyst), step.request.arguments()
        before = self.state(curator)
        got: list[Any] = [None] * len(step.questions)

        def one(place: int) -> None:
            try:
                got[place] = curator.ask(step.questions[place].text(self.dataset), **arguments)
            except Exception as fault:  # noqa: BLE001  it is looked at below
                got[place] = fault

        started = [threading.Thread(target=one, args=(place,)) for place in range(len(got))]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        after = self.state(curator)
        self.grown(before, after)
        if len(set(step.questions)) == 1 and after.charges > before.charges + 1:
            raise Broken("one question at one time is one charge", f"{after.charges - before.charges} charges")
        for question, answer in zip(step.questions, got, strict=True):
            if isinstance(answer, InvalidRequest | Refused):
                self.refused(answer, self.without_values(question))
            elif isinstance(answer, Exception):
                raise Broken("no error but refusals", _shown(answer)) from answer
            else:
                self.shape(question, answer)
                self.accurate(question, step.request, answer)
                self.found.counts[f"rung: {answer.source}"] += 1

    def reopen(self) -> None:
        """Close and open again; what was answered before is the same to a curator that knows nothing but the ledger."""
        if self.dataset.door == "memory":
            return
        asked = [pair for pair, record in [*self.told.items()][-3:] if record.certain]
        self.further += [
            written([question.text(self.dataset) for question in several], request) for several, request in asked
        ]
        first = [self.again(*pair) for pair in asked]
        before = self.state(self.curator(0))
        self.close()
        after = self.state(self.curator(0))
        if (before.spent, before.head, before.charges) != (after.spent, after.head, after.charges):
            raise Broken("a ledger that is opened again is the same", f"{before} -> {after}")
        for pair, earlier in zip(asked, first, strict=True):
            again = self.again(*pair)
            if not alike(earlier, again):
                raise Broken("what is derived follows from the ledger", f"{pair[0]}: {earlier} -> {again}")

    def again(self, asked: Batch, request: Request) -> tuple[Any, ...]:
        """Return the cells of answers that were told before, for nothing."""
        texts, arguments = [question.text(self.dataset) for question in asked], request.arguments()
        before = self.state(self.curator(0))
        answers = self.call(
            0, lambda one: one.ask_many(texts, **arguments) if len(texts) > 1 else (one.ask(texts[0], **arguments),)
        )
        if answers is None or any(answer.price.share for answer in answers):
            charged = None if answers is None else next(answer for answer in answers if answer.price.share)
            raise Broken("what was answered is told again for nothing", f"{'; '.join(texts)}: {charged}")
        self.paid(before, self.state(self.curator(0)), Fraction(0), "told again")
        return tuple(map(cells, answers))

    def renew(self) -> None:
        """Change the rows and raise the version; the budget goes on, and older answers are not told again."""
        if self.dataset.door == "memory":
            return
        before = self.state(self.curator(0))
        self.close()
        self.version += 1
        self.dataset = replace(self.dataset, seed=self.dataset.seed + 1_000_003)
        self.rows = table(self.dataset)
        if self.dataset.door != "ledger":
            self.dataset.write(self.folder, version=self.version)
        after = self.state(self.curator(0))
        if (before.spent, before.head) != (after.spent, after.head):
            raise Broken("a ledger that is opened again is the same", f"{before} -> {after}")
        self.since = after.charges
        self.told.clear()
        self.older |= self.keyed.keys()
        self.keyed.clear()
        self.bought.clear()

    def wrong(self, step: Wrong) -> None:
        got = self.call(step.analyst, lambda one: one.ask(step.text), accepted=frozenset({"invalid-sql"}))
        if got is not None:
            raise Broken("what is no question is not answered", step.text)

    def shaped(self, step: Shape) -> None:
        """Ask a text whose truth a plain database knows: as quoted, then free, with intervals that hold."""
        arguments = step.request.arguments()
        offer = self.call(step.analyst, lambda one: one.quote(step.text, **arguments)) if step.quoted else None
        answer = self.charged_as(step.analyst, lambda one: one.ask(step.text, **arguments))
        if answer is None:
            return
        if offer is not None:
            self.as_quoted(offer, (answer,))
        self.views(answer)
        if answer.source == "model":
            return
        again = self.charged_as(step.analyst, lambda one: one.ask(step.text, **arguments))
        if again is None or again.price.share > 0 or not alike(cells(answer), cells(again)):
            raise Broken("what was answered is told again for nothing", step.text)
        exact = exact_rows(step.text, self.dataset, self.rows)
        if exact is not None and not answer.coverage.selected:
            self.hold(answer, exact)

    def hold(self, answer: Answer, exact: list[Mapping[str, object]]) -> None:
        """Note whether the interval of one cell that was asked in a shape holds what a plain database answers."""
        keys = [name for name, noisy in zip(answer.columns, answer.estimated, strict=True) if not noisy]
        found = {tuple(comparable(row[name]) for name in keys): row for row in exact}
        candidates = [
            (cell, found[key][name], rough)
            for row in answer.rows
            if (key := tuple(map(comparable, row.values[: len(keys)]))) in found and None not in key
            for cell, name, rough in zip(row.cells, answer.columns, answer.approximate, strict=True)
            if isinstance(cell, Estimate) and found[key][name] is not None and cell.value is not None
        ]
        if candidates:
            cell, true, rough = self.random.choice(candidates)
            held = math.isnan(float(true)) or within(cell, Fraction(float(true)))  # type: ignore[arg-type]
            sample = Sample("shape, approximate" if rough else "shape", answer.source, 1 - CONFIDENCE, held)
            self.note(sample, new=answer.source == "measured")

    def raise_budget(self) -> None:
        """Let the owner double the budget: nothing is forgotten, and there is more left."""
        before, total = self.state(self.curator(0)), Fraction(self.dataset.epsilon)
        self.close()
        self.owner("raise", "--epsilon", str(self.raised * 2 * total))
        self.raised *= 2
        after = self.state(self.curator(0))
        if after.charges != before.charges or after.spent > before.spent or after.total.epsilon != self.raised * total:
            raise Broken("a raised budget has all that was charged, and more left", f"{before} -> {after}")
        for asked, request in [pair for pair, record in [*self.told.items()][-2:] if record.certain]:
            if request.within is not None:  # a price buys more of a larger budget
                self.again(asked, request)
        self.told = {pair: record for pair, record in self.told.items() if pair[1].within is not None}

    def stop(self, step: Stop) -> None:
        """Let the owner stop an analyst, who then pays for nothing, and admit them again."""
        name, share = self.dataset.analysts[step.analyst]
        self.close()
        self.owner("stop", name)
        text = step.question.text(self.dataset)
        answer = self.call(step.analyst, lambda one: one.ask(text, within=max(1, self.dataset.size // 7)))
        if answer is not None and answer.price.share:
            raise Broken("a stopped analyst spends nothing", str(answer))
        self.close()
        self.owner("admit", name, "--share", share)

    def owner(self, *words: str) -> None:
        """Do an owner's act by command."""
        from dodona.cli.main import app

        first, *others = words
        got = self.command.invoke(app, ["ledger", first, str(self.path), *others])
        if got.exit_code:
            raise Broken("an owner's act is done", f"{words}: {got.output[:300]}")

    def synthesize(self, step: Synthesize) -> None:
        """Release marginals as a model: it takes what it may at most, and the same again is free."""
        curator = self.curator(step.analyst)
        before = self.state(curator)
        named: dict[str, Any] = {"columns": step.columns, "share": step.share, "name": f"{step.columns} {step.share}"}
        model = self.call(step.analyst, lambda one: dodona.synthesize(one, "2-way", **named))
        if model is None:
            return
        after = self.state(curator)
        if self.dataset.accountant != "either" and after.spent - before.spent > Fraction(step.share):
            raise Broken("a release takes what it may", f"{after.spent - before.spent} of {step.share}")
        again = self.call(step.analyst, lambda one: dodona.synthesize(one, "2-way", **named))
        if again is None or self.state(curator).spent != after.spent:
            raise Broken("a release is told again for nothing", str(step))
        str(model.rounded(min(100, self.dataset.size)))

    def ask_by_command(self, step: Ask, text: str) -> None:
        from dodona.cli.main import app

        line = ["ask", str(self.path), text, "--json"]
        if self.dataset.analysts:
            line += ["--analyst", self.dataset.analysts[step.analyst][0]]
        line += [
            part
            for name, value in step.request.arguments().items()
            for part in (f"--{name.replace('_', '-')}", str(value))
        ]
        line += [] if step.key is None else ["--key", step.key]
        before = self.state(self.curator(step.analyst))
        got = self.command.invoke(app, line)
        after = self.state(self.curator(step.analyst))
        self.found.counts[f"command: exit {got.exit_code}"] += 1
        invalid = self.without_values(step.question) or (step.key, step.analyst) in self.older
        if got.exit_code not in {0, 3} | ({InvalidRequest.exit_code} if invalid else set()):
            raise Broken("no error but refusals", f"exit {got.exit_code}: {got.output[-300:]} {got.exception!r}")
        if got.exit_code and (before.spent, before.head) != (after.spent, after.head):
            raise Broken("what is refused is not charged", got.output[-300:])
        if got.exit_code == 0:
            said = json.loads(got.stdout)
            share = Fraction(said["price"]["share"])
            self.paid(before, after, share, said["source"])
            if step.key is not None and share:
                self.keyed.setdefault((step.key, step.analyst), None)


def written(texts: Sequence[str], request: Request, analyst: int = 0) -> str:
    """Return a call as Python."""
    said = "".join(f", {name}={value!r}" for name, value in request.arguments().items())
    asked = f"ask({texts[0]!r}" if len(texts) == 1 else f"ask_many({list(texts)!r}"
    return f"print(t{analyst}.{asked}{said}))"


def cells(answer: Answer) -> tuple[Any, ...]:
    """Return the rows of an answer in an order of their own, so that wordings can be compared."""
    return tuple((row.keys, *((cell.value, cell.low, cell.high) for cell in row.estimates)) for row in answer.rows)


def _values(shown: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of cells without their ends, which hang on the confidence that is asked for."""
    return tuple((keys, *(value for value, _, _ in estimates)) for keys, *estimates in shown)


def alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether two answers are the same up to the rounding of doubles."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return one == other


def within(cell: Estimate, exact: Fraction | float) -> bool:
    """Return whether an interval holds the truth, up to the rounding of doubles."""
    low, high = to_float(cell.low), to_float(cell.high)
    slack = _LOOSE * max(1.0, abs(float(exact)))
    return low - slack <= float(exact) <= high + slack


def kind_of(own: Term) -> str:
    if isinstance(own, Arithmetic):
        return "arithmetic"
    return {
        "count_of": "count", "avg": "average", "var_pop": "spread", "var_samp": "spread", "stddev_pop": "spread",
        "stddev_samp": "spread",
    }.get(own.measure, own.measure)  # fmt: skip


def _shown(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {str(fault)[:400]}"
