"""Login by OpenID Connect, against a certified provider in a process of its own, on loopback."""

import asyncio
import base64
import hmac
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from dodona.errors import InvalidArgument
from dodona.server.accounts import AccountExists, Accounts, Identity
from dodona.server.oidc import (
    LoginFailed,
    LoginStart,
    NoAccount,
    Provider,
    ProviderSettings,
    ProviderUnavailable,
    tie_login,
)
from dodona.server.sessions import Sessions
from tests.house.shares import examples
from tests.house.tree import ROOT
from tests.server.accounts.provider import CLIENT, REDIRECT, SECRET
from tests.server.accounts.scene import Time

TLS = ssl.create_default_context()  # once: it takes a tenth of a second
ADA = {"email": "Ada@example.org", "email_verified": True}


@pytest.fixture(scope="session")
def issuer() -> Iterator[str]:
    """The address of a provider that ends with the tests."""
    command = [sys.executable, "-m", "tests.server.accounts.provider"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def clocks() -> Time:
    """The time of the provider, which has the real one."""
    return Time(wall=time.time())


@pytest.fixture
def accounts(tmp_path: Path, clocks: Time) -> Iterator[Accounts]:
    with Accounts.create(tmp_path / "accounts.db", clock=clocks.clock()) as store:
        store.add("ada", email="ada@example.org")
        yield store


class Browser:
    """A person at a browser, and the server whose page they use."""

    def __init__(self, issuer: str, accounts: Accounts, client: httpx.AsyncClient, **settings: Any) -> None:  # noqa: ANN401  any of them
        self.issuer, self.client = issuer, client
        chosen = {"issuer": issuer, "client_id": CLIENT, "client_secret": SECRET, "redirect_uri": REDIRECT} | settings
        self.provider = Provider(ProviderSettings(**chosen), accounts, client=client)

    async def known(self, user: str, **claims: object) -> None:
        """Set who they are, as the provider knows them."""
        response = await self.client.post(f"{self.issuer}/test", json={"user": user, "claims": claims})
        assert response.status_code == 200

    async def agree(self, start: LoginStart) -> dict[str, str]:
        """Go to the provider, and return the query of the callback."""
        response = await self.client.get(start.url)
        assert response.status_code == 302, response.text
        assert response.headers["location"].startswith(REDIRECT)
        return dict(parse_qsl(urlsplit(response.headers["location"]).query))

    async def log_in(self) -> Identity:
        start = await self.provider.begin()
        return await self.provider.finish(await self.agree(start), cookie=start.cookie)


Play = Callable[[Callable[[Browser], Awaitable[None]]], None]


@pytest.fixture
def play(issuer: str, accounts: Accounts) -> Callable[..., None]:
    """Run a scene with a browser, under settings of the provider."""

    def run(scene: Callable[[Browser], Awaitable[None]], **settings: Any) -> None:  # noqa: ANN401  any of them
        async def whole() -> None:
            async with httpx.AsyncClient(trust_env=False, verify=TLS) as client:
                await scene(Browser(issuer, accounts, client, **settings))

        asyncio.run(whole())

    return run


def test_a_login_finds_the_account_of_a_verified_address_and_begins_a_session(play: Play, accounts: Accounts):
    accounts.grant("ada", "hospital", "analyst")

    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        assert await browser.log_in() == Identity("ada", {"hospital": "analyst"})

    play(scene)
    assert accounts.account("ada").has_login
    sessions = Sessions(accounts)
    assert sessions.authenticate(sessions.begin("ada").text) == Identity("ada", {"hospital": "analyst"})


def test_an_account_stays_with_its_first_subject_whoever_gets_the_address(play: Play):
    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        await browser.log_in()
        await browser.known("ada", email="ada@elsewhere.example", email_verified=True)
        assert (await browser.log_in()).account == "ada"
        await browser.known("mallory", **ADA)
        with pytest.raises(NoAccount):
            await browser.log_in()

    play(scene)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"email": "ada@example.org"},
        {"email": "ada@example.org", "email_verified": False},
        {"email": "ada@example.org", "email_verified": "true"},
        {"email": "bob@example.org", "email_verified": True},
    ],
)
def test_an_address_that_is_not_verified_or_not_known_opens_nothing(
    play: Play, accounts: Accounts, claims: dict[str, object]
):
    async def scene(browser: Browser) -> None:
        await browser.known("eve", **claims)
        with pytest.raises(NoAccount):
            await browser.log_in()

    play(scene)
    assert not accounts.account("ada").has_login


