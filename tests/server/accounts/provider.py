"""An OpenID Connect provider in a process of its own: idpyoidc, a certified implementation, behind a plain HTTP server.

    python -m tests.server.accounts.provider

prints its address, and serves until its input ends. `POST /test` with a JSON object sets who is at the browser and
what is known of them, or makes new keys: the parts of a provider that belong to people.
"""

import json
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from cryptojwt.key_jar import build_keyjar
from idpyoidc.server import Server
from idpyoidc.server.configure import OPConfiguration
from idpyoidc.server.oauth2.add_on.pkce import CC_METHOD
from idpyoidc.server.user_info import UserInfo

CLIENT, SECRET = "dodona", "a secret of sixteen letters or more"
REDIRECT = "http://127.0.0.1:9/login/callback"
KEYS = [{"type": "RSA", "use": ["sig"]}, {"type": "EC", "crv": "P-256", "use": ["sig"]}]


def build(issuer: str) -> Server:
    """Return a provider with one client, which must use PKCE."""
    endpoint = {
        "provider_config": {
            "path": ".well-known/openid-configuration",
            "class": "idpyoidc.server.oidc.provider_config.ProviderConfiguration",
            "kwargs": {},
        },
        "authorization": {
            "path": "authorization",
            "class": "idpyoidc.server.oidc.authorization.Authorization",
            "kwargs": {"response_types_supported": ["code"]},
        },
        "token": {
            "path": "token",
            "class": "idpyoidc.server.oidc.token.Token",
            "kwargs": {"client_authn_method": ["client_secret_basic", "client_secret_post"]},
        },
    }
    settings = {
        "issuer": issuer,
        "endpoint": endpoint,
        "key_conf": {"key_defs": KEYS, "uri_path": "jwks"},
        "token_handler_args": {
            "code": {"lifetime": 60, "kwargs": {"crypt_conf": crypt()}},
            "token": {"class": "idpyoidc.server.token.jwt_token.JWTToken", "kwargs": {"lifetime": 600}},
            "id_token": {
                "class": "idpyoidc.server.token.id_token.IDToken",
                "kwargs": {
                    "base_claims": {"email": None, "email_verified": None, "groups": None},
                },
            },
        },
        "authentication": {
            "anon": {"acr": "none", "class": "idpyoidc.server.user_authn.user.NoAuthn", "kwargs": {"user": "ada"}}
        },
        "userinfo": {"class": UserInfo, "kwargs": {"db": {}}},
        "add_on": {
            "pkce": {
                "function": "idpyoidc.server.oauth2.add_on.pkce.add_support",
                "kwargs": {"essential": True, "code_challenge_methods": {"S256": CC_METHOD["S256"]}},
            }
        },
        "session_params": {"encrypter": crypt()},
        "cookie_handler": None,
    }
    server = Server(OPConfiguration(settings, base_path="."))
    server.context.cdb[CLIENT] = {
        "client_id": CLIENT,
        "client_secret": SECRET,
        "redirect_uris": [(REDIRECT, {})],
        "response_types_supported": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "allowed_scopes": ["openid", "email"],
    }
    server.keyjar.add_symmetric(CLIENT, SECRET)
    return server


def crypt() -> dict[str, object]:
    """Return the settings of the provider's own encryption."""
    return {
        "kwargs": {
            "keys": {
                "key_defs": [
                    {"type": "OCT", "use": ["enc"], "kid": "password"},
                    {"type": "OCT", "use": ["enc"], "kid": "salt"},
                ]
            },
            "iterations": 1,
        }
    }


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the provider, one at a time."""

    lock = threading.Lock()

    def __init__(self, holder: dict[str, Server], *arguments: Any) -> None:  # noqa: ANN401  of the base class
        self.holder = holder
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._answer("")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, body: str) -> None:
        server, path = self.holder["server"], urlsplit(self.path)
        with self.lock:
            match path.path:
                case "/test":
                    self._send(200, set_up(server, **json.loads(body)))
                case "/jwks":
                    self._send(200, server.keyjar.export_jwks_as_json())
                case "/.well-known/openid-configuration":
                    self._run("provider_config", {})
                case "/authorization":
                    self._run("authorization", path.query)
                case "/token":
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    self._run("token", body, http_info={"headers": headers, "method": "POST"})
                case _:
                    self._send(404, "{}")

    def _run(self, name: str, request: object, **facts: object) -> None:
        endpoint = self.holder["server"].get_endpoint(name)
        parsed = endpoint.parse_request(request, **facts)
        done = parsed if "error" in parsed else endpoint.process_request(parsed, **facts)
        if "error" in done:
            said = {key: done[key] for key in ("error", "error_description") if key in done}
            self._send(400, json.dumps(said))
            return
        info = endpoint.do_response(request=parsed, **done)
        if name == "authorization":
            self._send(302, "", ("Location", info["response"]))
        else:
            self._send(200, info["response"])

    def _send(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(content))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def set_up(
    server: Server, *, user: str | None = None, claims: dict[str, object] | None = None, rotate: bool = False
) -> str:
    """Set who is at the browser and what is known of them; replace all keys."""
    if user is not None:
        server.context.authn_broker.get_method_by_id("anon").user = user
        server.context.userinfo.db[user] = claims or {}
    if rotate:
        fresh = build_keyjar(KEYS).export_jwks(private=True)
        for owner in {"", server.issuer} & set(server.keyjar.owners()):
            del server.keyjar[owner]
            server.keyjar.import_jwks(fresh, owner)
    return "{}"


if __name__ == "__main__":
    holder: dict[str, Server] = {}
    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, holder))
    issuer = f"http://127.0.0.1:{web.server_port}"
    holder["server"] = build(issuer)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    print(issuer, flush=True)  # noqa: T201  to whoever started it
    sys.stdin.read()
