"""The tour: a made-up hospital behind a budget, asked one question after the other, each beside the truth."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import dodona
from demo import owner, questions
from demo.dataset import ANALYST, Made, make
from demo.questions import Ask
from demo.screen import Screen
from demo.table import Rows
from demo.truth import Judged, Truth
from dodona.answer.answer import Answer
from dodona.curator.curator import Curator
from dodona.dataset.opening import open_dataset_ledger
from dodona.errors import DodonaError


@dataclass(frozen=True, slots=True)
class Told:
    """One question, its price and its answer beside the truth."""

    title: str
    sql: str
    share: Fraction
    judged: tuple[Judged, ...] = ()


@dataclass(frozen=True, slots=True)
class Tour:
    """All that was asked, in order, and where it is kept."""

    made: Made
    told: tuple[Told, ...]

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """What each question took of the budget."""
        return tuple(question.share for question in self.told)

    @property
    def judged(self) -> tuple[Judged, ...]:
        """All estimates."""
        return tuple(judged for question in self.told for judged in question.judged)


def tour(rows: Rows, folder: Path, screen: Screen) -> Tour:
    """Put rows behind a budget in a folder, ask everything, and return what was told."""
    made = make(rows, folder)
    owner.shown(made, screen)
    with open_dataset_ledger(made.file) as ledger:
        key = ledger.cap_key
    with dodona.open(made.file, analyst=ANALYST) as stays, Truth(made.rows, stays.schema, key) as truth:
        answers = [_asked(stays, truth, ask, screen) for ask in questions.ASKS]
        answers += [_chosen(stays, truth, screen), _watched(stays, truth, screen), _batch(stays, truth, screen)]
        answers += [_free(stays, truth, ask, screen) for ask in questions.FREE]
        _refused(stays, screen)
    return Tour(made, tuple(answers))


def _asked(stays: Curator, truth: Truth, ask: Ask, screen: Screen) -> Told:
    """Quote, then ask."""
    screen.step(ask.title, ask.sql)
    with screen.working("planning"):
        offer = stays.quote(ask.sql, within=ask.within)
    screen.price(offer, ask.within, float(stays.budget.left))
    with screen.working("asking"):
        answer = cast("Answer", stays.ask(ask.sql, within=ask.within))
        judged = truth.judged(answer, ask.truth)
    screen.answer(judged)
    if ask.remark:
        screen.say(ask.remark, "italic")
    return Told(ask.title, ask.sql, answer.price.share, judged)


def _chosen(stays: Curator, truth: Truth, screen: Screen) -> Told:
    title = "Which three bring the most long emergencies? Only the names."
    screen.step(title, f"choose({questions.TOP!r}, epsilon={questions.TOP_EPSILON!r}, count={questions.TOP_COUNT})")
    choice = stays.choose(questions.TOP, epsilon=questions.TOP_EPSILON, count=questions.TOP_COUNT)
    best = truth.ranked(questions.TOP)
    screen.say(f"chosen: {', '.join(choice.names)}", "bold")
    screen.say(f"truth:  {', '.join(f'{name} ({count})' for name, count in best[: questions.TOP_COUNT + 1])}, …")
    screen.say(
        f"Each is within {choice.within:.0f} stays of the best that was left, 95% sure. "
        f"No count is told, so it takes {100 * float(choice.price.share):.2f}% of the budget.",
        "italic",
    )
    return Told("Choose three of the diagnoses", questions.TOP, choice.price.share)


def _watched(stays: Curator, truth: Truth, screen: Screen) -> Told:
    level, title = questions.ALERT_THRESHOLD, "Which months had a rush? An alarm that is paid for once."
    screen.step(title, f"above({level}, epsilon={questions.ALERT_EPSILON!r}, alerts={questions.ALERTS})")
    months = questions.MONTHS
    watch = stays.above(level, epsilon=questions.ALERT_EPSILON, alerts=questions.ALERTS, questions=len(months))
    quiet = 0
    for year, month in months:
        if watch.left == 0:
            break
        sql = questions.month_count(year, month)
        if watch.ask(sql).above:
            screen.say(f"{year}-{month:02d}  above {level}   (truth: {truth.count(sql)})", "bold")
        else:
            quiet += 1
    screen.say(f"{quiet} months were asked about and are not above.")
    screen.say(
        f"Months further than {watch.within:.0f} from {level} are all classified correctly, 95% sure. "
        f"Only alarms cost: {100 * float(watch.price.share):.2f}% for {questions.ALERTS}, paid beforehand.",
        "italic",
    )
    return Told("Watch for months above a threshold", f"above({level})", watch.price.share)


def _batch(stays: Curator, truth: Truth, screen: Screen) -> Told:
    asked, within = questions.BATCH, questions.BATCH_WITHIN
    title = f"{len(asked)} questions at once: stays of a week or more, by diagnosis and age"
    screen.step(title, f"{asked[0]}  … and {len(asked) - 1} more")
    screen.price(stays.quote(asked, within=within), within, float(stays.budget.left))
    with screen.progress("asking") as progress:
        answers = cast("tuple[Answer, ...]", stays.ask_many(asked, within=within, progress=progress))
    judged = tuple(cell for answer, sql in zip(answers, asked, strict=True) for cell in truth.judged(answer, sql))
    inside = sum(cell.inside for cell in judged)
    screen.say(f"{inside} of {len(judged)} intervals hold the truth.", "green" if inside == len(judged) else "yellow")
    screen.say("All of them or none: they are planned together, and there is one charge.", "italic")
    return Told(f"{len(asked)} counts at once", "; ".join(asked), answers[0].price.share, judged)


def _free(stays: Curator, truth: Truth, ask: Ask, screen: Screen) -> Told:
    """Ask what was released before, or follows from it."""
    screen.step(ask.title, ask.sql)
    screen.price(stays.quote(ask.sql, within=ask.within), ask.within, float(stays.budget.left))
    answer = cast("Answer", stays.ask(ask.sql, within=ask.within))
    judged = truth.judged(answer, ask.truth)
    screen.answer(judged)
    screen.say(ask.remark, "italic")
    return Told(ask.title, ask.sql, answer.price.share, judged)


def _refused(stays: Curator, screen: Screen) -> None:
    """Ask what is refused: a mistake, and more than is left."""
    screen.step("A mistake")
    _complaint(stays, questions.MISSPELLED, None, screen)
    within = questions.TOO_MUCH_WITHIN
    screen.step("More than the budget has left", f"{questions.TOO_MUCH}, within ±{within}")
    _complaint(stays, questions.TOO_MUCH, within, screen)


def _complaint(stays: Curator, sql: str, within: int | None, screen: Screen) -> None:
    before = stays.budget.spent
    try:
        stays.ask(sql, within=within)
    except DodonaError as error:
        screen.say(str(error), "red")
    if stays.budget.spent != before:
        raise AssertionError("a question that was refused was charged")