def test_a_stopped_account_is_out_by_subject_and_by_address(play: Play, accounts: Accounts):
    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        accounts.stop("ada")
        with pytest.raises(NoAccount):
            await browser.log_in()
        accounts.resume("ada")
        await browser.log_in()
        accounts.stop("ada")
        with pytest.raises(NoAccount):
            await browser.log_in()

    play(scene)


def test_an_owner_may_tie_an_account_to_a_subject(play: Play, accounts: Accounts, issuer: str):
    accounts.add("bob")

    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        await browser.log_in()
        rows = accounts.store.read("SELECT issuer, subject FROM dodona_accounts WHERE name = 'ada'")
        assert rows[0][0] == issuer
        with pytest.raises(AccountExists):
            tie_login(accounts, "bob", issuer=issuer, subject=rows[0][1])
        accounts.store.write(lambda run: run("UPDATE dodona_accounts SET issuer = NULL, subject = NULL", ()))
        tie_login(accounts, "bob", issuer=issuer, subject=rows[0][1])
        assert (await browser.log_in()).account == "bob"

    play(scene)


def test_only_the_browser_that_began_a_login_completes_it(play: Play):
    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        mine, other = await browser.provider.begin(), await browser.provider.begin()
        query = await browser.agree(mine)
        for cookie in (None, "", "short", other.cookie, mine.cookie.swapcase()):
            with pytest.raises(LoginFailed, match="begun"):
                await browser.provider.finish(query, cookie=cookie)
        changes = [
            {"state": ""},
            {"state": "x" * 43},
            {"code": ""},
            {"error": "denied"},
            {"iss": "https://evil.example"},
        ]
        for change in changes:
            with pytest.raises(LoginFailed):
                await browser.provider.finish(query | change, cookie=mine.cookie)
        with pytest.raises(LoginFailed):
            await browser.provider.finish({}, cookie=mine.cookie)
        assert (await browser.provider.finish(query, cookie=mine.cookie)).account == "ada"

    play(scene)


def test_a_code_works_once_and_only_with_the_verifier_of_its_login(play: Play):
    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        start = await browser.provider.begin()
        code = (await browser.agree(start))["code"]
        with pytest.raises(LoginFailed, match="did not accept its code"):
            await browser.provider._exchange(code, "a" * 43)
        start = await browser.provider.begin()
        query = await browser.agree(start)
        await browser.provider.finish(query, cookie=start.cookie)
        with pytest.raises(LoginFailed, match="did not accept its code"):
            await browser.provider.finish(query, cookie=start.cookie)

    play(scene)


def test_groups_give_roles_until_the_next_login_and_an_owners_grant_comes_first(play: Play, accounts: Accounts):
    accounts.grant("ada", "school", "auditor")
    roles = {"doctors": {"hospital": "analyst", "school": "owner"}, "staff": {"hospital": "auditor", "town": "auditor"}}

    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA, groups=["staff", "doctors", "others", 7])
        first = await browser.log_in()
        assert first.grants == {"hospital": "analyst", "school": "auditor", "town": "auditor"}
        await browser.known("ada", **ADA, groups="staff")
        assert (await browser.log_in()).grants == {"hospital": "auditor", "school": "auditor", "town": "auditor"}
        await browser.known("ada", **ADA)
        assert (await browser.log_in()).grants == {"school": "auditor"}

    play(scene, roles=roles)


def test_new_keys_of_the_provider_are_noticed_but_not_fetched_for_every_stranger(play: Play, clocks: Time):
    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        await browser.log_in()
        keys = browser.provider._keys
        await browser.client.post(f"{browser.issuer}/test", json={"rotate": True})
        with pytest.raises(LoginFailed, match="does not verify"):  # just fetched
            await browser.log_in()
        assert browser.provider._keys is keys
        clocks.pass_by(11)
        assert (await browser.log_in()).account == "ada"
        assert browser.provider._keys is not keys

    play(scene)


