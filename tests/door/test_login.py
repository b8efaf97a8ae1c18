"""Who gets in, over which connection, what they see of others, and what ends a session."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from dodona.server.accounts import Accounts
from dodona.server.door import scram
from dodona.server.places import StateFolder, Users
from dodona.server.secrets import ScramVerifier
from tests.door.scene import OpenDoor, find_sidecar, make_stays


@pytest.mark.parametrize(
    "options",
    [
        {"channel_binding": "require"},
        {"channel_binding": "disable"},
        {"sslmode": "require", "sslnegotiation": "direct"},
        {"max_protocol_version": "latest"},
        {"sslmode": "verify-full", "sslrootcert": "its own"},
    ],
    ids=" ".join,
)
def test_clients_log_in_by_tls_and_scram(door: OpenDoor, options) -> None:
    if "sslrootcert" in options:
        options = options | {"sslrootcert": str(door.certificate)}
    with door.connect(**options) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("stays",)
        assert connection.pgconn.ssl_in_use


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password": "dodona_wrong"}, "password authentication failed"),
        ({"user": "nobody", "password": "x"}, "password authentication failed"),
        ({"user": "bob"}, "password authentication failed"),
        ({"sslmode": "disable"}, "Connect with TLS"),
        ({"dbname": "nowhere"}, 'There is no dataset "nowhere" for this account.*: "stays"'),
        ({"dbname": "template1", "user": "eve"}, "password authentication failed"),
        ({"options": "-c session_authorization=dodona"}, "permission denied|cannot"),
    ],
)
def test_others_do_not_get_in(door: OpenDoor, options, said) -> None:
    with pytest.raises(psycopg.OperationalError, match=said):
        door.connect(**options)


def test_a_name_without_an_account_gets_the_same_challenge_each_time() -> None:
    first, again, other = (scram.decoy(name, b"key").salt for name in ("zoe", "zoe", "yan"))
    assert first == again != other


@pytest.mark.parametrize(
    ("mechanism", "first", "certificate"),
    [
        ("SCRAM-SHA-1", "n,,n=,r=abc", None),
        ("SCRAM-SHA-256", "n,,n=,r=", None),
        ("SCRAM-SHA-256", "y,,n=,r=abc", b"digest"),  # somebody took the binding out of the offer
        ("SCRAM-SHA-256", "p=tls-server-end-point,,n=,r=abc", b"digest"),
        ("SCRAM-SHA-256-PLUS", "n,,n=,r=abc", b"digest"),
        ("SCRAM-SHA-256-PLUS", "p=tls-unique,,n=,r=abc", b"digest"),
        ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc", None),
    ],
)
def test_a_first_message_that_does_not_fit_is_refused(mechanism, first, certificate) -> None:
    verifier = ScramVerifier.of("token", salt=b"0123456789abcdef")
    with pytest.raises(scram.WrongProof):
        scram.challenge(mechanism, first, verifier, certificate)


def test_psql_finds_the_only_dataset_by_the_name_of_the_user(door: OpenDoor) -> None:
    with door.connect(dbname="ada") as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("stays",)


def test_an_auditor_may_look_and_not_ask(door: OpenDoor) -> None:
    with door.connect("eve") as connection:
        assert connection.execute("SELECT charges >= 0 FROM dodona.budget").fetchone() == (True,)
        with pytest.raises(errors.InsufficientPrivilege, match=r"analysts and owners.*Nothing was charged"):
            connection.execute("SELECT count(*) FROM stays WHERE age = 3")


def test_nobody_learns_the_names_of_others(door: OpenDoor) -> None:
    with door.connect("bob") as other, door.connect() as connection:
        user = connection.execute("SELECT session_user").fetchone()[0]
        assert other.execute("SELECT session_user").fetchone()[0] != user
        assert connection.execute("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_'").fetchall() == [(user,)]
        assert connection.execute("SELECT usename FROM pg_user").fetchall() == [(user,)]
        shown = connection.execute(
            """SELECT string_agg(oid::regrole::text, ' ') FROM generate_series(10, 20000) AS g (oid)
            UNION ALL SELECT string_agg(datacl::text, ' ') FROM pg_database
            UNION ALL SELECT string_agg(s::text, ' ') FROM pg_settings AS s"""
        ).fetchall()
        text = " ".join(str(value) for (value,) in shown)
        assert not {"ada", "bob", "eve", "grace"} & set(text.replace("'", " ").split())
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM pg_stat_activity")


def _repeat(connection):
    """Go on until the connection is lost."""
    for _ in range(200):
        connection.execute("SELECT pg_sleep(0.1)")


def test_a_revoked_token_ends_its_session_within_seconds(door: OpenDoor) -> None:
    with Accounts.open(door.server.accounts) as accounts:
        issued = accounts.create_token("bob", "short")
        connection = psycopg.connect(door.address("bob", password=issued.text), autocommit=True)
        assert connection.execute("SELECT 1").fetchone() == (1,)
        accounts.revoke("bob", issued.info.id)
    with pytest.raises(psycopg.OperationalError, match=r"The token of this session has ended|server closed"):
        _repeat(connection)
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(door.address("bob", password=issued.text))


def test_a_token_for_another_dataset_does_not_get_in(door: OpenDoor) -> None:
    with Accounts.open(door.server.accounts) as accounts:
        issued = accounts.create_token("bob", "elsewhere", datasets=["visits"])
    with pytest.raises(psycopg.OperationalError, match="There is no dataset"):
        psycopg.connect(door.address("bob", password=issued.text))


def test_a_token_s_cap_holds_at_the_door(door: OpenDoor) -> None:
    with Accounts.open(door.server.accounts) as accounts:
        issued = accounts.create_token("bob", "small", max_price="0.0001%")
    with (
        psycopg.connect(door.address("bob", password=issued.text), autocommit=True) as connection,
        pytest.raises(errors.InsufficientPrivilege, match=r"the token may spend.*Nothing was charged"),
    ):
        connection.execute("SET dodona.within = '0.5%'; SELECT count(*) FROM stays WHERE age = 41")


def test_bytes_sent_before_tls_are_not_taken_for_encrypted_ones(door: OpenDoor) -> None:
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(struct.pack("!II", 8, 80877103) + b"Q\0\0\0\x0dSELECT 1\0")
        assert client.recv(10) in {b"", b"S"}
        assert client.recv(10) == b""


def test_a_killed_sidecar_loses_no_charge_and_is_started_again(door: OpenDoor) -> None:
    question = "SELECT sex, count(*) FROM stays WHERE age > 33 GROUP BY sex ORDER BY sex"
    with door.connect() as connection:
        first = connection.execute(question).fetchall()
        charged = door.charges()
        pid, _ = find_sidecar(door.server)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            _repeat(connection)
    until = time.monotonic() + 60
    while True:
        try:
            with door.connect() as connection:
                assert connection.execute(question).fetchall() == first
                break
        except psycopg.OperationalError:
            assert time.monotonic() < until
            time.sleep(0.2)
    assert door.charges() == charged


def _patiently(address: str, statement: str) -> tuple[Any, ...] | None:
    """Return the first row of a statement, as soon as the door takes it."""
    until = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                return connection.execute(statement).fetchone()
        except psycopg.OperationalError:
            assert time.monotonic() < until
            time.sleep(0.2)


def test_parts_that_run_alone_find_each_other_and_a_sidecar_that_is_made_anew(tmp_path) -> None:
    folder, state = tmp_path / "data", Path(tempfile.mkdtemp(prefix="door-"))
    state.chmod(0o711)  # the sidecar belongs to another user, if root starts it
    make_stays(folder)
    StateFolder(state).create(Users())
    with Accounts.create(StateFolder(state).accounts) as accounts:
        accounts.add("ada")
        accounts.grant("ada", "stays", "analyst")
        token = accounts.create_token("ada", "test").text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "dodona.cli", "serve", str(folder), "--state", str(state), "--only"]
    parts = [["core"], ["sidecar", "--share-group"], ["sql", "--sql", port, "--sql-operations-port", "0"]]
    running = [subprocess.Popen([*command, *part], stderr=subprocess.DEVNULL) for part in parts]
    try:
        address = f"host=127.0.0.1 port={port} user=ada password={token} dbname=stays"
        first = _patiently(address, "SELECT count(*) FROM stays")
        running[1].send_signal(signal.SIGINT)
        running[1].wait(30)
        running[1] = subprocess.Popen([*command, *parts[1]], stderr=subprocess.DEVNULL)
        assert _patiently(address, "SELECT count(*) FROM stays") == first
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)
        shutil.rmtree(state)
