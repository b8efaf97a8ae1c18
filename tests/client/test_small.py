"""The client is small: what it loads, and a distribution of it alone, in an environment with nothing else."""

import json
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.client.scene import Server
from tests.house.tree import ROOT

HEAVY = {"cryptography", "duckdb", "matplotlib", "numba", "numpy", "pandas", "polars", "pyarrow", "scipy", "sqlglot"}
PROGRAM = """
import asyncio, json, sys
import dodona

url, token = sys.argv[1:]
with dodona.connect(url, token=token, dataset="stays") as stays:
    answer = stays.ask("SELECT ward, count(*) AS n FROM stays GROUP BY ward", within=60)
    texts = [str(answer), answer._repr_html_(), answer.to_json(), str(answer.rounded()), str(answer.simultaneous())]
    many = stays.ask_many(["SELECT count(*) FROM stays", "SELECT count(*) FROM stays WHERE urgent"], progress=True)
    texts += [str(stays.quote("SELECT avg(age) FROM stays")), repr(stays), stays._repr_html_(), str(stays.describe())]
    texts += [str(stays.budget), str(stays.history), stays.schema.digest]
    try:
        stays.ask("SELECT nothing FROM stays")
    except dodona.errors.InvalidRequest as error:
        texts.append(str(error))

async def more():
    async with dodona.connect_async(url, token=token, dataset="stays") as stays:
        return await stays.ask("SELECT ward, count(*) AS n FROM stays GROUP BY ward", within=60)

again = asyncio.run(more())
loaded = sorted({name.partition(".")[0] for name in sys.modules})
own = sorted(name for name in sys.modules if name.partition(".")[0] == "dodona")
print(json.dumps({
    "columns": answer.columns, "rows": len(answer.rows), "many": len(many), "again": again.price.share == 0,
    "empty": [text for text in texts if not text], "loaded": loaded, "own": own, "file": dodona.__file__,
}))
"""


def run_program(python: Path | str, server: Server, folder: Path) -> dict[str, object]:
    command = [str(python), "-I", "-c", PROGRAM, server.url, server.tokens["ada"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def check(found: dict[str, object]) -> None:
    assert found["columns"] == ["ward", "n"]
    assert (found["rows"], found["many"], found["again"], found["empty"]) == (4, 2, True, [])
    assert HEAVY.isdisjoint(found["loaded"])


def listed() -> set[str]:
    """The modules that the small distribution lists."""
    pyproject = tomllib.loads((ROOT / "client/pyproject.toml").read_text(encoding="utf-8"))
    included = pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    modules = set[str]()
    for place in included.values():
        path = ROOT / "src" / place
        files = path.rglob("*.py") if path.is_dir() else [path]
        modules |= {
            ".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files if file.suffix == ".py"
        }
    return {name.removesuffix(".__init__") for name in modules}


def test_a_program_that_asks_a_server_loads_no_engine_and_no_numpy(server, tmp_path):
    report = run_program(sys.executable, server, tmp_path)
    check(report)
    assert set(report["own"]) == listed()


# --- The small distribution. ---


def requirements_of(name: str, seen: set[str]) -> set[str]:
    """The distributions that one needs here, without extras, itself among them."""
    if name in seen:
        return seen
    seen.add(name)
    for requirement in distribution(name).requires or []:
        if "extra ==" not in requirement and _applies(requirement):
            requirements_of(re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0], seen)
    return seen


def _applies(requirement: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate()


@pytest.fixture(scope="session")
def small_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the small distribution, what it requires, and nothing else. No network is needed."""
    folder = tmp_path_factory.mktemp("small")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
    subprocess.run(build, cwd=ROOT / "client", check=True, capture_output=True)
    [wheel] = (folder / "wheel").glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    [packages] = (folder / "env" / "lib").glob("python*/site-packages")
    # `--target` takes the wheel as it is; the environment has no pip of its own.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(packages)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    [metadata] = packages.glob("dodona_client-*.dist-info/METADATA")
    wanted = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(wanted) == ["httpx", "rich"]
    for name in set[str]().union(*(requirements_of(name, set()) for name in wanted)):
        for file in distribution(name).files or []:
            top = file.parts[0]
            if top != ".." and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return python


def test_the_small_distribution_asks_a_real_server_with_what_it_requires_alone(server, small_python, tmp_path):
    report = run_program(small_python, server, tmp_path)
    check(report)
    assert str(report["file"]).startswith(str(small_python.parent.parent))
    installed = {path.name for path in Path(str(report["file"])).parent.parent.glob("*.dist-info")}
    assert not any(name.startswith(tuple(HEAVY)) for name in installed)


def run_code(python: Path, code: str, folder: Path) -> str:
    command = [str(python), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout


def test_the_small_distribution_says_what_it_leaves_out(small_python, tmp_path):
    code = "import dodona\ntry:\n    dodona.open('stays.toml')\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert run_code(small_python, code, tmp_path).startswith("dodona.open is no part of dodona-client")


def test_the_small_distribution_has_the_version_of_the_whole(small_python, tmp_path):
    code = "import dodona, importlib.metadata as m; print(dodona.__version__, m.version('dodona-client'))"
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert run_code(small_python, code, tmp_path).split() == [whole, whole]


def test_the_client_without_its_library_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['httpx'] = None; import dodona; dodona.connect"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "install dodona[client]" in done.stderr