@pytest.mark.parametrize(("seconds", "accepted"), [(0, True), (350, True), (370, False), (-50, True), (-90, False)])
def test_clocks_may_differ_a_little(play: Play, clocks: Time, seconds: int, *, accepted: bool):
    """The provider's statement holds for 300 seconds; 60 are allowed on both sides."""

    async def scene(browser: Browser) -> None:
        await browser.known("ada", **ADA)
        start = await browser.provider.begin()
        query = await browser.agree(start)
        clocks.pass_by(seconds)
        if accepted:
            assert (await browser.provider.finish(query, cookie=start.cookie)).account == "ada"
        else:
            with pytest.raises(LoginFailed, match="does not verify"):
                await browser.provider.finish(query, cookie=start.cookie)

    play(scene)


# --- What an attacker between us and the provider, or a provider gone bad, could send. ---


class Between(httpx.AsyncHTTPTransport):
    """Passes requests on, and changes the body of the responses of one path."""

    def __init__(self, path: str, change: Callable[[bytes], httpx.Response]) -> None:
        super().__init__(verify=TLS)
        self._path, self._change = path, change

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.url.path != self._path:
            return response
        return self._change(await response.aread())


def attacked(issuer: str, accounts: Accounts, path: str, change: Callable[[bytes], httpx.Response]) -> None:
    """Log in while somebody changes the responses of a path."""

    async def whole() -> None:
        async with httpx.AsyncClient(trust_env=False, verify=TLS) as honest:
            await Browser(issuer, accounts, honest).known("ada", **ADA)
        async with httpx.AsyncClient(trust_env=False, transport=Between(path, change)) as client:
            await Browser(issuer, accounts, client).log_in()

    asyncio.run(whole())


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def reading(token: str) -> dict[str, Any]:
    """Return the claims of a token, unchecked."""
    return dict(json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "===")))


def public_key(issuer: str) -> dict[str, Any]:
    keys = httpx.get(f"{issuer}/jwks", trust_env=False, verify=TLS).json()["keys"]
    return dict(next(key for key in keys if key["kty"] == "RSA"))


def unsigned(issuer: str, claims: dict[str, Any]) -> str:
    header = {"alg": "none", "kid": public_key(issuer)["kid"]}
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}."


def signed_by_the_public_key(issuer: str, claims: dict[str, Any]) -> str:
    key = public_key(issuer)
    header = {"alg": "HS256", "kid": key["kid"]}
    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{text}.{encoded(hmac.digest(RSAKey.import_key(key).as_pem(private=False), text.encode(), 'sha256'))}"


def signed_by_another_key(issuer: str, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": public_key(issuer)["kid"]}, claims, RSAKey.generate_key(2048))


def signed_by_the_client_secret(issuer: str, claims: dict[str, Any]) -> str:
    del issuer
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])


def cut_short(issuer: str, claims: dict[str, Any]) -> str:
    return signed_by_another_key(issuer, claims)[:-8]


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
@pytest.mark.parametrize(
    "forge", [unsigned, signed_by_the_public_key, signed_by_another_key, signed_by_the_client_secret, cut_short]
)
def test_a_statement_that_the_provider_did_not_sign_is_refused(
    issuer: str, accounts: Accounts, forge: Callable[[str, dict[str, Any]], str]
):
    def change(body: bytes) -> httpx.Response:
        document = json.loads(body)
        return httpx.Response(200, json=document | {"id_token": forge(issuer, reading(document["id_token"]))})

    with pytest.raises(LoginFailed, match="does not verify"):
        attacked(issuer, accounts, "/token", change)
    assert not accounts.account("ada").has_login


