"""What accounts promise, wherever they are kept."""

from datetime import UTC, datetime, timedelta

import pytest
from argon2 import PasswordHasher

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.server.account_store import (
    STEPS,
    AccountsMissing,
    AccountsUnavailable,
    AccountsUnreadable,
    create_store,
    open_store,
)
from dodona.server.accounts import (
    MOST_TOKENS,
    AccountExists,
    AccountMissing,
    Accounts,
    AccountStopped,
    Identity,
    TokenMissing,
    TooManyTokens,
)
from dodona.server.identity import RoleMissing
from dodona.server.secrets import PREFIX, PasswordRefused, new_token
from tests.server.accounts.scene import START, Place

PASSWORD = "correct horse battery"  # noqa: S105  of a test


def test_opening_never_creates_and_creating_keeps_what_is_there(place: Place):
    with pytest.raises(AccountsMissing):
        place.open()
    with place.create() as first:
        first.add("ada")
    with place.create() as again:
        assert [account.name for account in again.list()] == ["ada"]
    with place.open() as again:
        assert [account.name for account in again.list()] == ["ada"]


def test_a_token_says_whose_it_is_and_what_it_is_for(accounts: Accounts):
    token = accounts.create_token("ada", "laptop", datasets=["hospital", "school"], max_price="1%")
    assert accounts.authenticate_token(token.text) == Identity(
        "ada", {"hospital": "analyst"}, token.info.id, frozenset({"hospital", "school"}), "1%"
    )


def test_only_the_whole_right_token_is_accepted(accounts: Accounts):
    text = accounts.create_token("ada", "laptop").text
    wrong = [
        "",
        PREFIX,
        text[:-1],
        text + "0",
        text.swapcase(),
        text.upper(),
        f" {text}",
        f"{text}\n",
        new_token().text,
    ]
    wrong += ["x" * 10**6, "\udcff", "\0", text.replace(PREFIX, "dodonA_")]
    for place, letter in enumerate(text):
        wrong.append(f"{text[:place]}{'a' if letter != 'a' else 'b'}{text[place + 1 :]}")
    assert [identity for identity in map(accounts.authenticate_token, wrong) if identity is not None] == []
    assert accounts.authenticate_token(text) is not None


def test_a_token_is_compared_in_full_and_not_by_its_id(accounts: Accounts):
    token = accounts.create_token("ada", "laptop")
    digest = token.info.id + "0" * (64 - len(token.info.id))
    accounts.act(lambda run: run("UPDATE dodona_tokens SET digest = ?", (digest,)))
    assert accounts.authenticate_token(token.text) is None


def test_a_token_expires(accounts: Accounts, place: Place):
    token = accounts.create_token("ada", "laptop", lifetime=timedelta(days=1))
    for_ever = accounts.create_token("ada", "server", lifetime=None)
    assert token.info.expires == datetime.fromtimestamp(START, UTC) + timedelta(days=1)
    place.time.pass_by(86_399)
    assert accounts.authenticate_token(token.text) is not None
    place.time.pass_by(1)
    assert accounts.authenticate_token(token.text) is None
    assert accounts.authenticate_token(for_ever.text) is not None
    assert [token_id for token_id, _ in accounts.verifiers("ada")] == [for_ever.info.id]


@pytest.mark.parametrize("act", ["revoke", "stop", "withdraw"])
def test_another_process_notices_a_change_at_once_or_within_a_second(accounts: Accounts, place: Place, act: str):
    token = accounts.create_token("ada", "laptop")
    with place.open() as server:
        assert server.authenticate_token(token.text) is not None
        match act:
            case "revoke":
                accounts.revoke("ada", token.info.id)
            case "stop":
                accounts.stop("ada")
            case "withdraw":
                accounts.withdraw("ada", "hospital")
        place.time.pass_by(place.delay)
        expected = Identity("ada", {}, token.info.id) if act == "withdraw" else None
        assert server.authenticate_token(token.text) == expected
        assert accounts.authenticate_token(token.text) == expected


def test_a_role_holds_for_its_dataset_and_a_named_one_before_every(accounts: Accounts):
    accounts.grant("ada", "*", "auditor")
    accounts.grant("ada", "school", "owner")
    accounts.grant("ada", "school", "analyst")
    identity = accounts.identify("ada")
    assert identity is not None
    assert [identity.role(name) for name in ("hospital", "school", "other")] == ["analyst", "analyst", "auditor"]
    assert identity.require("other", "owner", "auditor") == "auditor"
    with pytest.raises(RoleMissing, match="role owner or analyst"):
        identity.require("other", "owner", "analyst")
    assert not identity.manages_accounts
    with pytest.raises(InvalidArgument, match="role"):
        accounts.grant("ada", "school", "god")


