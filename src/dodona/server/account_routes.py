"""Accounts, roles and tokens over HTTP: everyone's own on both doors, those of others on the owners' door."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from dodona.server import models
from dodona.server.accounts import Account, Accounts, IssuedToken, TokenInfo
from dodona.server.describing import Dataset, Identifier, Person, replies
from dodona.server.identity import Identity, NotAuthenticated, RoleMissing
from dodona.server.problems import TokenForbidden
from dodona.server.relay import note_of

me = APIRouter(tags=["me"])
everyone = APIRouter(tags=["accounts"])
Result = TypeVar("Result")

_TOKEN = {"id": "4b1f0c93a2d7", "name": "notebook", "expires": "2027-02-15T00:00:00+00:00", "max_price": "1%"}
_ACCOUNT = {"name": "ada", "grants": {"hospital-stays": "analyst"}, "stopped": None}


def _who(request: Request, act: str) -> Identity:
    identity: Identity | None = note_of(request, act).identity
    if identity is None:
        raise NotAuthenticated
    return identity


def _manager(request: Request, act: str) -> Identity:
    """Return the caller, who must own every dataset: accounts belong to the whole server."""
    identity = _who(request, act)
    if not identity.manages_accounts:
        raise RoleMissing("owner of all datasets")
    return identity


async def _do(request: Request, work: Callable[[Accounts], Result]) -> Result:
    """Read or write the accounts, without holding up other requests."""
    accounts: Accounts = request.app.state.accounts
    return await asyncio.to_thread(work, accounts)


# --- The caller's own. ---


@me.get("/me", responses=replies({"account": "ada", "grants": {"hospital-stays": "analyst"}}))
async def show_me(request: Request) -> Response:
    """Show who the caller is, and in which roles."""
    identity = _who(request, "me")
    shown = {
        "account": identity.account,
        "grants": dict(identity.grants),
        "token": identity.token,
        "datasets": None if identity.datasets is None else sorted(identity.datasets),
        "max_price": identity.max_price,
    }
    return JSONResponse(shown)


@me.get("/me/tokens", responses=replies({"tokens": [_TOKEN]}))
async def my_tokens(request: Request) -> Response:
    """List the caller's tokens."""
    name = _who(request, "my_tokens").account
    return JSONResponse(
        {"tokens": [token_to_json(token) for token in await _do(request, lambda accounts: accounts.tokens(name))]}
    )


@me.post("/me/tokens", status_code=201, responses=replies(_TOKEN | {"token": "dodona_…"}, status=201))
async def make_my_token(request: Request, body: models.TokenBody) -> Response:
    """Make a token for the caller; its text is in this reply alone. A token makes no further tokens: log in first."""
    identity = _who(request, "make_my_token")
    if not identity.may_issue_tokens:
        raise TokenForbidden
    return _issued(await _do(request, lambda accounts: _make_token(accounts, identity.account, body)))


@me.delete("/me/tokens/{identifier}", status_code=204, responses=replies(None, status=204))
async def revoke_my_token(request: Request, identifier: Identifier) -> Response:
    """Revoke one of the caller's tokens. It is refused a second later."""
    name = _who(request, "revoke_my_token").account
    await _do(request, lambda accounts: accounts.revoke(name, identifier))
    return Response(status_code=204)


# --- Those of others. ---


@everyone.get("/accounts", responses=replies({"accounts": [_ACCOUNT]}))
async def accounts(request: Request) -> Response:
    """List all accounts. For owners of all datasets."""
    _manager(request, "accounts")
    return JSONResponse(
        {"accounts": [account_to_json(account) for account in await _do(request, lambda accounts: accounts.list())]}
    )


@everyone.post("/accounts", status_code=201, responses=replies(_ACCOUNT, status=201))
async def add_account(request: Request, body: models.AccountBody) -> Response:
    """Add an account, with roles and a password if they are given. For owners of all datasets."""
    _manager(request, "add_account")

    def work(accounts: Accounts) -> Account:
        return accounts.add(body.name, email=body.email, grants=body.grants, password=body.password)

    return JSONResponse(account_to_json(await _do(request, work)), 201)


