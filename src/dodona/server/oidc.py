"""Login by OpenID Connect: the code flow with PKCE, state and nonce, for accounts that an owner has made.

A login never makes an account. It finds one by the provider's subject or, the first time, by an e-mail address that the
provider has verified; from then on the account belongs to that subject, whoever gets the address later.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dodona.errors import InvalidArgument, Refused, Unavailable
from dodona.server import secrets
from dodona.server.account_store import Execute
from dodona.server.accounts import AccountExists, Accounts
from dodona.server.identity import ROLES, Identity

if TYPE_CHECKING:
    import httpx
    from joserfc.jwk import GuestProtocol, Key, KeySet

LOGIN_SECONDS = 600
"""How long a login may take: the lifetime of its cookie."""
LANDING_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Dodona</title>'
    '<meta http-equiv="refresh" content="0; url=/"></head><body><a href="/">Go on</a></body></html>'
)
"""What follows a login: a redirect would still count as a request of the provider's site, and lose a Strict cookie."""

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
_KEPT = 3600.0
_PAUSE = 10.0
_LARGEST = 1 << 20
_TIMEOUT = 10.0


class LoginFailed(Refused):
    """A login at the OpenID Connect provider was not completed, or what came back does not verify."""

    code = "login-failed"
    http_status = 401
    sqlstate = "28000"

    def __init__(self, reason: str) -> None:
        """State the step that failed; nothing that came with the request is repeated."""
        self.reason = reason
        super().__init__(f"The login was not completed: {reason}. Begin again.")


class NoAccount(Refused):
    """The provider knows the person, but no account belongs to them."""

    code = "no-account"

    def __init__(self) -> None:
        """Say whom to ask."""
        super().__init__(
            "You have logged in, but no account belongs to you. Ask an owner to add one with your e-mail address."
        )


