"""One server with an SQL door for all tests of the door: made-up stays, TLS with a certificate of its own, accounts."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import polars as pl
import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import dodona
from tests.server.serving import API, Running, serving

ROWS = 3000
FIRST_DAY = dt.date(2024, 1, 1)
TABLE = "stays"


def make_stays(folder: Path, name: str = "stays", *, rows: int = ROWS, epsilon: str = "100") -> pl.DataFrame:
    """Write a dataset file with columns of every kind, its rows and its ledger; return the rows."""
    draw = np.random.default_rng(7)
    frame = pl.DataFrame(
        {
            "sex": draw.choice(["female", "male"], rows, p=[0.6, 0.4]),
            "ward": draw.choice(["surgery", "medicine", "children"], rows),
            "age": draw.integers(0, 100, rows),
            "stay": draw.integers(0, 120, rows) / 4,
            "admitted": [FIRST_DAY + dt.timedelta(int(day)) for day in draw.integers(0, 366, rows)],
            "urgent": draw.integers(0, 2, rows).astype(bool),
            "patient": draw.integers(0, rows, rows),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / f"{name}.parquet")
    (folder / f"{name}.toml").write_text(
        f"""format = 1
dataset = "{name}"
[source]
kind = "parquet"
path = "{name}.parquet"
table = "{TABLE}"
[unit]
protects = "person"
id = "patient"
rows = 8
size = {rows}
neighbours = "add-remove"
[budget]
epsilon = "{epsilon}"
delta = "1e-6"
accountant = "renyi"
[ledger]
path = "{name}.ledger"
[defaults]
within = "5%"
max_price = "20%"
[[analysts]]
name = "ada"
[[analysts]]
name = "bob"
[columns.sex]
kind = "category"
labels = ["female", "male"]
[columns.ward]
kind = "category"
labels = ["surgery", "medicine", "children"]
otherwise = "medicine"
[columns.age]
kind = "integer"
lower = 0
upper = 110
bins = [0, 18, 40, 65, 110]
[columns.stay]
kind = "number"
lower = "0"
upper = "30"
step = "0.25"
[columns.admitted]
kind = "date"
lower = {FIRST_DAY}
upper = {FIRST_DAY + dt.timedelta(365)}
bins = "month"
[columns.urgent]
kind = "boolean"
"""
    )
    dodona.create_ledger(folder / f"{name}.toml")
    return frame


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for this machine that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return paths


@dataclass(frozen=True)
class OpenDoor:
    """A door that takes connections, and the truth behind it."""

    server: Running
    frame: pl.DataFrame
    certificate: Path | None
    notices: dict[int, list[str]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        port = urlsplit(self.server.sql).port
        assert port is not None
        return port

    def address(self, name: str = "ada", **options: str) -> str:
        """Return the address of the door for a person, as libpq reads it."""
        options = {"sslmode": "require" if self.certificate else "disable"} | options
        words = {"host": "localhost", "hostaddr": "127.0.0.1", "port": str(self.port), "user": name, "dbname": "stays",
                 "password": self.server.tokens[name]} | options  # fmt: skip
        return " ".join(f"{key}='{value}'" for key, value in words.items())

    def url(self, name: str = "ada", *, scheme: str = "postgresql", query: str = "") -> str:
        """Return the address as a URL."""
        return f"{scheme}://{name}:{self.server.tokens[name]}@localhost:{self.port}/stays{query}"

    def connect(self, name: str = "ada", *, autocommit: bool = True, **options: str) -> psycopg.Connection[Any]:
        """Return a connection, which gathers its notices in `notices`."""
        connection = psycopg.connect(self.address(name, **options), autocommit=autocommit)
        heard = self.notices[id(connection)] = []
        connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        return connection

    def heard(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return the notices of a connection since the last time."""
        notices, self.notices[id(connection)][:] = list(self.notices[id(connection)]), []
        return notices

    def charges(self) -> int:
        """Return how many charges the ledger has, by HTTP: what the door says about itself proves nothing."""
        headers = {"Authorization": f"Bearer {self.server.tokens['grace']}"}
        trusted = ssl.create_default_context(cafile=self.certificate) if self.certificate else True
        address = f"{self.server.analysts}{API}/datasets/stays/budget".replace("127.0.0.1", "localhost")
        reply = httpx.get(address, headers=headers, verify=trusted, timeout=60)
        return int(reply.raise_for_status().json()["charges"])


@contextmanager
def opened_door(folder: Path, *options: str, tls: bool = True) -> Iterator[OpenDoor]:
    """Serve made-up stays behind an SQL door."""
    frame = make_stays(folder)
    certificate, key = make_certificate(folder) if tls else (None, None)
    secured = ["--tls-cert", str(certificate), "--tls-key", str(key)] if tls else []
    with serving(folder, ["--sql", "0", *secured, *options]) as server:
        yield OpenDoor(server, frame, certificate)


def find_sidecar(server: Running) -> tuple[int, Path]:
    """Return the process of the sidecar, and the folder of its socket."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            words = (path.parent / "cmdline").read_text().split("\0")
        except OSError:
            continue
        folders = [word.partition("=")[2] for word in words if word.startswith("--unix_socket_directories=")]
        if parent == server.process.pid and folders:
            return int(path.parent.name), Path(folders[0])
    raise AssertionError("there is no sidecar")
