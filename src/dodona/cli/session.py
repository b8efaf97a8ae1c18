"""`dodona choose`, `above`, `prepare` and `weights`: several questions at once, or less than their answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli import terminal
from dodona.cli.opening import AskedDataset, ServerOption, check_questions, open_curator
from dodona.errors import InvalidRequest, printable_json

if TYPE_CHECKING:
    from dodona.privacy.budget import Price

QuestionsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[SQL]...", help="The questions; - reads one a line from standard input.")
]
FileOption = Annotated[Path | None, typer.Option("--file", help="A file with one question on each line.")]
RequiredEpsilonOption = Annotated[str, typer.Option(help="The price of the call alone, such as 0.1.")]
KeyOption = Annotated[str | None, typer.Option(help="A name for it; asked again under it, it is not charged again.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the price; nothing is charged.")]


def choose(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    question: terminal.SqlArgument,
    *,
    epsilon: RequiredEpsilonOption,
    count: Annotated[int, typer.Option(help="How many to choose.")] = 1,
    max_price: terminal.MaxPriceOption = None,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    key: KeyOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Name the groups with the largest answers, without the answers.

    Try: dodona choose stays.toml "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis" --epsilon 0.1 --count 3
    """
    with terminal.report_errors():
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            choice = curator.choose(
                terminal.read_sql(question), epsilon=epsilon, count=count, max_price=max_price, key=key
            )
        if as_json:
            document = {"names": choice.names, "within": choice.within, "confidence": choice.confidence}
            document |= _about(choice.about)
            print(printable_json(json.dumps(document | _price(choice.price), ensure_ascii=False)))
            return
        terminal.say(*choice.names)
        terminal.say(
            f"Each is within {choice.within:.4g} of the best that was left, with probability {choice.confidence:.15g}."
        )
        terminal.say(*_about(choice.about).values())
        terminal.say(f"Price: {choice.price}.")


def above(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    threshold: Annotated[int, typer.Argument(help="The count that an alert is about.")],
    questions: QuestionsArgument = None,
    *,
    epsilon: RequiredEpsilonOption,
    alerts: Annotated[int, typer.Option(help="How many alerts are paid for; after the last it ends.")] = 1,
    file: FileOption = None,
    max_price: terminal.MaxPriceOption = None,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Say which counts are above a threshold, one after the other, until the last alert.

    Alerts are paid for beforehand, however many questions there are. Try, with months.sql one count a line:
    dodona above stays.toml 9000 --file months.sql --epsilon 0.1 --alerts 2
    """
    with terminal.report_errors():
        listed = _read_questions(questions, file)
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            check_questions(curator, listed)  # a mistake in the last one is reported before anything is charged
            watch = curator.above(threshold, epsilon=epsilon, alerts=alerts, questions=len(listed), max_price=max_price)
            verdicts: list[tuple[str, bool]] = []
            for question in listed:
                if watch.left == 0:
                    break
                alarm = watch.ask(question).above
                verdicts.append((question, alarm))
                if not as_json:
                    terminal.say(f"{'above    ' if alarm else 'not above'}  {question}", style="bold" if alarm else "")
        if as_json:
            rows = [{"question": question, "above": is_above} for question, is_above in verdicts]
            document = {"threshold": threshold, "answers": rows, "left_out": len(listed) - len(verdicts)}
            document |= {"within": watch.within, **_about(watch.about)}
            text = json.dumps(document | _price(watch.price), ensure_ascii=False)
            print(printable_json(text))
            return
        if len(verdicts) < len(listed):
            terminal.say(f"That was the last alert; {len(listed) - len(verdicts)} questions were not asked.")
        right = f"Counts further than {watch.within:.4g} from {threshold} are all judged right"
        terminal.say(f"{right}, with probability {watch.confidence:.15g}.", *_about(watch.about).values())
        terminal.say(f"Price: {watch.price}.")


def prepare(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    questions: QuestionsArgument = None,
    *,
    within: terminal.WithinOption = None,
    confidence: terminal.ConfidenceOption = None,
    file: FileOption = None,
    dry_run: DryRunOption = False,
    max_price: terminal.MaxPriceOption = None,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    key: KeyOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Buy the cheapest measurement that all questions follow from; they are then free.

    With --dry-run it plans the workload and says its price.
    """
    with terminal.report_errors():
        listed, wanted = _read_questions(questions, file), terminal.parse_tolerance(within)
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            if dry_run:
                offer = curator.quote(listed, within=wanted, confidence=confidence)
                price, bought = offer.price, offer.mechanism
            else:
                prepared = curator.prepare(listed, within=wanted, confidence=confidence, max_price=max_price, key=key)
                price, bought = prepared.price, prepared.bought
        if as_json:
            print(json.dumps({"questions": len(listed), "bought": None if dry_run else bought} | _price(price)))
        elif dry_run:
            terminal.say(f"{len(listed)} questions together: {price}; nothing is spent yet. Mechanism: {bought}.")
        else:
            terminal.say(f"{len(listed)} questions are now free. Price: {price}. Bought: {bought}.")


def weights(  # noqa: PLR0913  each is an option
    dataset: AskedDataset,
    questions: QuestionsArgument = None,
    *,
    epsilon: RequiredEpsilonOption,
    columns: Annotated[
        str | None, typer.Option(help="The columns, such as sex,age. Default: all in the questions.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="The confidence of all answers together.")] = 0.95,
    file: FileOption = None,
    max_price: terminal.MaxPriceOption = None,
    key: KeyOption = None,
    server: ServerOption = None,
    analyst: terminal.AnalystOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Answer very many counts for one charge, by multiplicative weights over some columns."""
    with terminal.report_errors():
        listed = _read_questions(questions, file)
        named = None if columns is None else [name.strip() for name in columns.split(",")]
        with open_curator(dataset, server=server, analyst=analyst) as curator:
            run = curator.ask_by_weights(
                listed, epsilon=epsilon, columns=named, confidence=confidence, max_price=max_price, key=key
            )
        pairs = list(zip(listed, run.answers, strict=True))
        if as_json:
            rows = [{"question": text, "value": None if answer is None else answer.count} for text, answer in pairs]
            document = {"within": run.within, "confidence": confidence, "answers": rows} | _about(run.about)
            print(json.dumps(document | _price(run.price)))
            return
        for text, answer in pairs:
            terminal.say(f"{'-' if answer is None else answer!s:>16}  {text}")
        terminal.say(
            f"All {len(listed)} intervals together hold the exact counts with probability {confidence:.15g} or more."
        )
        terminal.say(*_about(run.about).values(), run.advice)
        terminal.say(f"Price: {run.price}.")


def _read_questions(questions: list[str] | None, file: Path | None) -> list[str]:
    """Return the questions given as arguments, on standard input, or in a file."""
    lines = list[str]()
    for question in questions or []:
        lines += sys.stdin.read().splitlines() if question == "-" else [question]
    if file is not None:
        try:
            lines += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as fault:
            reason = getattr(fault, "strerror", None) or "it is no UTF-8 text"
            raise InvalidRequest(f"--file {str(file)[:200]!r} cannot be read: {reason}.") from None
    listed = [line.strip().removesuffix(";") for line in lines if line.strip() and not line.lstrip().startswith("--")]
    if not listed:
        raise InvalidRequest("There is no question. Write them after the dataset file, or in a file: --file FILE.")
    return listed


def _about(about: str) -> dict[str, str]:
    """Return what answers are about, if people are protected; else nothing."""
    return {"about": about} if about else {}


def _price(price: Price) -> dict[str, object]:
    return {"price": {"share": str(price.share), "epsilon": price.epsilon}}