class ProviderUnavailable(Unavailable):
    """The OpenID Connect provider cannot be reached, or does not answer as one."""

    code = "provider-unavailable"
    retry_after = 5

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("The provider of the login does not answer as it should. Try again later, or use a token.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """What an operator sets to let people log in with a provider."""

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    redirect_uri: str
    """The address of `/login/callback` on this server, as the provider knows it."""
    scopes: tuple[str, ...] = ("openid", "email")
    groups_claim: str = "groups"
    roles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Role by dataset, by group. What groups grant is set anew at every login."""
    leeway: int = 60
    """How many seconds the provider's clock may be off."""

    def __post_init__(self) -> None:
        """Refuse addresses that others could read along, and roles that do not exist."""
        for name in ("issuer", "redirect_uri"):
            if not _is_safe(getattr(self, name)):
                raise InvalidArgument(name, getattr(self, name), "write an https address; http only on this machine")
        for role in (role for granted in self.roles.values() for role in granted.values()):
            if role not in ROLES:
                raise InvalidArgument("role", role, f"write {', '.join(ROLES)}")
        if "openid" not in self.scopes:
            raise InvalidArgument("scopes", self.scopes, "include openid")


@dataclass(frozen=True, slots=True)
class LoginStart:
    """Where to send the browser, and the text of its login cookie."""

    url: str
    cookie: str = field(repr=False)


class Provider:
    """An OpenID Connect provider; belongs to one event loop.

    A login leaves nothing on the server. Its state, nonce and PKCE verifier are derived from a random cookie, so only
    the browser that began a login can complete it.
    """

    def __init__(
        self, settings: ProviderSettings, accounts: Accounts, *, client: httpx.AsyncClient | None = None
    ) -> None:
        """Set what to use; nothing is fetched before the first login."""
        import httpx

        self._settings, self._accounts = settings, accounts
        self._client = httpx.AsyncClient(timeout=_TIMEOUT) if client is None else client
        self._metadata: Mapping[str, str] | None = None
        self._keys: KeySet | None = None
        self._read_at = self._keys_at = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def begin(self) -> LoginStart:
        """Begin a login."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        cookie = secrets.new_session_id()
        metadata = await self._discover()
        url: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            self._settings.client_id,
            "code",
            redirect_uri=self._settings.redirect_uri,
            scope=list(self._settings.scopes),
            state=_derive(cookie, "state"),
            nonce=_derive(cookie, "nonce"),
            code_challenge=create_s256_code_challenge(_derive(cookie, "verifier")),
            code_challenge_method="S256",
        )
        return LoginStart(url, cookie)

    async def finish(self, query: Mapping[str, str], *, cookie: str | None) -> Identity:
        """Complete a login with the query of the callback and the browser's login cookie; return whose it is."""
        if cookie is None or not secrets.is_session_id(cookie):
            raise LoginFailed("this browser has not begun one, or took too long")
        if not secrets.equal(query.get("state", ""), _derive(cookie, "state")):
            raise LoginFailed("it was begun elsewhere")
        if query.get("iss", self._settings.issuer) != self._settings.issuer:
            raise LoginFailed("another provider has answered")
        code = query.get("code", "")
        if "error" in query or not code.isascii() or not code.isprintable() or not code:
            raise LoginFailed("the provider has declined it")
        token = await self._exchange(code, _derive(cookie, "verifier"))
        claims = await self._verify(token, nonce=_derive(cookie, "nonce"))
        return await asyncio.to_thread(self._identify, claims)

    # --- The provider's side. ---

    async def _discover(self) -> Mapping[str, str]:
        now = self._accounts.clock.steady()
        if self._metadata is None or now - self._read_at > _KEPT:
            address = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            metadata = await self._fetch("GET", address)
            needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            if metadata.get("issuer") != self._settings.issuer or not all(
                _is_safe(metadata.get(name)) for name in needed
            ):
                raise ProviderUnavailable
            self._metadata, self._read_at = metadata, now
        return self._metadata

    async def _exchange(self, code: str, verifier: str) -> str:
        """Return the ID token for a code, which the provider takes once."""
        from authlib.oauth2.auth import ClientAuth
        from authlib.oauth2.rfc6749.parameters import prepare_token_request

        metadata = await self._discover()
        body = prepare_token_request(
            "authorization_code", redirect_uri=self._settings.redirect_uri, code=code, code_verifier=verifier
        )
        client = ClientAuth(self._settings.client_id, self._settings.client_secret, self._method(metadata))
        address, headers, body = client.prepare(
            "POST", metadata["token_endpoint"], {"Content-Type": "application/x-www-form-urlencoded"}, body
        )
        reply = await self._fetch("POST", address, headers=headers, content=body)
        token = reply.get("id_token")
        if not isinstance(token, str):
            raise LoginFailed("the provider did not accept its code")
        return token

    def _method(self, metadata: Mapping[str, Any]) -> str:
        if self._settings.client_secret is None:
            return "none"
        offered = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return "client_secret_basic" if "client_secret_basic" in offered else "client_secret_post"

    async def _verify(self, token: str, *, nonce: str) -> Mapping[str, Any]:
        """Return the claims of an ID token whose signature, issuer, audience, times and nonce are right."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            claims: dict[str, Any] = (await self._decode(token)).claims
            jwt.JWTClaimsRegistry(
                now=self._accounts.clock.latest(),
                leeway=self._settings.leeway,
                iss={"essential": True, "value": self._settings.issuer},
                sub={"essential": True},
                aud={"essential": True, "value": self._settings.client_id},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True},
            ).validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise LoginFailed("the provider's statement does not verify") from None
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        party = claims.get("azp", None if several else self._settings.client_id)
        if party != self._settings.client_id or not secrets.equal(str(claims["nonce"]), nonce):
            raise LoginFailed("the provider's statement is for another login")
        return claims

    async def _decode(self, token: str) -> Any:  # noqa: ANN401  a token of joserfc, which exports no name for it
        """Check the signature; with a key that is not known, or has changed, by the keys that the provider has now."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        fresh = self._keys is None or self._accounts.clock.steady() - self._keys_at > _KEPT
        keys = await self._fetch_keys() if fresh or self._keys is None else self._keys
        try:
            return jwt.decode(token, lambda header: _find_key(keys, header), algorithms=_ALGORITHMS)
        except JoseError:
            if fresh or self._accounts.clock.steady() - self._keys_at < _PAUSE:  # a stranger must not make us fetch
                raise
            keys = await self._fetch_keys()
            return jwt.decode(token, lambda header: _find_key(keys, header), algorithms=_ALGORITHMS)

    async def _fetch_keys(self) -> KeySet:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        document = await self._fetch("GET", (await self._discover())["jwks_uri"])
        try:
            keys = KeySet.import_key_set(document)  # type: ignore[arg-type]
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderUnavailable from None
        self._keys, self._keys_at = keys, self._accounts.clock.steady()
        return keys

    async def _fetch(self, method: str, address: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401  as httpx
        """Return the JSON object of a response; redirects are not followed. A refusal of a POST is an empty one."""
        import httpx

        try:
            async with self._client.stream(method, address, follow_redirects=False, **request) as response:
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _LARGEST:
                        raise ProviderUnavailable
            if method == "POST" and httpx.codes.is_client_error(response.status_code):
                return {}
            document = json.loads(body) if response.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            raise ProviderUnavailable from None
        if not isinstance(document, dict):
            raise ProviderUnavailable
        return document

    # --- Our side. ---

    def _identify(self, claims: Mapping[str, Any]) -> Identity:
        """Return the identity of the account that belongs to the claims, with the roles of its groups."""
        issuer, subject, email = self._settings.issuer, claims["sub"], claims.get("email")
        verified = email.lower() if isinstance(email, str) and claims.get("email_verified") is True else None
        granted = self._granted(claims)
        accounts: list[str] = []

        def work(run: Execute) -> None:
            account = _find_account(run, issuer, subject, verified)
            run("DELETE FROM dodona_grants WHERE account = ? AND source = 'login'", (account,))
            for dataset, role in granted.items():
                run("INSERT INTO dodona_grants VALUES (?, ?, ?, 'login')", (account, dataset, role))
            accounts.append(account)

        self._accounts.act(work)
        identity = self._accounts.identify(accounts[0])
        if identity is None:
            raise NoAccount
        return identity

    def _granted(self, claims: Mapping[str, Any]) -> Mapping[str, str]:
        """Return role by dataset; of two groups that grant the same dataset, the settings' first one counts."""
        claimed = claims.get(self._settings.groups_claim)
        groups = {claimed} if isinstance(claimed, str) else set(filter(_is_text, claimed or ()))
        granted: dict[str, str] = {}
        for group, roles in self._settings.roles.items():
            if group in groups:
                granted = {**roles, **granted}
        return MappingProxyType(granted)


def tie_login(accounts: Accounts, name: str, *, issuer: str, subject: str) -> None:
    """Let a subject of a provider log in to an account, where the provider does not verify e-mail addresses."""
    account = accounts.account(name).name

    def work(run: Execute) -> None:
        if run("SELECT 1 FROM dodona_accounts WHERE issuer = ? AND subject = ?", (issuer, subject)):
            raise AccountExists(subject)
        run("UPDATE dodona_accounts SET issuer = ?, subject = ? WHERE name = ?", (issuer, subject, account))
        run("DELETE FROM dodona_sessions WHERE account = ?", (account,))

    accounts.act(work)


def _find_account(run: Execute, issuer: str, subject: str, email: str | None) -> str:
    """Return the account of a subject; the first login with a verified address ties the account to the subject."""
    rows = run("SELECT name, stopped FROM dodona_accounts WHERE issuer = ? AND subject = ?", (issuer, subject))
    if not rows and email is not None:
        rows = run("SELECT name, stopped FROM dodona_accounts WHERE email = ? AND subject IS NULL", (email,))
    if not rows or rows[0][1] is not None:
        raise NoAccount
    account: str = rows[0][0]
    run("UPDATE dodona_accounts SET issuer = ?, subject = ? WHERE name = ?", (issuer, subject, account))
    return account


def _find_key(keys: KeySet, header: GuestProtocol) -> Key:
    """Return the key that a token names; one without a name needs a provider with one key."""
    return keys.get_by_kid(header.headers().get("kid"))


def _derive(cookie: str, purpose: str) -> str:
    """Return one of the values of a login: 43 letters, of which none follows from another."""
    value = hmac.digest(cookie.encode("ascii"), f"dodona login {purpose}".encode(), "sha256")
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_safe(address: object) -> bool:
    """Return whether nobody on the way can read or change what goes to an address."""
    try:
        url = urlsplit(address) if isinstance(address, str) else urlsplit("")
    except ValueError:
        return False
    if not url.hostname:
        return False
    return url.scheme == "https" or (url.scheme == "http" and _is_local(url.hostname))


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
