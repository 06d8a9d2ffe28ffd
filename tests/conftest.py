"""What every test shares: a clean environment, and the published data where it stands beside the repository."""

import fcntl
import gc
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.chromium import chromium
from tests.support.command_line import call_main
from tests.support.fake_provider import serving
from tests.support.postgres import binaries, postgres_server
from tests.support.report_tables import summarise
from tests.support.scoring_coverage import ScoringCoverage

if sys.dont_write_bytecode:
    # Else each process that a test starts would compile all of LiteLLM and MLflow for itself, in
    # twice the time.
    sys.dont_write_bytecode, sys.pycache_prefix = (
        False,
        str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode"),
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# In memory, where there is enough: each of thousands of stores and run folders is flushed to disk,
# which takes longer.
MEMORY, ENOUGH = "/dev/shm", 6 * 2**30
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# MLflow's server would start seven processes for jobs that no test gives it, and each imports
# MLflow.
os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"

# A shell ignores SIGINT in what it runs in the background, nohup ignores SIGHUP; tests send both to
# what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says how busy the machine is.
settings.register_profile("quick", deadline=None, max_examples=8)
settings.register_profile("evalkit", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=50)
settings.load_profile("evalkit")

_NUMBERS = count()
QUICK = frozenset(
    {
        *(
            "benchmarks",
            "config",
            "core",
            "datasets",
            "engine",
            "evaluators",
            "gating",
            "golden",
            "interop",
        ),
        *("parsing", "prompting", "report", "scoring", "sweeps"),
    }
)
"""The folders of tests that `--quick` runs."""
OF_THE_USER = (
    *("EVALKIT_ALLOW_CODE", "EVALKIT_CONF", "EVALKIT_ENTERED_PROJECT", "EVALKIT_LANGUAGE"),
    *("EVALKIT_PLUGINS", "EVALKIT_PROJECT", "EVALKIT_SERVE_KEY"),
    *("EVALKIT_TRUST", "MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "MLFLOW_EXPERIMENT_NAME"),
    *("MLFLOW_RUN_ID", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"),
    *("OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"),
    *("OLLAMA_API_BASE", "RAY_ADDRESS", "HYDRA_FULL_ERROR"),
    # How wide and colored what a command prints is.
    *("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR"),
)
"""Variables of the environment that no test gets from the user."""
SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tables",
        metavar="FILE.md",
        help="write the tables of hostile outputs and attacks to a file",
    )
    parser.addoption(
        "--quick", action="store_true", help="only fast tests of what most changes touch, in 90 s"
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="more examples, simulations and kills, and every variant",
    )
    parser.addoption(
        "--scoring-coverage",
        action="store_true",
        help="fail if the tests of scoring and gating do not execute every branch of scoring",
    )


def pytest_configure(config: pytest.Config) -> None:
    for profile in ("quick", "thorough"):
        if config.getoption(f"--{profile}"):
            settings.load_profile(profile)
    if config.getoption("--scoring-coverage"):
        coverage = ScoringCoverage(config)
        config.pluginmanager.register(coverage)
        coverage.measure_imports()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return four processes for two processors, because tests wait; none for named files, which begin sooner.

    Tests wait for servers and other processes in a third of their time. Each process imports for
    itself, and takes up to 1.5 GB, so many processors have two processes more, not twice as many.
    """
    processors = len(os.sched_getaffinity(0))
    return 0 if all(".py" in arg for arg in config.args) else processors + min(processors, 2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of the folders that `--quick` leaves out: they need MLflow, MCP and web servers."""
    left_out = collection_path.parent == Path(__file__).parent and collection_path.name not in QUICK
    return True if left_out and config.getoption("--quick") and collection_path.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the modules of the most slow tests, then of the most tests, so that no long one is left at the end."""
    left_out = set() if config.getoption("--thorough") else {"thorough"}
    if config.getoption("--quick"):
        left_out |= {"slow", "browser", "local", "postgres"}
        wanted = _sampled(items)
    else:
        wanted = list(items)
    wanted = [item for item in wanted if not any(map(item.get_closest_marker, left_out))]
    config.hook.pytest_deselected(items=list(set(items) - set(wanted)))
    items[:] = wanted
    weights = Counter[Path]()
    for item in items:
        weights[item.path] += 50 if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: -weights[item.path])


def _sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return at most four cells of each table, evenly spaced."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [item for cells in tables.values() for item in cells[:: -(-len(cells) // 4)]]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Look for garbage less often: MLflow, LiteLLM and what is collected are a million objects that stay."""
    gc.disable()
    result = yield
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    summarise(terminalreporter, config.getoption("--tables"))


@pytest.fixture(scope="session")
def thorough(pytestconfig):
    """Whether to try more examples than show that something works, as before a release."""
    return bool(pytestconfig.getoption("--thorough"))


@pytest.fixture
def shared():
    """The folder of published judge outputs; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(
            f"{SHARED} is not there: published judge outputs are not part of the repository"
        )
    return SHARED


@pytest.fixture(autouse=True)
def _own_environment(request, tmp_path_factory, monkeypatch):
    """Keep the user's settings, keys and store out of the tests."""
    # Most tests need no folder, and making one takes longer than many of them.
    own = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    folder = own or tmp_path_factory.getbasetemp() / f"test-{next(_NUMBERS)}"
    for name in OF_THE_USER:
        monkeypatch.setenv(name, "")  # so that what a test or MLflow itself sets ends with the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "settings"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("EVALKIT_STORE", str(folder / "store.sqlite"))
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # What is written to the temporary folder, here or by a process that a test starts, goes with
    # pytest's.
    temporary = str(tmp_path_factory.getbasetemp())
    monkeypatch.setenv("TMPDIR", temporary)
    monkeypatch.setattr(tempfile, "tempdir", temporary)


@pytest.fixture(autouse=True)
def _own_memory_of_servers(monkeypatch):
    """Forget which servers get no key or asked to wait: a later server of another test may get the same port."""
    for module, name, empty in (
        ("evalkit.guard.credentials", "_withheld", set),
        ("evalkit.engine.rate_limits", "_shared", dict),
    ):
        if module in sys.modules:
            monkeypatch.setattr(sys.modules[module], name, empty())


@pytest.fixture
def provider():
    """A server that answers as OpenAI does."""
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def module_provider():
    """Such a server for all tests of a module, because its address is in what they share."""
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Make what the tests of a module share, in the current folder of the first one; others get its files."""
    folders: dict[str, Path] = {}

    def fill(name: str, make: Callable[[], object]) -> None:
        if name in folders:
            shutil.copytree(folders[name], Path(), dirs_exist_ok=True)
            return
        make()
        folders[name] = tmp_path_factory.mktemp("finished") / "files"
        shutil.copytree(Path(), folders[name])

    return fill


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """An SQLite store as MLflow makes it, once for all processes: its migrations take seconds."""
    from evalkit.tracking.connection import open_client

    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made = folder / "mlflow-template.db"
    with (folder / "mlflow-template.lock").open("w") as lock, warnings.catch_warnings():
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.is_file():
            shutil.copy(made, file)
        warnings.simplefilter("ignore")
        # Also where it is made already: what MLflow imports and remembers is the same in all.
        open_client(f"sqlite:///{file}")
        if not made.is_file():
            shutil.copy(file, made)
    return file


@pytest.fixture
def mlflow_store(empty_store, tmp_path):
    """The URI of an empty store of its own, mlflow.db in the test's folder."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield f"sqlite:///{tmp_path / 'mlflow.db'}"
    if (mlflow := sys.modules.get("mlflow")) is not None:
        # Else the next test of this process would look in this store, too.
        mlflow.set_tracking_uri(None)
        mlflow.set_registry_uri(None)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server; the test is skipped where the programs are absent."""
    if (programs := binaries()) is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server(programs) as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    """Chromium, for the tests of one module: as long as it runs, its event loop keeps out every other."""
    with chromium() as launched:
        yield launched


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The test's empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(here, capfd):
    """Calls a command in an empty folder, in this process."""
    return partial(call_main, capfd)
