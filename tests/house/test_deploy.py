"""What operators deploy: parts that are apart, without rights, and started with options that exist."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.house.tree import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SYSTEMD = shutil.which("systemd-analyze")
PARTS = ("core", "front", "owners", "sidecar", "sql")


def composed() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"])


def test_the_image_is_built_from_pinned_libraries_and_runs_without_rights() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(stages) > 1
    assert all(":" in stage and not stage.endswith(":latest") for stage in stages)
    last = text.rsplit("\nFROM ", 1)[1]
    assert "--require-hashes" in text
    assert re.findall(r"^USER (\d+)", last, re.MULTILINE)[-1] not in {"0", "root"}
    assert "HEALTHCHECK" in last
    assert "ADD " not in text


@pytest.mark.parametrize("part", PARTS)
def test_a_container_has_no_rights_that_it_does_not_need(part: str) -> None:
    service = composed()[part]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    published = [str(port) for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_core_has_no_way_to_the_network_and_the_fronts_have_none_to_the_data() -> None:
    services, networks = composed(), yaml.safe_load((DEPLOY / "compose.yaml").read_text())["networks"]
    assert networks["vault"]["internal"] is True
    assert services["core"]["networks"] == ["vault"]
    assert services["sidecar"]["network_mode"] == "none"
    for part in ("front", "owners", "sidecar", "sql"):
        assert not any("data" in str(volume) for volume in services[part]["volumes"])
        assert not {"vault"} & set(services[part].get("networks", ()))
    assert services["core"]["user"].split(":")[0] != "8701"


SEEN = {
    "front": {"analysts", "accounts"},
    "owners": {"owners", "accounts"},
    "sidecar": {"sql"},
    "sql": {"analysts", "accounts", "sql"},
}
"""Which folders of the state each part needs. Who reaches the owners' socket may do what owners do."""


@pytest.mark.parametrize("part", SEEN)
def test_a_container_sees_of_the_state_what_it_needs(part: str) -> None:
    volumes = [volume for volume in composed()[part]["volumes"] if "state" in str(volume)]
    assert {volume["volume"]["subpath"] for volume in volumes} == SEEN[part]
    assert all(volume["target"] == f"/state/{volume['volume']['subpath']}" for volume in volumes)


@pytest.mark.parametrize("part", SEEN)
def test_a_unit_sees_of_the_state_what_it_needs(part: str) -> None:
    text = (DEPLOY / "systemd" / f"dodona-{part}.service").read_text()
    hidden = re.findall(r"^InaccessiblePaths=(.*)", text, re.MULTILINE)[0].split()
    folders = {path.removeprefix("/var/lib/dodona/") for path in hidden if path.startswith("/var/lib/dodona/")}
    assert not folders & SEEN[part]
    assert part == "owners" or "owners" in folders  # a missing folder keeps the unit from starting, until it is there
    users = {path.stem: re.findall(r"^User=(.*)", path.read_text(), re.MULTILINE)[0] for path in UNITS}
    assert users["dodona-owners"] not in {users["dodona-front"], users["dodona-sql"]}  # one could trace the other
    if part == "sidecar":
        assert {"owners", "analysts", "accounts"} <= folders


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_confined(unit: Path) -> None:
    text = unit.read_text()
    for line in (
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "LimitCORE=0",
        "CapabilityBoundingSet=",
        "Restart=always",
    ):
        assert re.search(rf"^{re.escape(line)}", text, re.MULTILINE), line
    if unit.stem != "dodona-core":
        assert "InaccessiblePaths=/srv/dodona" in text


@pytest.mark.skipif(SYSTEMD is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_reads_a_unit(unit: Path, tmp_path: Path) -> None:
    for path in UNITS:
        (tmp_path / path.name).write_text(path.read_text().replace("/usr/local/dodona/bin/dodona", "/bin/true"))
    done = subprocess.run(
        [str(SYSTEMD), "verify", str(tmp_path / unit.name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_option_that_is_used_exists() -> None:
    import inspect

    from dodona.cli.serve import serve

    known = {f"--{name.replace('_', '-')}" for name in inspect.signature(serve).parameters}
    lines = [line for unit in UNITS for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    used = {word for line in lines for word in line.split() if word.startswith("--")}
    used |= {word for part in PARTS for word in composed()[part]["command"] if word.startswith("--")}
    assert used <= known
