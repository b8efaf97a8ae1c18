"""Messages in any order, and sessions that misbehave: no crash, no hang, no answer that is not the core's."""

from __future__ import annotations

import random
import re
import struct

import pytest

from dodona.server.door.wire import cells_of, message, parse_message
from tests.door.raw import PATIENCE, RawClient, log_in
from tests.door.scene import OpenDoor

NAMES = (b"", b"a", b"b", b"dodona_step", b"dodona_late")
COUNT = "SELECT 'q{0}' AS q, count(*) FROM stays WHERE age >= {0}"
TEXTS = (
    COUNT, f"{COUNT} -- again", f"DECLARE c CURSOR WITH HOLD FOR {COUNT}", "FETCH 1 FROM c", "CLOSE c",
    f"COPY ({COUNT}) TO STDOUT", "SELECT * FROM stays", "SELECT * FROM stays LIMIT 0", f"EXPLAIN {COUNT}",
    "SELECT 'q{0}', count(*) FROM stays WHERE age >= $1", "BEGIN", "COMMIT", "ROLLBACK", "SELECT 1/0",
    "SELECT $1::int + 1", "SELEC", "", ";", "SELECT 1; SELECT 2", "COPY stays FROM STDIN", "SET dodona.within = '9%'",
    "SET dodona.within = 'x'", "RESET ALL", "DISCARD ALL", "DEALLOCATE ALL", "SHOW dodona.within",
    "SELECT * FROM dodona.budget LIMIT 0",
    "SELECT 'q{0}' AS q, (SELECT count(*) FROM stays WHERE age >= {0}) FROM generate_series(1, 3)",
)  # fmt: skip
AGES = range(30)
_SEEN = re.compile(r"q(\d+)")


def a_message(draw: random.Random) -> bytes:  # noqa: C901, PLR0911  one case a kind of message
    """Return a message that a client could send, though perhaps not now."""
    name, other = draw.choice(NAMES), draw.choice(NAMES)
    text = draw.choice(TEXTS).format(draw.choice(AGES))
    match draw.randrange(18):
        case 0 | 1:
            return message(b"Q", text.encode() + b"\0")
        case 2 | 3:
            return parse_message(name, text, draw.choice([(), (), (23,), (0,)]))
        case 4 | 5:
            values = draw.choice([(), (), (b"7",), (b"7", None)])
            body = b"".join(
                struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values
            )
            return message(b"B", name + b"\0" + other + b"\0\0\0" + struct.pack("!H", len(values)) + body + b"\0\0")
        case 6:
            return message(b"D", draw.choice([b"S", b"P"]) + name + b"\0")
        case 7 | 8 | 9:
            return message(b"E", name + b"\0" + struct.pack("!I", draw.choice([0, 1])))
        case 10:
            return message(b"C", draw.choice([b"S", b"P"]) + name + b"\0")
        case 11:
            return draw.choice([message(b"S"), message(b"S"), message(b"H")])
        case 12:
            return draw.choice([message(b"d", b"1\t2\n"), message(b"c"), message(b"f", b"no\0")])
        case 13:
            return message(b"S")
        case 14:
            return message(b"S") + message(b"Q", b"ROLLBACK\0")
        case _:
            question = draw.choice([TEXTS[0], TEXTS[1], TEXTS[-1]]).format(draw.choice(AGES))
            bound = message(b"B", name + b"\0" + name + b"\0\0\0\0\0\0\0")
            once = message(b"E", name + b"\0\0\0\0\1")
            closed = message(b"C", b"S" + name + b"\0")
            return message(b"S") + closed + parse_message(name, question) + bound + once + once + message(b"S")


