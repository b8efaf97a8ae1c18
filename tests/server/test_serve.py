"""`dodona serve`: what it refuses to do, what it starts again, how it stops, TLS, and the demonstration."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import dodona
from dodona.errors import DodonaError, InvalidRequest
from dodona.server.places import StateFolder, Users
from dodona.server.serve import Address, ServeSettings
from tests.server.scene import make_dataset
from tests.server.serving import API, Running, serving, wait_until

ANSWERS = "/datasets/stays/answers"


@pytest.fixture
def folder(tmp_path) -> Path:
    make_dataset(tmp_path, "stays")
    return tmp_path


def ask(server: Running, key: str, question: str = "SELECT count(*) FROM stays") -> httpx.Response:
    with server.client() as ada:
        return ada.post(ANSWERS, json={"question": question, "within": 40}, headers={"Idempotency-Key": key})


def test_a_front_and_a_core_that_are_killed_are_started_again_and_nothing_is_charged_twice(folder):
    with serving(folder) as server:
        first = ask(server, "before")
        assert first.status_code == 200
        for part in ("analysts", "core"):
            before = server.parts()
            os.kill(before[part], signal.SIGKILL)
            # It waits in the socket of the supervisor or in the link of the front; where that is too long it is a 503.
            wait_until(lambda: ask(server, "before").status_code != 503)
            assert ask(server, "before").json()["rows"] == first.json()["rows"]
            assert server.parts()[part] != before[part]
        with server.client("grace") as owner:
            assert owner.get("/datasets/stays/history").json()["total"] == 1
        assert [line["part"] for line in server.lines("restart")] == ["front", "core"]


def test_a_stop_finishes_what_was_begun_and_leaves_no_process(folder):
    body = json.dumps({"question": "SELECT sex, avg(age) FROM stays GROUP BY sex", "within": 10}).encode()
    with serving(folder) as server:
        parts = server.parts()
        address = httpx.URL(server.analysts)
        with socket.create_connection((address.host, address.port), timeout=60) as connection:
            head = f"POST {API}{ANSWERS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['ada']}\r\n"
            head += f"Idempotency-Key: last\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body[:10])
            while "dodona_requests_running 1.0" not in httpx.get(server.operations + "/metrics").text:
                time.sleep(0.02)
            server.process.send_signal(signal.SIGTERM)
            while not server.lines("stopping"):
                time.sleep(0.02)
            # From the moment on at which the listening socket is closed, nobody is let in.
            wait_until(lambda: not _lets_in(server.analysts))
            connection.sendall(body[10:])
            reply = b""
            while received := connection.recv(65536):
                reply += received
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(timeout=60) == 0
        assert not any(Path(f"/proc/{number}").exists() for number in parts.values())


def _lets_in(address):
    try:
        httpx.get(address, timeout=1)
    except httpx.HTTPError:
        return False
    return True


def test_all_parts_end_with_a_supervisor_that_is_killed(folder):
    with serving(folder) as server:
        parts = server.parts()
        assert "core" in parts
        server.process.kill()
        wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in parts.values()))


def test_a_part_that_cannot_start_ends_the_server_with_its_name(folder):
    places = StateFolder(folder / ".dodona")
    places.create(Users())
    places.accounts.write_text("this is no database of accounts")
    command = [sys.executable, "-m", "dodona.cli", "serve", str(folder), "--port", "0", "--owners-port", "0"]
    done = subprocess.run(
        [*command, "--operations-port", "0"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 4
    assert "accounts-unreadable" in done.stderr


def certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, secret


def test_tls_by_files_serves_https_alone_and_says_so_to_browsers(folder):
    cert, secret = certificate(folder)
    with serving(folder, ["--tls-cert", str(cert), "--tls-key", str(secret), "--log-texts"]) as server:
        assert server.analysts.startswith("https://")
        address = server.analysts.replace("127.0.0.1", "localhost")
        context = ssl.create_default_context(cafile=str(cert))
        headers = {"Authorization": f"Bearer {server.tokens['ada']}", "Idempotency-Key": "tls"}
        question = "SELECT count(*) FROM stays WHERE age < 30"
        body = {"question": question, "within": 40}
        reply = httpx.post(f"{address}{API}{ANSWERS}", json=body, headers=headers, verify=context, timeout=60)
        assert reply.status_code == 200
        assert reply.headers["strict-transport-security"].startswith("max-age=")
        with pytest.raises(httpx.HTTPError):
            httpx.get(address.replace("https://", "http://"))
        texts = [line.get("questions") for line in server.lines("request") if line["act"] == "ask"]
        assert texts == [[question]]  # the owner turned texts on


@pytest.mark.parametrize(
    ("changed", "about"),
    [
        ({"analysts": Address("0.0.0.0", 0)}, "--host"),  # noqa: S104  refused
        ({"analysts": Address("192.0.2.1", 0)}, "--host"),
        ({"analysts": Address("::", 0)}, "--host"),
        ({"owners": Address("stays.example", 0)}, "--owners-host"),
        ({"tls_cert": Path("cert.pem")}, "--tls-key"),
        ({"tls_cert": Path("missing"), "tls_key": Path("missing")}, "--tls-cert"),
        ({"folder": Path("missing")}, "FOLDER"),
        ({"users": Users(core="root")}, "--front-user"),
        ({"state": Path("/" + "x" * 110)}, "--state"),
    ],
)
def test_settings_that_would_send_tokens_in_plain_text_or_cannot_work_are_refused(tmp_path, changed, about):
    with pytest.raises(InvalidRequest, match=about):
        ServeSettings(**({"folder": tmp_path, "state": tmp_path} | changed))


def test_the_cores_limits_come_from_a_file_and_mistakes_in_it_are_refused(tmp_path):
    file = tmp_path / "limits.txt"
    file.write_text("paid_workers = 2\nquantum = 0.1\nfree_seconds = 5\n[quanta]\nstays = 0.2\n")
    settings = ServeSettings(tmp_path, tmp_path, limits=file)
    limits = json.loads(settings.core())["limits"]
    assert limits == {
        "paid_workers": 2,
        "quantum": 0.1,
        "free_seconds": 5,
        "quanta": {"stays": 0.2},
        "socket_mode": 0o600,
    }
    for mistake in ("workers = 2", "paid_workers = 1.5", "quantum = true", "socket_mode = 511", "peers = [0]", "="):
        file.write_text(mistake)
        with pytest.raises(InvalidRequest, match="paid_workers"):
            settings.core()


def test_a_proxy_in_front_may_end_tls(tmp_path):
    settings = ServeSettings(tmp_path, tmp_path, analysts=Address("0.0.0.0", 0), behind_proxy=True)  # noqa: S104
    assert settings.front("analysts", fd=3, operations_fd=None).proxy_address == "127.0.0.1"


def test_a_port_in_use_and_a_missing_user_are_errors_with_an_exit_code(folder):
    with serving(folder) as server:
        port = httpx.URL(server.analysts).port
        command = [sys.executable, "-m", "dodona.cli", "serve", str(folder), "--state", str(folder / "other")]
        done = subprocess.run([*command, "--port", str(port)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    with pytest.raises(DodonaError, match="nobody-here"):
        StateFolder(folder / "users").create(Users("nobody-here", "nobody-here"))


def runs_for_others(python: str, environment: dict[str, str]) -> bool:
    """Return whether another user may run this Python with the product in it."""
    command = [python, "-c", "import dodona"]
    try:
        return subprocess.run(command, user="nobody", env=environment, check=False).returncode == 0
    except OSError:
        return False


def python_for_others(folder: Path) -> tuple[str, dict[str, str]]:
    """Return a Python that other users may run, and its environment: one in a home folder is linked into a folder."""
    environment = dict(os.environ)
    if runs_for_others(sys.executable, environment):
        return sys.executable, environment
    base, paths = Path(sys.base_prefix), sysconfig.get_paths()
    library = Path(paths["stdlib"])

    def put(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # on another disk
            shutil.copy2(source, target)

    leave = shutil.ignore_patterns("site-packages", "test", "__pycache__", "idlelib", "config-*")
    shutil.copytree(library, folder / library.relative_to(base), copy_function=put, ignore=leave)
    (folder / "bin").mkdir()
    executable = folder / "bin" / Path(sys._base_executable).resolve().name  # type: ignore[attr-defined]
    put(str(Path(sys._base_executable).resolve()), str(executable))  # type: ignore[attr-defined]
    for shared in (base / "lib").glob("libpython*"):
        put(str(shared.resolve()), str(folder / "lib" / shared.name))
    packages = os.pathsep.join([str(Path(dodona.__file__).parents[1]), paths["purelib"]])
    environment |= {
        "PYTHONHOME": str(folder), "PYTHONPATH": packages, "LD_LIBRARY_PATH": str(folder / "lib"),
    }  # fmt: skip
    return str(executable), environment


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
def test_core_and_front_run_as_users_who_cannot_read_each_others_files():
    with tempfile.TemporaryDirectory() as scratch:  # pytest's own folders are for the user who started it alone
        Path(scratch).chmod(0o755)
        serve_as_two_users(Path(scratch))


def serve_as_two_users(tmp_path: Path) -> None:
    python, environment = python_for_others(tmp_path / "python")
    assert runs_for_others(python, environment), "other users must be able to read this checkout and its packages"
    data = tmp_path / "data"
    make_dataset(data, "stays")
    core, front = "daemon", "nobody"
    subprocess.run(["/bin/chown", "-R", core, str(data)], check=True)
    users = ["--core-user", core, "--front-user", front]
    with serving(data, users, python=python, environment=environment) as server:
        assert ask(server, "users").status_code == 200
        uids = {name: Path(f"/proc/{number}").stat().st_uid for name, number in server.parts().items()}
        places = StateFolder(data / ".dodona")
        assert uids["core"] != uids["analysts"] != 0
        assert places.core.stat().st_uid == uids["core"]
        assert places.core.stat().st_mode & 0o077 == 0o010  # others may not even list it
        assert places.accounts.stat().st_uid == uids["analysts"]
        for user, path in ((front, data / "stays.ledger"), (front, places.core), (core, places.accounts)):
            looked = subprocess.run(["/bin/cat", str(path)], user=user, capture_output=True, check=False)
            assert b"Permission denied" in looked.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
def test_parts_run_alone_as_users_of_one_group_who_may_not_list_the_state_folder():
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        serve_as_units_do(Path(scratch))


def serve_as_units_do(tmp_path: Path) -> None:
    python, environment = python_for_others(tmp_path / "python")
    data, state, port, operations = tmp_path / "data", tmp_path / "state", free_port(), free_port()
    make_dataset(data, "stays")
    state.mkdir()
    subprocess.run(["/bin/chown", "-R", "daemon:nogroup", str(data), str(state)], check=True)
    data.chmod(0o700)
    state.chmod(0o711)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/", "env": environment}
    quiet |= {"group": "nogroup", "extra_groups": [], "umask": 0o007}
    command = [python, "-m", "dodona.cli", "serve", "--state", str(state), "--only"]
    started = [subprocess.Popen([*command, "core", "--share-group", str(data)], user="daemon", **quiet)]  # type: ignore[call-overload]
    try:
        places = StateFolder(state)
        wait_until(places.analysts_socket.is_socket)
        options = ("--port", str(port), "--operations-port", str(operations), "--behind-proxy", "/")
        started.append(subprocess.Popen([*command, "front", *options], user="nobody", **quiet))  # type: ignore[call-overload]
        wait_until(lambda: is_ready(f"http://127.0.0.1:{operations}"))
        assert stat.S_IMODE(places.accounts.stat().st_mode) == 0o660
    finally:
        for process in started:
            process.terminate()
        assert [process.wait(timeout=60) for process in started] == [0] * len(started)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ready").status_code == 200
    except httpx.HTTPError:
        return False


def test_each_part_runs_alone_for_a_service_manager(folder):
    places, port, operations = StateFolder(folder / ".dodona"), free_port(), free_port()
    options = ("--port", str(port), "--operations-port", str(operations), "--share-group", "--behind-proxy")
    command = [sys.executable, "-m", "dodona.cli", "serve", str(folder), *options, "--only"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    core = subprocess.Popen([*command, "core"], **quiet)  # type: ignore[call-overload]
    started = [core]
    try:
        wait_until(places.analysts_socket.is_socket)  # as units do, fronts come after the core
        started.append(subprocess.Popen([*command, "front"], **quiet))  # type: ignore[call-overload]
        wait_until(lambda: is_ready(f"http://127.0.0.1:{operations}"))
        for path in (places.analysts_socket, places.owners_socket):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660  # as --share-group says
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o710
        assert stat.S_IMODE(places.core.stat().st_mode) == 0o700
        assert stat.S_IMODE(places.accounts.stat().st_mode) == 0o660
        plain = httpx.get(f"http://127.0.0.1:{port}/")
        proxied = httpx.get(f"http://127.0.0.1:{port}/", headers={"X-Forwarded-Proto": "https"})
        assert "strict-transport-security" not in plain.headers
        assert "strict-transport-security" in proxied.headers  # the proxy said that it ended TLS
    finally:
        for process in started:
            process.terminate()
        assert [process.wait(timeout=30) for process in started] == [0, 0]


def test_the_demonstration_is_one_command_to_a_page_and_an_answer():
    tmp_path = Path(tempfile.mkdtemp())  # pytest's own are too long for the paths of sockets
    command = [sys.executable, "-m", "dodona.cli", "serve", "--demo", "--port", "0", "--owners-port", "0"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*command, "--operations-port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            text = ""
            assert process.stdout is not None
            while "Press Ctrl+C" not in text:
                line = process.stdout.readline()
                assert line
                text += line
            link = re.search(r" at (http\S+)", text)
            tokens = dict(re.findall(r"^  (\w+)\s+(dodona_\w+)$", text, re.MULTILINE))
            assert link is not None
            assert set(tokens) == {"ada", "ben", "iris", "grace"}
            assert "<title>Dodona</title>" in httpx.get(link[1]).text
            headers = {"Authorization": f"Bearer {tokens['ada']}", "Idempotency-Key": "first"}
            body = {"question": "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis"}
            reply = httpx.post(
                f"{link[1]}{API}/datasets/hospital-stays/answers", json=body, headers=headers, timeout=60
            )
            assert reply.status_code == 200
            assert len(reply.json()["rows"]) == 12
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
    tmp_path.rmdir()  # it is empty again


def test_a_front_loads_no_engine_no_ledger_and_no_noise():
    code = """
