"""The shell steps of the GitHub Action, run in order as GitHub runs them, with its API on loopback."""

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow
ACTION = yaml.safe_load((Path(__file__).parents[2] / "action.yml").read_text("utf-8"))
SHELLS = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"], "python": [sys.executable]}
STUDY = "judge=simulated/good\ndataset=sample\n\ntracking=none\nscoring.bootstrap=50\n"


class GitHub(ThreadingHTTPServer):
    """The comments of a pull request; someone else wrote the first one, which has the action's marker."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.comments = [
            {"id": 0, "body": "<!-- evalkit: evalkit --> fake", "user": {"type": "User"}}
        ]
        self.forbidden, self.asked = False, list[str]()


class Answers(BaseHTTPRequestHandler):
    server: GitHub

    def do_GET(self) -> None:
        self.answer(self.server.comments if self.path.endswith("&page=1") else [])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        self.server.asked.append(self.command)
        if self.server.forbidden:
            self.answer({"message": "Resource not accessible by integration"}, 403)
            return
        if self.command == "POST":
            self.server.comments.append({"id": len(self.server.comments), "user": {"type": "Bot"}})
        number = -1 if self.command == "POST" else int(self.path.rpartition("/")[2])
        self.server.comments[number]["body"] = body
        self.answer({})

    def do_PATCH(self) -> None:
        self.do_POST()

    def answer(self, value: Any, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github():
    with GitHub() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def act(folder: Path, github: GitHub, arguments: str, command: str = "run") -> tuple[int, str, str]:
    """Run the action's own steps after the installation; return the status, the job's page and what was printed."""
    inputs = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()}
    inputs |= {"arguments": arguments, "command": command, "token": "t"}
    files = {
        name: folder / name
        for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_EVENT_PATH")
    }
    for file in files.values():
        file.write_text("")
    files["GITHUB_EVENT_PATH"].write_text('{"pull_request": {"number": 7}}')
    environment = {
        **os.environ,
        **{name: str(file) for name, file in files.items()},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder),
        "GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}",
        "GITHUB_REPOSITORY": "owner/name",
    }
    status, printed = 0, ""
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] == "Install" or status:
            continue
        outputs = dict(
            line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines()
        )
        values = {f"inputs.{name}": value for name, value in inputs.items()}
        values |= {f"steps.evalkit.outputs.{name}": value for name, value in outputs.items()}
        own = {
            name: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found, known=values: known[found[1]], text)
            for name, text in step["env"].items()
        }
        script = folder / "step"
        script.write_text(step["run"], "utf-8")
        done = subprocess.run(
            [*SHELLS[step["shell"]], str(script)],
            cwd=folder, env=environment | own, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        status, printed = done.returncode, printed + done.stdout + done.stderr
    return status, files["GITHUB_STEP_SUMMARY"].read_text("utf-8"), printed


def test_one_comment_is_updated_in_place(tmp_path, github):
    rule = 'gate={agreement/accuracy: {value: ">= BOUND", by: value}}'
    held, failed = (rule.replace("BOUND", bound) for bound in ("0.5", "0.99"))
    status, page, _ = act(tmp_path, github, STUDY + held)
    assert (status, page.count("Gate held")) == (0, 1)
    status, page, _ = act(tmp_path, github, STUDY + failed)
    assert (status, page.count("Gate failed")) == (4, 1)
    assert github.asked == ["POST", "PATCH"]
    fake, comment = (one["body"] for one in github.comments)
    assert fake.endswith("fake")
    assert "Gate failed" in comment
    assert "Gate held" not in comment
    assert (tmp_path / "evalkit" / "store" / "store.sqlite").is_file()


def test_a_fork_has_the_page_alone(tmp_path, github):
    github.forbidden = True
    (tmp_path / "my answers.csv").write_text(
        "prompt,judge,label\n" + "q,A,A\nr,B,B\ns,A,B\n" * 10, "utf-8"
    )
    status, page, printed = act(tmp_path, github, "my answers.csv\n", "check")
    assert status == 0
    assert "Agreement with the labels" in page
    assert "::notice::no right to comment" in printed
    assert len(github.comments) == 1


def test_a_mistake_is_on_the_page_and_runs_nothing_else(tmp_path, github):
    status, page, _ = act(tmp_path, github, "judge=simulated/god\n$(touch hacked); touch hacked")
    assert status == 1
    assert "ended with status 1" in page
    assert "evalkit:" in page
    assert not (tmp_path / "hacked").exists()
    status, _, printed = act(tmp_path, github, "label", "store")
    assert (status, "run or check" in printed) == (1, True)