def broken(draw: random.Random, data: bytes) -> bytes:
    """Return a message with a few bytes changed."""
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def run_session(door: OpenDoor, draw: random.Random, count: int) -> list[tuple[int, int]]:
    """Send messages in any order; return the answers that came back. The session goes on, or was ended in order."""
    client = log_in(door)
    spoiled = draw.random() < 0.3
    sent = [a_message(draw) for _ in range(count)]
    if spoiled:
        place = draw.randrange(len(sent))
        sent[place] = broken(draw, sent[place])
    try:
        client.send(b"".join(sent))
        client.send(
            message(b"f", b"no\0") + message(b"S") + message(b"Q", b"ROLLBACK\0") + message(b"Q", b"SELECT 'the end'\0")
        )
    except OSError:
        assert spoiled
    try:
        answers, ended = read_all(client, cut=spoiled)
    except TimeoutError:
        raise AssertionError(f"it hangs: {sent}") from None
    client.close()
    assert ended or spoiled, sent
    return answers


def read_all(client: RawClient, *, cut: bool) -> tuple[list[tuple[int, int]], bool]:
    """Read up to the last row; a message that was changed may make the door wait for more of it, which never comes."""
    answers: list[tuple[int, int]] = []
    if cut:
        client.connection.settimeout(1.0)
    while True:
        try:
            reply = client.next()
        except TimeoutError:
            if cut:
                return answers, False
            raise
        if reply is None:
            return answers, False
        kind, body = reply
        if kind == b"D":
            cells = cells_of(body)
            if cells == ["the end"]:
                return answers, True
            seen = _SEEN.fullmatch(cells[0] or "")
            if seen is not None and len(cells) == 2 and cells[1] is not None:
                answers.append((int(seen[1]), int(cells[1])))


@pytest.mark.parametrize("messages", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_messages_in_any_order_never_hang_nor_show_what_was_not_answered(door: OpenDoor, messages) -> None:
    draw = random.Random(18 + messages)  # noqa: S311  a seed, so that a failure can be repeated
    each = 40
    answers: list[tuple[int, int]] = []
    with door.connect("bob") as healthy:
        for _ in range(messages // each):
            answers += run_session(door, draw, each)
            assert healthy.execute("SELECT 1").fetchone() == (1,)
    assert len(answers) > messages / 50
    with door.connect(options="-c dodona.within=9% -c dodona.max_price=0") as connection:
        for age in AGES:
            shown = {value for place, value in answers if place == age}
            truth = door.frame.filter(door.frame["age"] >= age).height
            assert all(abs(value - truth) < 3 * 270 for value in shown)
            if shown:  # it was paid for, so that it is free now
                connection.execute(f"SELECT count(*) FROM stays WHERE age >= {age}")  # noqa: S608
    assert door.server.lines("fault") == []


def test_a_session_that_misbehaves_does_not_block_others(door: OpenDoor) -> None:
    stalled = []
    for place in range(15):
        client = log_in(door)
        match place % 5:
            case 0:
                client.send(b"Q\0\0\1\0SELECT")  # the rest never comes
            case 1:
                client.send(
                    message(b"Q", b"SELECT repeat('x', 1000) FROM generate_series(1, 1000000)\0")
                )  # nobody reads it
            case 2:
                client.send(message(b"Q", b"SELECT pg_sleep(50)\0"))
            case 3:
                client.send(message(b"Q", b"SELECT count(*) FROM stays WHERE " + b"(" * 3000 + b"\0"))
                client.send(message(b"Q", b"SELECT " + b"count(*),sex," * 200_000 + b"1 FROM stays\0"))
            case _:
                client.send(message(b"Q", b"BEGIN\0") + parse_message(b"", "SELECT count(*) FROM stays") * 500)
        stalled.append(client)
    with door.connect() as connection:
        assert connection.execute("SELECT count(*) FROM stays WHERE age > 90").fetchone()[0] is not None
    for client in stalled:
        client.close()


def test_a_name_prepared_twice_is_an_error_and_not_a_hang(door: OpenDoor) -> None:
    client = log_in(door)
    twice = parse_message(b"same", "SELECT count(*) FROM stays WHERE age = 3")
    client.send(twice + twice + message(b"S"))
    kinds = []
    while not kinds or kinds[-1] != b"Z":
        reply = client.next()
        assert reply is not None
        kinds.append(reply[0])
    assert kinds == [b"1", b"E", b"Z"]
    client.close()
    assert PATIENCE == 10.0