@pytest.mark.parametrize(
    "change",
    [
        {"aud": "another client"},
        {"aud": ["another client"]},
        {"aud": [CLIENT, "another client"]},
        {"aud": [CLIENT, "another client"], "azp": "another client"},
        {"azp": "another client"},
        {"iss": "https://another.example"},
        {"nonce": "of another login"},
        {"nonce": None},
        {"nonce": 7},
        {"sub": None},
        {"sub": 7},
        {"exp": None},
        {"exp": 0},
        {"exp": "tomorrow"},
        {"exp": float("nan")},
        {"iat": None},
        {"iat": 4e9},
        {"nbf": 4e9},
    ],
    ids=str,
)
def test_a_statement_for_another_party_time_or_login_is_refused(
    issuer: str, accounts: Accounts, change: dict[str, object]
):
    """The forger has the provider's keys here: what is signed is wrong."""
    keys = RSAKey.generate_key(2048, {"kid": "forged", "use": "sig", "alg": "RS256"})

    async def whole(*, wrong: bool) -> None:
        def forge(body: bytes) -> httpx.Response:
            document = json.loads(body)
            claims = reading(document["id_token"]) | (change if wrong else {})
            claims = {name: value for name, value in claims.items() if value is not None}
            return httpx.Response(
                200, json=document | {"id_token": jwt.encode({"alg": "RS256", "kid": "forged"}, claims, keys)}
            )

        async with httpx.AsyncClient(trust_env=False, transport=Between("/token", forge)) as client:
            browser = Browser(issuer, accounts, client)
            await browser.known("ada", **ADA)
            await browser.provider._fetch_keys()
            assert browser.provider._keys is not None
            browser.provider._keys.keys.append(keys)
            await browser.log_in()

    with pytest.raises(LoginFailed):
        asyncio.run(whole(wrong=True))
    assert not accounts.account("ada").has_login
    asyncio.run(whole(wrong=False))  # only that was wrong
    assert accounts.account("ada").has_login


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, content=b" " * (1 << 21)),
        httpx.Response(302, headers={"Location": "http://127.0.0.1:9/"}),
        httpx.Response(500),
    ],
    ids=["html", "list", "bytes", "deep", "huge", "redirect", "error"],
)
def test_a_provider_that_does_not_answer_as_one_is_unavailable(
    issuer: str, accounts: Accounts, path: str, response: httpx.Response
):
    with pytest.raises(ProviderUnavailable):
        attacked(issuer, accounts, path, lambda _: httpx.Response(response.status_code, content=response.content))


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://another.example"},
        {"token_endpoint": "http://another.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
def test_a_description_of_another_provider_is_refused(issuer: str, accounts: Accounts, change: dict[str, object]):
    with pytest.raises(ProviderUnavailable):
        attacked(
            issuer,
            accounts,
            "/.well-known/openid-configuration",
            lambda body: httpx.Response(200, json=json.loads(body) | change),
        )


def test_a_provider_that_is_away_is_unavailable(accounts: Accounts):
    async def whole() -> None:
        async with httpx.AsyncClient(trust_env=False, verify=TLS) as client:
            await Browser("http://127.0.0.1:9", accounts, client).provider.begin()

    with pytest.raises(ProviderUnavailable):
        asyncio.run(whole())


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://provider.example"},
        {"issuer": "ftp://provider.example"},
        {"issuer": "https://"},
        {"issuer": "http://[::1"},
        {"redirect_uri": "http://dodona.example/login/callback"},
        {"roles": {"doctors": {"hospital": "god"}}},
        {"scopes": ("email",)},
    ],
    ids=str,
)
def test_settings_that_others_could_read_along_are_refused(wrong: dict[str, Any]):
    right = {"issuer": "https://provider.example", "client_id": "x", "client_secret": SECRET, "redirect_uri": REDIRECT}
    assert SECRET not in repr(ProviderSettings(**right))
    with pytest.raises(InvalidArgument):
        ProviderSettings(**(right | wrong))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(["iss", "sub", "aud", "azp", "exp", "iat", "nbf", "nonce", "jti", "email", "groups"])
HEADERS = st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "enc"])
GARBAGE = st.text(max_size=60) | st.lists(st.binary(max_size=40).map(encoded), max_size=5).map(".".join)


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "known"})


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    claims=st.dictionaries(NAMES, JSON, max_size=6),
    header=st.dictionaries(HEADERS, JSON | st.sampled_from(["RS256", "HS256", "none", "ES256", "known"]), max_size=4),
    garbage=st.none() | GARBAGE,
)
def test_whatever_comes_in_place_of_a_statement_is_refused_in_words(
    accounts: Accounts, key: RSAKey, claims: dict[str, object], header: dict[str, object], garbage: str | None
):
    """100 statements: of random text, of random headers that nobody signed, and of random claims that are signed."""

    async def whole() -> None:
        async with httpx.AsyncClient(trust_env=False, verify=TLS) as client:
            provider = Browser("http://127.0.0.1:9", accounts, client).provider
            provider._keys, provider._keys_at = KeySet([key]), accounts.clock.steady()
            unsigned = (json.dumps(header).encode(), json.dumps(claims).encode(), b"signature")
            signed = jwt.encode({"alg": "RS256", "kid": "known"}, dict(claims), key)
            for token in (".".join(map(encoded, unsigned)), signed, garbage):
                if token is not None:
                    with pytest.raises(LoginFailed):
                        await provider._verify(token, nonce="the nonce")

    asyncio.run(whole())
