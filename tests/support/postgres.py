"""A PostgreSQL server of the tests, and an empty database on it for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.support.servers import free_port

SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "shared_buffers=32MB",
    "max_connections=60",
)
_USER = "postgres"
_TEMPORARY = (
    tempfile.gettempdir()
)  # now: a test may set another folder, which the server's user cannot enter


def binaries() -> Path | None:
    """The folder of the server's programs: Debian's newest, or that of `pg_ctl` in PATH."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    found = str(versions[-1]) if versions else shutil.which("initdb")
    return None if found is None else Path(found).parent


@dataclass
class Postgres:
    """A server on loopback, with the programs that control it."""

    bin: Path
    folder: Path
    port: int
    numbers: Iterator[int]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of a database that is empty."""
        import psycopg

        name = f"test{next(self.numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def control(self, *words: str) -> None:
        as_user = (
            ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
            if os.getuid() == 0
            else []
        )
        with (self.folder / "control.log").open("ab") as log:
            ended = subprocess.run(
                [*as_user, *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        assert ended.returncode == 0, (self.folder / "control.log").read_text()

    def start(self) -> None:
        settings = " ".join(f"-c {one}" for one in SETTINGS)
        options = f"-p {self.port} -k '' -h 127.0.0.1 {settings}"
        self.control(
            f"{self.bin}/pg_ctl", "-D", "data", "-w", "-l", "server.log", "-o", options, "start"
        )

    def stop(self) -> None:
        self.control(f"{self.bin}/pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")


@contextmanager
def postgres_server(programs: Path) -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="evalkit-postgres-", dir=_TEMPORARY) as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, _USER)
        server = Postgres(programs, folder, free_port(), count())
        server.control(
            f"{programs}/initdb",
            "-D",
            "data",
            "-U",
            _USER,
            "--auth=trust",
            "--no-sync",
            "--locale=C.UTF-8",
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()
