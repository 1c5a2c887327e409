"""A real PostgreSQL for tests: one server a session, on a free loopback port, that may be killed and started again.

The system's binaries are taken, else those of the package `pgserver`. As root, which PostgreSQL refuses, another user runs it.
Where there is no server, tests that ask for it skip with the reason; with LODESTONE_REQUIRE_POSTGRES=1 they fail.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine
from tests.support.ports import free_ports

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database.engine import make_engine
from lodestone.catalog.tables import metadata

REQUIRE = "LODESTONE_REQUIRE_POSTGRES"
_USER = "lodestone"
_READY_SECONDS = 120.0
# Written to the operating system at each commit, not to the disk: that outlives the server's death, and is fast.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_min_messages": "warning",
}


class PostgresUnavailableError(Exception):
    """There is no PostgreSQL server to be run here; the message says why."""


@dataclass
class PostgresServer:
    """A running server; see `run_postgres`. All its databases trust everybody on loopback."""

    binaries: Path
    data: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        """Of the database `postgres`, for SQLAlchemy."""
        return self._url("postgres")

    def create_database(self, template: str = "template1") -> str:
        """Make a database of its own, a copy of `template` (a name), and return its URL."""
        name = f"test_{uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self._url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement outside any transaction, as the superuser."""
        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def kill(self) -> None:
        """SIGKILL to every process of the server, as when its machine goes; waits for the end. No-op when it is dead."""
        if self.process.poll() is not None:
            return
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")  # (each is in a session of its own)
        processes = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        self.process.kill()
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop every process of the server inside the block: connections stay open, and nothing answers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        processes = [self.process.pid, *(int(pid) for pid in children.read_text().split())]
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def start(self) -> None:
        """Start the dead server again on its port and files; returns when it answers."""
        until = time.monotonic() + _READY_SECONDS
        while True:
            self.process = self._run()
            if self._becomes_ready(until):
                return
            self.kill()
            # (shortly after a kill the old processes' memory may still count as being used)
            assert time.monotonic() < until, f"PostgreSQL did not start: {self._log()[-2000:]}"
            time.sleep(0.1)

    def restart(self) -> None:
        """Kill and start again."""
        self.kill()
        self.start()

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://{_USER}@127.0.0.1:{self.port}/{database}"

    def _conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={_USER} dbname=postgres connect_timeout=60"

    def _run(self) -> subprocess.Popen[bytes]:
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        command += [f"--{name}={value}" for name, value in _SETTINGS.items()]
        with (self.data.parent / "log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, user=_other_user()
            )

    def _becomes_ready(self, until: float) -> bool:
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(psycopg.OperationalError), psycopg.connect(self._conninfo()):
                return True
            time.sleep(0.05)
        return False

    def _log(self) -> str:
        return (self.data.parent / "log").read_text(errors="replace")


@pytest.fixture(scope="session")
def postgres_binaries() -> Path:
    """The folder of the server's binaries; without it the test skips or fails."""
    try:
        return find_binaries()
    except PostgresUnavailableError as error:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{REQUIRE}=1, but there is no PostgreSQL server: {error}", pytrace=False)
        pytest.skip(f"no real PostgreSQL server: {error}")


@pytest.fixture(scope="session")
def postgres_server(postgres_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """The session's server. Do not kill it: a test that kills runs its own."""
    with run_postgres(tmp_path_factory.mktemp("postgres"), binaries=postgres_binaries) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_catalog(postgres_server: PostgresServer) -> Iterator[Engine]:
    """A database with a catalog in it."""
    url = postgres_server.create_database()
    Catalog.open(url).close()
    engine = make_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def postgres_url(postgres_catalog: Engine) -> str:
    """URL of a catalog that is empty when the test begins."""
    with postgres_catalog.begin() as connection:  # (thirty times as fast as a database for each test)
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    return postgres_catalog.url.render_as_string(hide_password=False)


@contextmanager
def run_postgres(folder: Path, *, binaries: Path | None = None) -> Iterator[PostgresServer]:
    """Run a server that keeps its files under `folder`, ready inside the block, killed at its end.

    As root, its user cannot enter the folders of tests: then its files are in a temporary folder, removed at the end.

    Raises:
        PostgresUnavailableError: there is no server here.
    """
    binaries = binaries or find_binaries()
    user = _other_user()
    home = folder if user is None else Path(tempfile.mkdtemp(prefix="lodestone-postgres-"))
    try:
        if user is not None:
            shutil.chown(home, user)
        _make_data(binaries, home / "data")
        server = PostgresServer(binaries, home / "data", free_ports(1)[0])
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        if user is not None:
            shutil.rmtree(home, ignore_errors=True)


def find_binaries() -> Path:
    """The folder with `postgres` and `initdb`: the system's newest, else the package's."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    if found := shutil.which("postgres"):
        candidates.append(Path(found).parent)
    if (package := importlib.util.find_spec("pgserver")) and package.origin:
        candidates.append(Path(package.origin).parent / "pginstall" / "bin")
    reasons = []
    for folder in candidates:
        try:
            for name in ("postgres", "initdb"):
                subprocess.run([folder / name, "--version"], check=True, capture_output=True, cwd="/", user=_other_user())
        except (OSError, subprocess.SubprocessError) as error:
            reasons.append(f"{folder}: {error}")
        else:
            return folder
    raise PostgresUnavailableError("; ".join(reasons) or "install Debian's `postgresql`, or the package `pgserver`")


def _version(binaries: Path) -> float:
    try:
        return float(binaries.parent.name)
    except ValueError:
        return 0.0


def _make_data(binaries: Path, data: Path) -> None:
    common = [str(binaries / "initdb"), "-D", str(data), "-U", _USER, "--auth=trust", "--encoding=UTF8", "--no-sync"]
    # A collation that is not byte order, as most servers have: what pages by name must not depend on it.
    for choice in (["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en"], ["--locale=C"]):
        made = subprocess.run([*common, *choice], capture_output=True, cwd="/", user=_other_user(), check=False)
        if made.returncode == 0:
            return
        shutil.rmtree(data, ignore_errors=True)
    raise PostgresUnavailableError(f"initdb failed: {made.stderr.decode(errors='replace')[-500:]}")


def _other_user() -> str | None:
    """Who runs the server: None for the present user, who is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise PostgresUnavailableError("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`")