def test_the_scope_of_a_token_narrows_what_the_account_may(accounts: Accounts):
    accounts.grant("ada", "*", "owner")
    narrow = accounts.authenticate_token(accounts.create_token("ada", "narrow", datasets=["school"]).text)
    wide = accounts.authenticate_token(accounts.create_token("ada", "wide").text)
    person = accounts.identify("ada")
    assert narrow is not None
    assert wide is not None
    assert person is not None
    assert [identity.role("hospital") for identity in (narrow, wide, person)] == [None, "analyst", "analyst"]
    assert [identity.role("school") for identity in (narrow, wide, person)] == ["owner", "owner", "owner"]
    assert [identity.manages_accounts for identity in (narrow, wide, person)] == [False, True, True]
    assert [identity.may_issue_tokens for identity in (narrow, wide, person)] == [False, True, True]
    nothing = accounts.authenticate_token(accounts.create_token("ada", "nothing", datasets=[]).text)
    assert nothing is not None
    assert nothing.role("school") is None


def test_an_analyst_makes_tokens_on_the_page_and_a_token_makes_none(accounts: Accounts):
    token = accounts.authenticate_token(accounts.create_token("ada", "laptop").text)
    person = accounts.identify("ada")
    assert token is not None
    assert person is not None
    assert (token.may_issue_tokens, person.may_issue_tokens) == (False, True)


def test_a_stopped_account_is_out_and_comes_back_without_its_secrets(accounts: Accounts):
    accounts.set_password("ada", PASSWORD)
    token = accounts.create_token("ada", "laptop")
    accounts.stop("ada")
    assert accounts.authenticate_password("ada", PASSWORD) is None
    assert accounts.identify("ada") is None
    assert accounts.verifiers("ada") == ()
    for act in (
        lambda: accounts.grant("ada", "hospital", "owner"),
        lambda: accounts.create_token("ada", "new"),
        lambda: accounts.set_password("ada", PASSWORD),
    ):
        with pytest.raises(AccountStopped):
            act()
    with pytest.raises(AccountExists):
        accounts.add("ada")
    accounts.resume("ada")
    assert accounts.authenticate_token(token.text) is None
    assert accounts.authenticate_password("ada", PASSWORD) is None
    assert accounts.identify("ada") == Identity("ada", {"hospital": "analyst"})


def test_names_and_addresses_are_taken_once_in_whatever_case(accounts: Accounts):
    for again in ("ada", "Ada", "ADA"):
        with pytest.raises(AccountExists):
            accounts.add(again)
    with pytest.raises(AccountExists):
        accounts.add("bob", email="ADA@example.org")
    accounts.add("Bob", email=None)
    accounts.add("eve", email=None)
    assert accounts.account("bOB").name == "Bob"
    for wrong in ("", " ada", "a b", "a/b", "-ada", "ada\n", "a" * 101, "ädä", "ada\u200b", "*"):
        with pytest.raises(InvalidArgument, match="name"):
            accounts.add(wrong)
    for unknown in ("nobody", "ädä", ""):
        with pytest.raises(AccountMissing):
            accounts.account(unknown)


def test_an_account_is_added_with_its_roles_and_its_password_or_not_at_all(accounts: Accounts):
    for wrong in (
        {"grants": {"hospital": "analyst", "school": "headmaster"}},
        {"grants": {"hospital": "analyst", "": "auditor"}},
        {"grants": {"hospital": "analyst"}, "password": "zoe.ann.smith"},
        {"grants": {"hospital": "analyst"}, "password": "short"},
    ):
        with pytest.raises(InvalidRequest):
            accounts.add("Zoe.Ann.Smith", **wrong)
        with pytest.raises(AccountMissing):
            accounts.account("Zoe.Ann.Smith")
    added = accounts.add("Zoe.Ann.Smith", grants={"hospital": "analyst", "*": "auditor"}, password=PASSWORD)
    assert (added.grants, added.has_password) == ({"hospital": "analyst", "*": "auditor"}, True)
    assert accounts.authenticate_password("zoe.ann.smith", PASSWORD) is not None


def test_the_right_password_is_accepted_and_no_other(accounts: Accounts):
    assert accounts.authenticate_password("ada", PASSWORD) is None
    accounts.set_password("ada", PASSWORD)
    assert accounts.authenticate_password("Ada", PASSWORD) == Identity("ada", {"hospital": "analyst"})
    for name, password in (("ada", f"{PASSWORD} "), ("ada", ""), ("bob", PASSWORD), ("", ""), ("ada", "\udcff")):
        assert accounts.authenticate_password(name, password) is None
    with pytest.raises(PasswordRefused):
        accounts.set_password("ada", "short")
    assert accounts.authenticate_password("ada", PASSWORD) is not None


def test_a_password_of_an_older_cost_is_hashed_anew_at_the_next_login(accounts: Accounts):
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    accounts.set_password("ada", PASSWORD)
    accounts.act(lambda run: run("UPDATE dodona_accounts SET password = ?", (cheap,)))
    assert accounts.authenticate_password("ada", "a wrong password") is None
    assert accounts.store.read("SELECT password FROM dodona_accounts") == [(cheap,)]
    assert accounts.authenticate_password("ada", PASSWORD) is not None
    ((stored,),) = accounts.store.read("SELECT password FROM dodona_accounts")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert accounts.authenticate_password("ada", PASSWORD) is not None