import json, sys
from dodona.server import front
from dodona.server.app import make_application
make_application("analysts"), make_application("owners")
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "dodona.server.accounts" in loaded
    outside = {"numpy", "duckdb", "scipy", "pyarrow", "sqlglot", "psycopg", "pandas", "polars"}
    ours = {
        f"dodona.{name}" for name in ("ledger", "engines", "trusted", "curator", "dataset", "sql", "privacy", "synth")
    }
    assert {name for name in loaded if name.partition(".")[0] in outside} == set()
    assert {name for name in loaded if ".".join(name.split(".")[:2]) in ours} == set()


def test_a_server_without_accounts_says_how_to_add_one_and_lets_it_in(folder: Path):
    command = [sys.executable, "-m", "dodona.cli"]
    ports = ["--port", "0", "--owners-port", "0", "--operations-port", "0"]
    with subprocess.Popen([*command, "serve", str(folder), *ports], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while "Press Ctrl+C" not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1]
            shown = [shlex.split(line)[1:] for line in lines if line.startswith("  dodona ")]
            assert [words[:2] for words in shown] == [["account", "add"], ["account", "token"]]
            for words in shown:
                named = ["grace" if word == "NAME" else word for word in words]
                done = subprocess.run([*command, *named], check=True, stdout=subprocess.PIPE, text=True)
            headers = {"Authorization": f"Bearer {done.stdout.strip()}"}
            link = re.search(r" at (http\S+)", lines[0])
            assert link is not None
            listed = httpx.get(f"{link[1]}{API}/datasets", headers=headers, timeout=60)
            assert [dataset["dataset"] for dataset in listed.json()["datasets"]] == ["stays"]
        finally:
            process.terminate()
            assert process.wait(timeout=60) == 0


def test_no_part_dumps_core(folder):
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        with serving(folder, ["--sql", "0"]) as server:
            wait_until(lambda: {"analysts", "core", "owners", "sql"} <= server.parts().keys())
            numbers = tuple(server.parts().values())
            wait_until(lambda: {resource.prlimit(number, resource.RLIMIT_CORE) for number in numbers} == {(0, 0)})
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_a_flood_of_connections_keeps_operators_and_connected_clients_served(folder):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 256  # the limit of processes that do not ask for more
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        with serving(folder) as server, ExitStack() as flood:
            resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
            connected = flood.enter_context(server.client())
            assert connected.get("/me").status_code == 200
            address = httpx.URL(server.analysts)
            for _ in range(few + 100):
                flood.enter_context(socket.create_connection((address.host, address.port)))
            assert httpx.get(f"{server.operations}/ready").status_code == 200
            assert connected.get("/me").status_code == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
