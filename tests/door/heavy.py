"""Clients that take long to install: `make clients`. Each gets a place of its own in build/clients, made once.

R, ODBC, node, dbt and Superset ask at a door as their users would. A step that passed is a line; a client that fails
ends the run with an error. Debian's packages are installed by root alone.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.door.scene import OpenDoor, opened_door
from tests.house.tree import ROOT
from tests.page.scene import CHROMIUM

PLACE = ROOT / "build" / "clients"
SCRIPTS = Path(__file__).parent / "clients"
PICTURE = ROOT / "docs" / "images" / "superset.png"
PACKAGES = {
    "Rscript": ("r-base-core", "r-cran-rpostgresql", "r-cran-dbplyr", "r-cran-dplyr"),
    "odbcinst": ("odbc-postgresql", "unixodbc"),
    "npm": ("nodejs", "npm"),
}
"""Debian's packages, by the program that shows that they are there; node may have come from elsewhere."""
SUPERSET = (
    "apache-superset>=6,<7", "psycopg2-binary", "flask-caching==2.3.1", "cachelib<0.14", "cachetools", "rich",
)  # fmt: skip
_CONFIG = """SECRET_KEY = "made up, for a made-up hospital: 0123456789"
SQLALCHEMY_DATABASE_URI = "sqlite:///{}"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
"""


def run(*command: str | Path, environment: dict[str, str] | None = None, folder: Path = PLACE) -> str:
    """Return what a command prints; raise with all of it if it fails."""
    outside = os.environ | (environment or {})
    done = subprocess.run(list(map(str, command)), cwd=folder, env=outside, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}")
    return done.stdout