def test_only_a_token_of_the_account_is_revoked(accounts: Accounts):
    accounts.add("bob")
    token = accounts.create_token("ada", "laptop")
    for account, name in (("bob", token.info.id), ("ada", "0" * 12), ("ada", "")):
        with pytest.raises(TokenMissing):
            accounts.revoke(account, name)
    assert accounts.authenticate_token(token.text) is not None
    accounts.revoke("ada", token.info.id)
    with pytest.raises(TokenMissing):
        accounts.revoke("ada", token.info.id)
    assert accounts.tokens("ada")[0].ended is not None


def test_the_last_use_is_written_at_most_once_a_minute(accounts: Accounts, place: Place):
    token = accounts.create_token("ada", "laptop")
    assert token.info.last_use is None
    seen = set()
    for _ in range(12):
        accounts.authenticate_token(token.text)
        accounts.flush()
        seen.add(accounts.tokens("ada")[0].last_use)
        place.time.pass_by(10)
    start = datetime.fromtimestamp(START, UTC)
    assert seen == {start, start + timedelta(seconds=60)}
    with place.open() as other:  # knows nothing of the first, and asks ten seconds after its last note
        place.time.pass_by(-10)
        other.authenticate_token(token.text)
        other.flush()
        assert other.tokens("ada")[0].last_use == start + timedelta(seconds=60)


def test_an_account_has_a_bounded_number_of_tokens(accounts: Accounts, place: Place):
    for _ in range(MOST_TOKENS - 1):
        accounts.create_token("ada", "one of many", lifetime=timedelta(days=2))
    accounts.create_token("ada", "short", lifetime=timedelta(days=1))
    with pytest.raises(TooManyTokens):
        accounts.create_token("ada", "one too many")
    place.time.pass_by(86_400)
    accounts.create_token("ada", "in place of the one that expired")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "two\nlines"},
        {"max_price": "0"},
        {"max_price": "2"},
        {"max_price": "-1%"},
        {"max_price": "much"},
        {"lifetime": timedelta(0)},
        {"lifetime": timedelta(days=-1)},
        {"lifetime": timedelta(days=40_000)},
        {"datasets": [""]},
        {"datasets": ["a\0b"]},
    ],
)
def test_a_token_with_a_senseless_scope_is_not_made(accounts: Accounts, wrong: dict[str, object]):
    arguments = {"name": "laptop"} | wrong
    with pytest.raises(InvalidArgument):
        accounts.create_token("ada", str(arguments.pop("name")), **arguments)  # type: ignore[arg-type]
    assert accounts.tokens("ada") == ()


def test_a_clock_that_jumps_while_a_server_runs_grants_and_destroys_nothing(accounts: Accounts, place: Place):
    token = accounts.create_token("ada", "laptop", lifetime=timedelta(days=1))
    place.time.jump(10 * 365 * 86_400)
    assert accounts.authenticate_token(token.text) is None  # one clock says that it has expired
    place.time.jump(-10 * 365 * 86_400)
    assert accounts.authenticate_token(token.text) is not None
    place.time.jump(-10 * 365 * 86_400)
    place.time.pass_by(86_400)
    assert accounts.authenticate_token(token.text) is None


def test_a_clock_that_is_set_back_does_not_revive_what_a_server_saw_expire(accounts: Accounts, place: Place):
    token = accounts.create_token("ada", "laptop", lifetime=timedelta(days=1))
    place.time.pass_by(2 * 86_400)
    place.open().close()
    place.time.jump(-2 * 86_400)
    with place.open() as again:
        assert again.authenticate_token(token.text) is None
        assert again.tokens("ada")[0].ended is not None


def test_an_older_schema_is_brought_up_to_date_and_a_newer_one_is_left_alone(place: Place):
    with place.create() as accounts:
        accounts.add("ada")
    further = ("ALTER TABLE dodona_accounts ADD COLUMN nickname TEXT", "UPDATE dodona_accounts SET nickname = 'x'")
    store = open_store(place.address, steps=(*STEPS, further))
    assert store.read("SELECT name, nickname FROM dodona_accounts") == [("ada", "x")]
    store.close()
    open_store(place.address, steps=(*STEPS, further)).close()  # a step is taken once
    for old in (open_store, create_store):
        with pytest.raises(AccountsUnreadable, match="newer version"):
            old(place.address)


def test_a_step_that_fails_leaves_the_schema_as_it_was(place: Place):
    place.create().close()
    broken = ("ALTER TABLE dodona_accounts ADD COLUMN nickname TEXT", "UPDATE nowhere SET nickname = 'x'")
    with pytest.raises(AccountsUnavailable):
        open_store(place.address, steps=(*STEPS, broken))
    store = open_store(place.address)
    with pytest.raises(AccountsUnavailable):
        store.read("SELECT nickname FROM dodona_accounts")
    assert store.read("SELECT version FROM dodona_accounts_state") == [(len(STEPS),)]
    store.close()
