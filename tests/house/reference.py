"""The pages of reference that are written by the code itself: commands with their options, errors, HTTP addresses.

To write them anew, after a command or an error was added:

    .venv/bin/python -m tests.house.reference
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

import dodona
from dodona.cli.main import app
from dodona.errors import DodonaError
from tests.house.tree import ROOT

Command = TyperCommand | TyperGroup
COMMANDS = ROOT / "docs" / "commands.md"
ERRORS = ROOT / "docs" / "errors.md"
HTTP_API = ROOT / "docs" / "http-api.md"
_COMMANDS = """\
# Commands

Every command and every option; `dodona COMMAND --help` prints the same. The exit code is 0 for success, 2 for a mistake
that you can fix, 3 if the policy refuses, 4 if the failure is on our side, and 70 for a bug: see [errors](errors.md). A
test keeps this page in step with the code.
"""
_ERRORS = """\
# Errors

An error says what is wrong, what to write instead, and whether anything was charged. Its text is a function of public
facts alone. The command line prints it as `code: message`, with the exit code of its family; servers send the HTTP
status, and the SQL door the SQLSTATE. A test keeps this page in step with the code.
"""


_HTTP_API = """\
# HTTP API

Every address of a server, below `/api/v1`. A running server describes them too, at `/api/v1/openapi.json`. Send a token
as `Authorization: Bearer TOKEN`. An address marked *key* spends: it needs the header `Idempotency-Key`, 1 to 200
printable characters, and a repetition under the same key is charged once. With the header `Dodona-Max-Day: 5%` it is
refused if it would leave more than this share of the budget spent by the caller on a day (UTC), in whatever way.
Addresses marked *owners* exist on the owners' port alone.

