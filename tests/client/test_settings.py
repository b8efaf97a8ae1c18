"""Where a server's address and a token come from, and who may read them."""

import os
import stat
from pathlib import Path

import pytest

import dodona
from dodona.client.settings import (
    Settings,
    check_token,
    find_server,
    find_token,
    read_settings,
    server_address,
    settings_path,
    write_settings,
)
from dodona.errors import InvalidRequest

URL = "https://data.example.org"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "new" / "dodona" / "config.toml"
    write_settings(path, Settings(URL, {URL: "one", 'http://127.0.0.1:8700/"odd': "two"}))
    return path


def test_settings_are_read_back_as_they_were_written(file):
    assert read_settings(file) == Settings(URL, {URL: "one", 'http://127.0.0.1:8700/"odd': "two"})
    assert "one" not in repr(read_settings(file))


def test_settings_are_for_their_owner_alone(file):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    before = os.umask(0)
    try:
        write_settings(file, Settings(URL, {URL: "three"}))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o644])
def test_settings_that_others_may_read_are_refused_with_what_to_do(file, mode):
    file.chmod(mode)
    with pytest.raises(InvalidRequest, match="chmod 600"):
        read_settings(file)


@pytest.mark.parametrize("text", ["server = ", "server = 3", "servers = 3", "\xff\x00"])
def test_settings_that_are_broken_are_refused(file, text):
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidRequest):
        read_settings(file)


def test_settings_that_are_missing_are_empty(tmp_path):
    assert read_settings(tmp_path / "config.toml") == Settings()


def test_the_place_of_settings_is_the_users():
    assert settings_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/dodona/config.toml")
    assert settings_path({"HOME": "/users/ada"}) == Path("/users/ada/.config/dodona/config.toml")


@pytest.mark.parametrize(
    "url",
    [
        "data.example.org",
        "ftp://data.example.org",
        "https://",
        "https://ada:secret@data.example.org",
        "https://data.example.org/?token=1",
        "https://data.example.org/#x",
        "",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InvalidRequest):
        server_address(url)


@pytest.mark.parametrize("url", ["http://data.example.org", "http://127.0.0.1.example.org", "http://192.168.0.7:8700"])
def test_a_token_does_not_go_over_plain_http_to_another_machine(url):
    with pytest.raises(InvalidRequest, match="https"):
        server_address(url)
    assert server_address(url, insecure=True) == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:8700", "http://localhost:8700", "http://[::1]:8700"])
def test_this_machine_is_asked_over_plain_http(url):
    assert server_address(f"{url}/") == url


def test_the_environment_comes_before_the_file():
    settings = Settings("https://file.example", {"https://file.example": "f", "https://other.example": "o"})
    environment = {"DODONA_SERVER": "https://env.example/", "DODONA_TOKEN": "e"}
    assert find_server(environment, settings) == "https://env.example/"
    assert find_server({}, settings) == "https://file.example"
    assert find_server({}, Settings()) is None
    assert find_token("https://env.example", environment, settings) == "e"
    assert find_token("https://file.example", {"DODONA_TOKEN": "e"}, settings) == "e"


def test_a_token_of_the_environment_is_for_the_server_of_the_environment():
    settings = Settings(None, {"https://other.example": "o"})
    environment = {"DODONA_SERVER": "https://env.example", "DODONA_TOKEN": "e"}
    assert find_token("https://other.example", environment, settings) == "o"
    with pytest.raises(InvalidRequest, match=r"dodona login https://third\.example"):
        find_token("https://third.example", environment, settings)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tökén", "\x00"])
def test_what_cannot_be_a_token_is_refused_and_not_shown(token):
    with pytest.raises(InvalidRequest) as wrong:
        check_token(token)
    assert token == "" or token not in str(wrong.value)


def test_a_token_is_not_in_what_is_shown_of_a_connection():
    remote = dodona.connect_async(URL, token="dodona_secret", dataset="stays")  # noqa: S106  made up
    assert "secret" not in repr(remote)
    assert "secret" not in repr(vars(remote))