def install_packages() -> None:
    """Install what Debian has, if it is missing."""
    missing = [
        package for program, packages in PACKAGES.items() if shutil.which(program) is None for package in packages
    ]
    if not missing:
        return
    if os.geteuid() != 0:
        raise SystemExit(f"Install these packages first: {' '.join(missing)}")
    run("apt-get", "update", "-qq")
    run("apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing)


def environment_of(name: str, *packages: str) -> Path:
    """Return the programs of a Python environment of its own."""
    programs = PLACE / name / "bin"
    if not (PLACE / f"{name}.ready").exists():
        run(sys.executable, "-m", "venv", PLACE / name)
        run(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", programs / "python", *packages)
        (PLACE / f"{name}.ready").touch()
    return programs


def ask_node(door: dict[str, str]) -> str:
    """Let node ask."""
    if not (PLACE / "node" / "node_modules" / "pg").exists():
        (PLACE / "node").mkdir(exist_ok=True)
        run("npm", "install", "--silent", "pg", "postgres", folder=PLACE / "node")
    return run("node", SCRIPTS / "ask.js", environment=door | {"NODE_PATH": str(PLACE / "node" / "node_modules")})


def ask_r(door: dict[str, str]) -> str:
    """Let R ask."""
    return run("Rscript", SCRIPTS / "ask.R", environment=door)


def ask_odbc(door: dict[str, str]) -> str:
    """Let ODBC ask."""
    return run(environment_of("odbc", "pyodbc") / "python", SCRIPTS / "ask_odbc.py", environment=door)


def ask_dbt(door: dict[str, str]) -> str:
    """Let dbt ask: a project with one model, which is shown and never built."""
    programs = environment_of("dbt", "dbt-core<1.10", "dbt-postgres<1.10")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        target = {
            "type": "postgres", "host": "localhost", "port": int(door["PGPORT"]), "user": door["PGUSER"],
            "password": door["PGPASSWORD"], "dbname": door["PGDATABASE"], "schema": "public", "sslmode": "require",
        }  # fmt: skip
        profile = {"ward": {"target": "door", "outputs": {"door": target}}}
        (project / "profiles.yml").write_text(json.dumps(profile))
        facts = {"name": "ward", "version": "1.0", "profile": "ward", "model-paths": ["models"]}
        (project / "dbt_project.yml").write_text(json.dumps(facts))
        (project / "models").mkdir()
        (project / "models" / "wards.sql").write_text(
            "select ward, count(*) as n from stays group by ward order by ward"
        )
        quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
        words = ("--project-dir", project, "--profiles-dir", project)
        said = run(programs / "dbt", "debug", *words, environment=quiet, folder=project)
        assert "All checks passed!" in said, said
        said = run(programs / "dbt", "show", "--select", "wards", *words, environment=quiet, folder=project)
        assert all(ward in said for ward in ("children", "medicine", "surgery")), said
        run(programs / "dbt", "parse", *words, environment=quiet, folder=project)
        return "debug\nshow\nparse"


def superset() -> tuple[Path, dict[str, str]]:
    """Return the programs of Superset, and what its environment must say; it is installed and set up once.

    Each run begins with the database as it was set up, so that what it makes needs no names of its own.
    """
    programs = environment_of("superset", *SUPERSET)
    home = PLACE / "superset-home"
    home.mkdir(exist_ok=True)
    config = home / "superset_config.py"
    database, fresh = home / "superset.db", home / "fresh.db"
    config.write_text(_CONFIG.format(database))
    outside = {"SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset"}
    if not fresh.exists():
        database.unlink(missing_ok=True)
        program = programs / "superset"
        run(program, "db", "upgrade", environment=outside)
        person = ("--firstname", "Ada", "--lastname", "Admin", "--email", "ada@example.org")
        run(program, "fab", "create-admin", "--username", "admin", "--password", "admin", *person, environment=outside)
        run(program, "init", environment=outside)
        database.rename(fresh)
    shutil.copyfile(fresh, database)
    return programs, outside


def ask_superset(door: dict[str, str]) -> str:
    """Let Superset ask."""
    programs, outside = superset()
    return run(programs / "python", SCRIPTS / "ask_superset.py", environment=outside | door)


def draw_superset(door: dict[str, str]) -> str:
    """Let Superset draw a chart with error bars, and take a picture of its page for the documentation."""
    from playwright.sync_api import sync_playwright

    programs, outside = superset()
    place = run(programs / "python", SCRIPTS / "draw_superset.py", environment=outside | door).split()[-1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [programs / "superset", "run", "--host", "127.0.0.1", "--port", str(port), "--with-threads"]
    with subprocess.Popen(
        list(map(str, command)),
        cwd=PLACE,
        env=os.environ | outside,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    ) as serving:
        try:
            _wait_for(port)
            with sync_playwright() as player:
                browser = player.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
                page = browser.new_page(viewport={"width": 1280, "height": 760})
                page.set_default_timeout(120_000)
                page.goto(f"http://127.0.0.1:{port}/login/")
                page.locator("input[name=username], #username").first.fill("admin")
                page.locator("input[name=password], #password").first.fill("admin")
                page.keyboard.press("Enter")
                page.wait_for_url("**/welcome/**")
                page.goto(f"http://127.0.0.1:{port}{place}")
                page.locator("canvas").first.wait_for()
                page.wait_for_timeout(4000)  # the chart is drawn with an animation
                page.screenshot(path=PICTURE)
                browser.close()
        finally:
            serving.terminate()
    return f"drawn: {PICTURE.relative_to(ROOT)}"


def _wait_for(port: int, seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise SystemExit("Superset did not start.")


CLIENTS: dict[str, Callable[[dict[str, str]], str]] = {
    "node": ask_node, "R": ask_r, "ODBC": ask_odbc, "dbt": ask_dbt, "Superset": ask_superset,
    "picture": draw_superset,
}  # fmt: skip


def words_for(door: OpenDoor) -> dict[str, str]:
    """Return the address of the door as PostgreSQL's clients read it from the environment."""
    return {
        "PGHOST": "localhost", "PGPORT": str(door.port), "PGUSER": "ada", "PGPASSWORD": door.server.tokens["ada"],
        "PGDATABASE": "stays", "PGSSLMODE": "require",
    }  # fmt: skip


def main(names: Sequence[str]) -> None:
    """Install the clients, and let them ask."""
    PLACE.mkdir(parents=True, exist_ok=True)
    install_packages()
    with tempfile.TemporaryDirectory() as folder, opened_door(Path(folder) / "door") as door:
        for name in names or CLIENTS:
            steps = [
                line
                for line in CLIENTS[name](words_for(door)).splitlines()
                if line.strip() and " configuration at " not in line
            ]
            print(f"{name}: {len(steps)} steps passed", *steps, sep="\n  ", flush=True)  # noqa: T201  a command


if __name__ == "__main__":
    main(sys.argv[1:])