An error is `application/problem+json` with `type` (`/errors/` and a code of the [list of errors](errors.md)), `title`,
`status`, `detail` and `charged`: true if a charge stands, false if not, and null where nobody can say at the moment;
then ask again with the same key. A refusal of what costs too much has `alternatives`, as an offer has: a list of
what the call could write instead, each an argument with its value, such as `{"within": "5%", "price": "1.2%"}`. A body
is JSON of at most 1 MiB and 32 levels, and a question has at most 65,536 characters. Answers come as JSON, `text/csv`
or `application/vnd.apache.arrow.stream`, as the header `Accept` asks. This page is held to the code by a test.
"""


def commands() -> str:
    """The page of commands."""
    return "\n".join([_COMMANDS, *(_command(name, command) for name, command in listed())])


def listed() -> Iterator[tuple[str, Command]]:
    """Every command that does something, by its full name."""
    yield from _below("dodona", cast("Command", typer.main.get_command(app)))


def errors() -> str:
    """The page of errors."""
    for module in pkgutil.walk_packages(dodona.__path__, "dodona."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return "\n".join([_ERRORS, *(_family(family) for family in DodonaError.__subclasses__() if _ours(family))])


def http_api() -> str:
    """The page of HTTP addresses."""
    from dodona.server.app import make_application
    from dodona.server.describing import describe

    document, analysts = (describe(make_application(door)) for door in ("owners", "analysts"))
    schemas = document["components"]["schemas"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            owners = method not in analysts["paths"].get(path, {})
            tag = "logging in" if operation["tags"] == ["open"] else operation["tags"][0]
            shown = f"{method.upper()} {path.removeprefix('/api/v1')}"
            groups.setdefault(tag, []).append(_address(shown, operation, schemas, owners=owners))
    listed = sorted(groups.items(), key=lambda group: _GROUPS.index(group[0]))
    return "\n".join([_HTTP_API, *(f"## {tag.capitalize()}\n\n" + "\n".join(entries) for tag, entries in listed)])


_GROUPS = (
    "datasets",
    "asking",
    "watches",
    "releases",
    "approvals",
    "saved",
    "me",
    "logging in",
    "owner",
    "drafts",
    "accounts",
)


def _address(shown: str, operation: dict[str, Any], schemas: dict[str, Any], *, owners: bool) -> str:
    parameters = operation.get("parameters", [])
    marks = ["*owners*"] if owners else []
    marks += ["*key*"] if any(parameter["name"] == "Idempotency-Key" for parameter in parameters) else []
    lines = [
        f"### `{shown}`\n",
        f"{' '.join(operation['description'].split())}{' ' if marks else ''}{', '.join(marks)}\n",
    ]
    rows = [
        (parameter["name"], parameter.get("description", "")) for parameter in parameters if parameter["in"] == "query"
    ]
    if "requestBody" in operation:
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        schema = schemas[name]
        needed = set(schema.get("required", ()))
        rows += [
            (field, f"{facts.get('description', '')}{' Required.' if field in needed else ''}".strip())
            for field, facts in schema["properties"].items()
        ]
        lines.append(f"```json\n{json.dumps(schema['examples'][0], ensure_ascii=False)}\n```\n")
    if rows:
        lines += ["| | |\n|---|---|", *(f"| `{left}` | {_cell(right)} |" for left, right in rows), ""]
    kinds = [
        f"{status}: {', '.join(f'`{kind}`' for kind in reply['content']) if reply.get('content') else 'no body'}"
        for status, reply in operation["responses"].items()
        if int(status) < 400
    ]
    return "\n".join([*lines, f"Replies {'; '.join(kinds)}.\n"])


def _below(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    if isinstance(command, TyperGroup):
        if name == "dodona":
            yield name, command
        context = typer.Context(command)
        for inner in command.list_commands(context):
            yield from _below(f"{name} {inner}", cast("Command", command.get_command(context, inner)))
    else:
        yield name, command


def _command(name: str, command: Command) -> str:
    arguments = [parameter for parameter in command.params if isinstance(parameter, TyperArgument)]
    options = [parameter for parameter in command.params if isinstance(parameter, TyperOption)]
    words = " ".join([name, *(str(argument.metavar or argument.name) for argument in arguments)])
    lines = [f"## `{name}`\n", f"```text\n{words}{' [OPTIONS]' if options else ''}\n```\n", f"{_help(command)}\n"]
    rows = [
        (str(argument.metavar or argument.name), str(getattr(argument, "help", None) or "")) for argument in arguments
    ]
    rows += [(_option(option), f"{option.help or ''}{_default(option)}") for option in options]
    lines += ["| | |\n|---|---|", *(f"| `{left}` | {_cell(right)} |" for left, right in rows)] if rows else []
    return "\n".join(lines) + "\n"


def _option(option: TyperOption) -> str:
    return ", ".join([*option.opts, *option.secondary_opts])


def _default(option: TyperOption) -> str:
    if option.required:
        return " Required."
    plain = option.default is None or isinstance(option.default, bool) or callable(option.default)
    return "" if plain or option.multiple else f" Default: `{getattr(option.default, 'value', option.default)}`."


def _help(command: Command) -> str:
    return " ".join((command.help or "").split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _family(family: type[DodonaError]) -> str:
    kinds = [family, *sorted(_kinds(family), key=lambda kind: kind.code)]
    rows = (
        f"| `{kind.code}` | {kind.exit_code} | {kind.http_status} | `{kind.sqlstate}` | {_first(kind)} |"
        for kind in kinds
    )
    table = ["| code | exit | HTTP | SQLSTATE | meaning |", "|---|---|---|---|---|", *rows]
    return "\n".join([f"## {family.__name__}\n", *table]) + "\n"


def _kinds(family: type[DodonaError]) -> set[type[DodonaError]]:
    kinds = {kind for kind in family.__subclasses__() if _ours(kind)}
    return kinds.union(*map(_kinds, kinds))


def _ours(kind: type[DodonaError]) -> bool:
    return kind.__module__.startswith("dodona.")


def _first(kind: type[DodonaError]) -> str:
    return _cell((kind.__doc__ or "").partition("\n\n")[0])


if __name__ == "__main__":
    COMMANDS.write_text(commands(), encoding="utf-8")
    ERRORS.write_text(errors(), encoding="utf-8")
    HTTP_API.write_text(http_api(), encoding="utf-8")