@everyone.delete("/accounts/{name}", status_code=204, responses=replies(None, status=204))
async def stop_account(request: Request, name: Person) -> Response:
    """Stop an account: its tokens, sessions and password end. For owners of all datasets."""
    _manager(request, "stop_account")
    await _do(request, lambda accounts: accounts.stop(name))
    return Response(status_code=204)


@everyone.put("/accounts/{name}/grants/{dataset}", responses=replies(_ACCOUNT))
async def grant(request: Request, name: Person, dataset: Dataset, body: models.GrantBody) -> Response:
    """Give an account a role for a dataset. For the dataset's owners."""
    _who(request, "grant").require(dataset, "owner")

    def work(accounts: Accounts) -> Account:
        accounts.grant(name, dataset, body.role)
        return accounts.account(name)

    return JSONResponse(account_to_json(await _do(request, work)))


@everyone.delete("/accounts/{name}/grants/{dataset}", status_code=204, responses=replies(None, status=204))
async def withdraw(request: Request, name: Person, dataset: Dataset) -> Response:
    """Remove the role for a dataset. For the dataset's owners."""
    _who(request, "withdraw").require(dataset, "owner")
    await _do(request, lambda accounts: accounts.withdraw(name, dataset))
    return Response(status_code=204)


@everyone.get("/accounts/{name}/tokens", responses=replies({"tokens": [_TOKEN]}))
async def tokens(request: Request, name: Person) -> Response:
    """List the tokens of an account. For owners of all datasets."""
    _manager(request, "tokens")
    return JSONResponse(
        {"tokens": [token_to_json(token) for token in await _do(request, lambda accounts: accounts.tokens(name))]}
    )


@everyone.post(
    "/accounts/{name}/tokens", status_code=201, responses=replies(_TOKEN | {"token": "dodona_…"}, status=201)
)
async def make_token(request: Request, name: Person, body: models.TokenBody) -> Response:
    """Make a token for an account; its text is in this reply alone. For owners of all datasets."""
    _manager(request, "make_token")
    return _issued(await _do(request, lambda accounts: _make_token(accounts, name, body)))


@everyone.delete("/accounts/{name}/tokens/{identifier}", status_code=204, responses=replies(None, status=204))
async def revoke_token(request: Request, name: Person, identifier: Identifier) -> Response:
    """Revoke a token of an account. For owners of all datasets."""
    _manager(request, "revoke_token")
    await _do(request, lambda accounts: accounts.revoke(name, identifier))
    return Response(status_code=204)


def _make_token(accounts: Accounts, name: str, body: models.TokenBody) -> IssuedToken:
    further = {} if body.days is None else {"lifetime": timedelta(days=body.days)}
    return accounts.create_token(name, body.name, datasets=body.datasets, max_price=body.max_price, **further)


def _issued(token: IssuedToken) -> Response:
    return JSONResponse(token_to_json(token.info) | {"token": token.text}, 201)


def account_to_json(account: Account) -> dict[str, object]:
    """Return an account as JSON."""
    return {
        "name": account.name,
        "grants": dict(account.grants),
        "email": account.email,
        "has_password": account.has_password,
        "has_login": account.has_login,
        "created": account.created.isoformat(),
        "stopped": None if account.stopped is None else account.stopped.isoformat(),
    }


def token_to_json(token: TokenInfo) -> dict[str, object]:
    """Return a token as JSON, without its secret."""
    times = {name: getattr(token, name) for name in ("created", "expires", "last_use", "ended")}
    return {
        "id": token.id,
        "name": token.name,
        "datasets": None if token.datasets is None else sorted(token.datasets),
        "max_price": token.max_price,
    } | {name: None if moment is None else moment.isoformat() for name, moment in times.items()}
