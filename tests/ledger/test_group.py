"""Group commit: nobody is left asleep, whoever gives up, and nobody's answer goes to another."""

import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from threading import Event, Thread, get_ident
from types import FrameType

import pytest

from dodona.ledger.keeper import GroupCommit, Ticket, wake_one

SECONDS = 60.0
"""More than enough on any machine; a test that waits so long has failed."""


class Interrupt(BaseException):
    """What a signal raises in the main thread."""


def doubled(batch: list[Ticket[int]]) -> None:
    time.sleep(0.0005)
    for ticket in batch:
        ticket.answer = 2 * ticket.request


def started(*works: Callable[[], None]) -> list[Thread]:
    threads = [Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    return threads


def waiting(group: GroupCommit[int], count: int) -> None:
    """Wait until so many requests wait for the commit that is under way."""
    until = time.monotonic() + SECONDS
    while len(group._waiting) < count:
        assert time.monotonic() < until
        time.sleep(0.001)


def ended(threads: list[Thread]) -> bool:
    until = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def test_everybody_gets_the_own_answer_and_all_who_wait_share_the_next_commit():
    sizes: list[int] = []

    def serve(batch: list[Ticket[int]]) -> None:
        if not sizes:
            waiting(group, 16 - len(batch))
        sizes.append(len(batch))
        doubled(batch)

    group, answers = GroupCommit(serve), {}

    def client(name: int) -> None:
        for number in range(50 * name, 50 * name + 50):
            answers[number] = group.run(number)

    assert ended(started(*(lambda name=name: client(name) for name in range(16))))
    assert answers == {number: 2 * number for number in range(800)}
    assert sum(sizes) == 800
    assert sizes[0] + sizes[1] >= 16


def test_what_stops_a_group_is_everybodys_fault_and_the_next_group_goes_on():
    serving, gate = Event(), Event()

    def serve(batch: list[Ticket[int]]) -> None:
        serving.set()
        gate.wait(SECONDS)
        if any(ticket.request < 0 for ticket in batch):
            raise Interrupt

    group, faults = GroupCommit(serve), []

    def client(request: int) -> None:
        try:
            group.run(request)
        except Interrupt:
            faults.append(request)

    first = started(lambda: client(1))
    assert serving.wait(SECONDS)
    rest = started(lambda: client(-2), lambda: client(3), lambda: client(4))
    waiting(group, 3)
    gate.set()
    assert ended(first + rest)
    assert sorted(faults) == [-2, 3, 4]
    group.run(5)


def test_one_who_gave_up_is_passed_over_when_the_others_are_woken():
    tickets = [Ticket(number) for number in range(4)]
    asleep = deque(tickets)
    for ticket in tickets:
        ticket.end(asleep, stopped=None)
    threads = started(tickets[0].wait, tickets[3].wait)
    tickets[1].leave()
    tickets[2].leave()
    wake_one(asleep)
    assert ended(threads)
    assert not asleep


def test_one_who_gives_up_after_being_woken_still_wakes_the_next():
    tickets = [Ticket(number) for number in range(2)]
    asleep = deque(tickets)
    for ticket in tickets:
        ticket.end(asleep, stopped=None)
    threads = started(tickets[1].wait)
    wake_one(asleep)
    tickets[0].leave()
    assert ended(threads)


@pytest.mark.parametrize("when", ["before its group", "in its group"])
def test_an_interrupt_of_one_who_waits_leaves_nobody_asleep(when: str):
    serving, gates, main = [Event(), Event()], [Event(), Event()], get_ident()
    requests: list[list[int]] = []

    def serve(batch: list[Ticket[int]]) -> None:
        requests.append([ticket.request for ticket in batch])
        if len(requests) <= 2:
            serving[len(requests) - 1].set()
            gates[len(requests) - 1].wait(SECONDS)
        doubled(batch)

    group, answers = GroupCommit(serve), []
    threads = started(lambda: answers.append(group.run(1)))
    assert serving[0].wait(SECONDS)
    threads += started(lambda: answers.append(group.run(2)))
    waiting(group, 1)

    def interrupt(_: int, __: FrameType | None) -> None:
        raise Interrupt

    def conduct() -> None:
        waiting(group, 2)  # the main thread is behind 2
        threads.extend(started(*(lambda number=number: answers.append(group.run(number)) for number in (4, 5, 6))))
        waiting(group, 5)
        if when == "in its group":
            gates[0].set()
            serving[1].wait(SECONDS)
        while sys._current_frames()[main].f_code is not Ticket.wait.__code__:
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    conductor = started(conduct)
    try:
        with pytest.raises(Interrupt):
            group.run(3)
    finally:
        signal.signal(signal.SIGUSR1, before)
        for gate in gates:
            gate.set()
    assert ended(conductor)
    assert ended(threads)
    assert sorted(answers) == [2, 4, 8, 10, 12]
    assert (3 in requests[1]) is (when == "in its group")
    assert group.run(7) == 14
