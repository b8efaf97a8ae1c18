"""Sessions of the page: cookies, other sites, expiry, and logins that fail."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from dodona.server import secrets
from dodona.server.accounts import Accounts, Identity
from dodona.server.identity import NotAuthenticated
from dodona.server.sessions import (
    ACCOUNT_PACE,
    ADDRESS_PACE,
    MOST_SESSIONS,
    CrossSite,
    Logins,
    Sessions,
    Throttle,
    Throttled,
    cookie_name,
    ended_cookie,
    login_cookie,
    read_cookie,
    require_same_origin,
    session_cookie,
)
from tests.server.accounts.scene import Place, Time

PASSWORD = "correct horse battery"  # noqa: S105  of a test
ADA = Identity("ada", {"hospital": "analyst"})


# --- Cookies and other sites. ---


def test_a_session_cookie_is_for_this_host_and_no_script():
    assert session_cookie("x", secure=True, seconds=60) == (
        "__Host-dodona-session=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure"
    )
    assert session_cookie("x", secure=False, seconds=60) == (
        "dodona-session=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
    )
    assert "Max-Age=0" in ended_cookie(secure=True)
    assert "SameSite=Lax" in login_cookie("x", secure=True, seconds=60)


def test_a_cookie_is_read_once_or_not_at_all():
    name = cookie_name(secure=True)
    assert read_cookie(f"other=1; {name}=abc; more=2", name) == "abc"
    assert read_cookie(f"{name}=", name) == ""
    for header in (None, "", "other=1", f"{name}=a; {name}=b", f"x{name}=a", f"{name.lower()}=a", ";;;="):
        assert read_cookie(header, name) is None


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "http://inner:8000"}, True),  # a proxy in front changed the host
        ({"origin": "https://dodona.example"}, True),
        ({"origin": "https://dodona.example:443"}, True),
        ({"origin": "https://DODONA.example"}, True),
        ({"origin": "http://dodona.example"}, False),
    ],
)
def test_the_servers_page_may_change_something(headers: dict[str, str], secure: bool):  # noqa: FBT001  a parameter
    require_same_origin("POST", headers, host="dodona.example", secure=secure)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"sec-fetch-site": "cross-site", "origin": "https://dodona.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://evil.example"},
        {"origin": "http://dodona.example"},
        {"origin": "https://dodona.example:8443"},
        {"origin": "https://dodona.example.evil.example"},
        {"origin": "https://dodona.example/"},
        {"origin": "https://evil@dodona.example"},
        {"origin": "https://["},
        {"origin": "dodona.example"},
        {"referer": "https://dodona.example/"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "post", "STRANGE"])
def test_another_site_may_change_nothing(method: str, headers: dict[str, str]):
    with pytest.raises(CrossSite):
        require_same_origin(method, headers, host="dodona.example", secure=True)
    for safe in ("GET", "HEAD", "OPTIONS"):
        require_same_origin(safe, headers, host="dodona.example", secure=True)


def test_a_server_that_does_not_know_its_host_trusts_no_origin():
    with pytest.raises(CrossSite):
        require_same_origin("POST", {"origin": "https://"}, host="", secure=True)


# --- Sessions, on every kind of store. ---


@pytest.fixture
def sessions(accounts: Accounts) -> Sessions:
    return Sessions(accounts)


def test_a_session_is_its_accounts_until_the_log_out(sessions: Sessions, accounts: Accounts):
    mine, other = sessions.begin("ada"), sessions.begin("ada")
    assert mine.identity == sessions.authenticate(mine.text) == ADA
    assert mine.text not in repr(mine)
    sessions.end(mine.text)
    assert sessions.authenticate(mine.text) is None
    assert sessions.authenticate(other.text) == ADA
    accounts.grant("ada", "hospital", "owner")
    assert sessions.authenticate(other.text) == Identity("ada", {"hospital": "owner"})
    sessions.end_all("ada")
    assert sessions.authenticate(other.text) is None
    for wrong in (None, "", "x", "0" * 43, "\0" * 43, "é" * 43):
        assert sessions.authenticate(wrong) is None
        sessions.end(wrong)
    with pytest.raises(NotAuthenticated):
        sessions.begin("nobody")


def test_a_session_is_stored_as_a_digest_alone(sessions: Sessions, accounts: Accounts):
    session = sessions.begin("ada")
    rows = accounts.store.read("SELECT * FROM dodona_sessions")
    assert [row[0] for row in rows] == [secrets.digest(session.text)]
    assert session.text not in str(rows)


def test_a_session_ends_when_it_is_old_or_idle(accounts: Accounts, place: Place):
    sessions = Sessions(accounts, lifetime=timedelta(hours=3), idle=timedelta(hours=1))
    busy, idle = sessions.begin("ada"), sessions.begin("ada")
    assert busy.seconds == 3 * 3600
    for _ in range(4):
        place.time.pass_by(2_600)
        assert sessions.authenticate(busy.text) is not None
        accounts.flush()
    assert sessions.authenticate(idle.text) is None
    place.time.pass_by(400)
    assert sessions.authenticate(busy.text) is None


def test_sessions_end_with_a_new_password_and_with_the_account(sessions: Sessions, accounts: Accounts):
    first = sessions.begin("ada")
    accounts.set_password("ada", PASSWORD)
    assert sessions.authenticate(first.text) is None
    second = sessions.begin("ada")
    accounts.stop("ada")
    assert sessions.authenticate(second.text) is None
    with pytest.raises(NotAuthenticated):
        sessions.begin("ada")
    accounts.resume("ada")
    assert sessions.authenticate(second.text) is None


def test_a_clock_that_is_set_back_does_not_lengthen_a_session(sessions: Sessions, place: Place):
    session = sessions.begin("ada")
    place.time.jump(-86_400)
    place.time.pass_by(12 * 3600)
    assert sessions.authenticate(session.text) is None  # in the same process: the other clock goes on
    place.time.jump(86_400 - 12 * 3600 + 10)
    with place.open() as again:
        assert Sessions(again).authenticate(session.text) is not None
    place.time.jump(-86_400)
    with place.open() as again:  # in a new process, which has only the wrong clock
        assert Sessions(again).authenticate(session.text) is None


def test_an_account_has_a_bounded_number_of_sessions(sessions: Sessions, accounts: Accounts, place: Place):
    started = []
    for _ in range(MOST_SESSIONS + 3):
        started.append(sessions.begin("ada"))
        place.time.pass_by(1)
    alive = [sessions.authenticate(session.text) is not None for session in started]
    assert alive == [False] * 3 + [True] * MOST_SESSIONS
    assert accounts.store.read("SELECT count(*) FROM dodona_sessions") == [(MOST_SESSIONS,)]


# --- Failed logins. ---


def test_a_login_needs_name_and_password(sessions: Sessions, accounts: Accounts):
    accounts.set_password("ada", PASSWORD)
    logins = Logins(sessions, accounts)
    assert sessions.authenticate(logins.log_in("Ada", PASSWORD, address="192.0.2.1").text) == ADA
    for name, password in (("ada", "wrong"), ("nobody", PASSWORD)):
        with pytest.raises(NotAuthenticated) as caught:
            logins.log_in(name, password, address="192.0.2.1")
        assert str(caught.value) == str(NotAuthenticated())


def attempt(throttle: Throttle, account: str, address: str) -> int:
    """Return 0 if the attempt may be made, and fails; otherwise how long to wait."""
    try:
        throttle.attempt(account, address)
    except Throttled as wait:
        return wait.retry_after
    return 0


def play(throttle: Throttle, clocks: Time, attempts: list[tuple[str, str]]) -> list[int]:
    """Return the waits of attempts, each made again as soon as it may be."""
    waits = []
    for account, address in attempts:
        wait = attempt(throttle, account, address)
        waits.append(wait)
        if wait:
            clocks.pass_by(wait - 0.01)
            assert attempt(throttle, account, address) == 1
            clocks.pass_by(0.01)
            assert attempt(throttle, account, address) == 0
    return waits


@pytest.fixture
def clocks() -> Time:
    return Time()


@pytest.fixture
def throttle(clocks: Time) -> Throttle:
    return Throttle(lambda: clocks.steady)


def test_failures_of_an_account_wait_longer_and_longer_up_to_a_minute(throttle: Throttle, clocks: Time):
    names = ("ada", "Ada", "ADA")
    waits = play(throttle, clocks, [(names[number % 3], f"192.0.2.{number}") for number in range(16)])
    assert waits == [0] * (ACCOUNT_PACE.free + 1) + [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert attempt(throttle, "bob", "198.51.100.1") == 0


def test_failures_of_an_address_wait_whatever_names_it_tries(throttle: Throttle, clocks: Time):
    waits = play(throttle, clocks, [(f"name{number}", f"2001:db8::{number:x}") for number in range(24)])
    assert waits == [0] * (ADDRESS_PACE.free + 1) + [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]
    assert attempt(throttle, "name99", "2001:db8:0:1::1") == 0


def test_a_right_password_ends_the_wait_of_the_account_but_buys_the_address_no_guesses(
    throttle: Throttle, clocks: Time
):
    for _ in range(ADDRESS_PACE.free):
        while wait := attempt(throttle, "ada", "192.0.2.1"):
            clocks.pass_by(wait)
        throttle.succeed("ada", "192.0.2.1")
        attempt(throttle, "eve", "192.0.2.1")
        clocks.pass_by(60)  # the longest wait of an account
    assert attempt(throttle, "ada", "192.0.2.2") == 0
    attempt(throttle, "bob", "192.0.2.1")
    assert attempt(throttle, "carol", "192.0.2.1") > 0


def test_failures_are_forgotten_after_an_hour(throttle: Throttle, clocks: Time):
    for _ in range(ACCOUNT_PACE.free + 1):
        attempt(throttle, "ada", "192.0.2.1")
    assert attempt(throttle, "ada", "192.0.2.2") == 1
    clocks.pass_by(ACCOUNT_PACE.forgotten + 1)
    assert play(throttle, clocks, [("ada", "192.0.2.1")] * ACCOUNT_PACE.free) == [0] * ACCOUNT_PACE.free


def test_a_clock_that_jumps_shortens_no_wait(accounts: Accounts, place: Place):
    throttle = Throttle(accounts.clock.steady)
    for _ in range(ACCOUNT_PACE.free + 1):
        attempt(throttle, "ada", "192.0.2.1")
    for jump in (10 * 365 * 86_400, -20 * 365 * 86_400):
        place.time.jump(jump)
        assert attempt(throttle, "ada", "192.0.2.1") == 1
    place.time.steady -= 100
    assert attempt(throttle, "ada", "192.0.2.1") == 1


def test_attempts_at_once_share_no_free_try(throttle: Throttle):
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda one: attempt(throttle, "ada", f"192.0.2.{one}"), range(100)))
    assert waits.count(0) == ACCOUNT_PACE.free + 1


def test_a_flood_of_names_takes_no_memory_and_ends_no_wait(clocks: Time):
    throttle = Throttle(lambda: clocks.steady, size=1 << 10)
    for _ in range(12):
        while wait := attempt(throttle, "ada", "192.0.2.1"):
            clocks.pass_by(wait)
    before = size(throttle)
    for number in range(5000):
        attempt(throttle, f"name{number}", f"2001:db8:{number:x}::1")
    assert attempt(throttle, "ada", "192.0.2.2") > 0
    assert size(throttle) == before


def size(throttle: Throttle) -> int:
    """Return how many bytes the object takes on its way to another process."""
    return len(pickle.dumps((vars(throttle._accounts), vars(throttle._addresses))))


def test_a_throttled_login_is_refused_even_with_the_right_password(
    sessions: Sessions, accounts: Accounts, place: Place
):
    accounts.set_password("ada", PASSWORD)
    logins = Logins(sessions, accounts)
    for _ in range(ACCOUNT_PACE.free + 1):
        with pytest.raises(NotAuthenticated):
            logins.log_in("ada", "a wrong password", address="192.0.2.1")
    with pytest.raises(Throttled) as caught:
        logins.log_in("ada", PASSWORD, address="192.0.2.1")
    assert (caught.value.http_status, caught.value.retry_after) == (429, 1)
    place.time.pass_by(1)
    assert logins.log_in("ada", PASSWORD, address="192.0.2.1").identity == ADA
