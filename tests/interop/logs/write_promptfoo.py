"""Write logs with promptfoo."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.interop.logs.samples import Values, models, pick, sample
from tests.support.fake_provider import Reply, refused, said


def promptfoo(folder: Path) -> Values:
    """Write results of two models with two graders, one of two prompts, and one of repeats, with a person's ratings."""
    config_folder = folder / "config"
    config_folder.mkdir()
    port = _free_port()
    environment = {
        **os.environ,
        **dict.fromkeys(
         ("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE", "PROMPTFOO_SELF_HOSTED"), "1"),
        **dict.fromkeys(("PROMPTFOO_DISABLE_SHARING", "PROMPTFOO_DISABLE_REMOTE_GENERATION"), "1"),
        **{"PROMPTFOO_CONFIG_DIR": str(config_folder), "OPENAI_API_KEY": "x",
           "PROMPTFOO_CACHE_ENABLED": "false"},
    }  # fmt: skip

    def call(*words: str) -> None:
        subprocess.run(
            ["promptfoo", *words],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            timeout=120,
        )

    def grade(text: str) -> Reply:
        if "It is 8" in text and "judge-2" in text:
            return refused(400, "the grader is down")
        score = pick(text, 0.0, 0.25, 0.75, 1.0)
        return said(
            json.dumps(
                {"reason": f"because {pick(text, 'x', 'y')}", "pass": score > 0.5, "score": score}
            )
        )

    with models(grade) as base:

        def model(name: str) -> dict[str, Any]:
            return {"id": f"openai:chat:{name}", "config": {"apiBaseUrl": base}}

        checks = [
            {"type": "llm-rubric", "value": "It is right."},
            {"type": "llm-rubric", "value": "It is brief.", "metric": "brief",
             "provider": model("judge-2")},
            {"type": "contains", "value": "It is"},
        ]  # fmt: skip
        tests = [
            {"vars": {"n": n, "topic": pick(str(n), "a", "b")}, "assert": checks} for n in range(5)
        ]
        common = {
            "prompts": ["What is {{n}} + {{n}}?"],
            "defaultTest": {"options": {"provider": model("judge-1")}},
        }
        configs = {
            "systems": {**common, "providers": [model("answerer-2"), model("answerer-1")],
                        "tests": tests},
            "repeats": {**common, "providers": [model("answerer-1")], "tests": tests[:2]},
            "prompts": {**common, "prompts": ["What is {{n}} + {{n}}?", "Add {{n}} to itself."],
                        "providers": [model("answerer-1")], "tests": tests[:2]},
        }  # fmt: skip
        ids = {}
        for name, config in configs.items():
            (folder / f"{name}.yaml").write_text(json.dumps(config))
            outputs = [word for suffix in ("json", "jsonl") for word in ("-o", f"{name}.{suffix}")]
            call(
                "eval",
                "-c",
                f"{name}.yaml",
                "--no-cache",
                "--no-table",
                "-j",
                "4",
                "--repeat",
                "2" if name == "repeats" else "1",
                *outputs,
            )
            ids[name] = json.loads((folder / f"{name}.json").read_text())["evalId"]
    server = subprocess.Popen(
        ["promptfoo", "view", "-n", "-p", str(port)],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        rated = json.loads((folder / "systems.json").read_text())["results"]["results"]
        for passed, row in zip((True, False, False, True), rated, strict=False):
            human = {
                "pass": passed,
                "score": float(passed),
                "reason": "Manual result",
                "assertion": {"type": "human"},
            }
            grading = row["gradingResult"]
            grading |= {
                "pass": passed,
                "score": float(passed),
                "componentResults": [*grading["componentResults"], human],
            }
            _post(
                f"http://127.0.0.1:{port}/api/eval/{ids['systems']}/results/{row['id']}/rating",
                grading,
            )
    finally:
        server.terminate()
        server.wait(20)
    call("export", "eval", ids["systems"], "-o", str(folder / "systems.json"))
    for name in configs:
        (folder / f"{name}.yaml").unlink()
    for name in ("systems.jsonl", "prompts.jsonl", "repeats.json"):
        (folder / name).unlink()
    read = _promptfoo_rows(config_folder / "promptfoo.db", ids)
    shutil.rmtree(config_folder)
    return {
        f"{name}.{'jsonl' if name == 'repeats' else 'json'}": rows for name, rows in read.items()
    }


def _promptfoo_rows(database: Path, ids: Mapping[str, str]) -> Values:
    """Return what the database of promptfoo holds, which its page and its exports show."""
    found: Values = {}
    with sqlite3.connect(database) as store:
        for name, id_ in ids.items():
            rows = store.execute(
                "select test_idx, prompt_idx, prompt, provider, response, grading_result, test_case from eval_results"
                " where eval_id = ? order by test_idx, prompt_idx",
                (id_,),
            ).fetchall()
            found[name] = [
                _promptfoo_row(
                    name,
                    *row[:2],
                    *(json.loads(cell) if cell and cell[0] in "{[" else cell for cell in row[2:]),
                )
                for row in rows
            ]
    return found


def _promptfoo_row(
    name: str,
    test: int,
    prompt: int,
    text: Any,
    provider: Any,
    response: Any,
    grading: Any,
    case: Any,
) -> dict[str, Any]:
    model = provider["id"] if name != "prompts" else f"{provider['id']}, {text['label']}"
    row = sample(
        test - test % 2 if name == "repeats" else test,
        text["raw"],
        (response or {}).get("output"),
        model,
    )
    row["metadata"] = case["vars"]
    for part in (grading or {}).get("componentResults") or ():
        kind = part["assertion"]["type"]
        if kind == "human":
            row["labels"]["human"] = part["score"]
        elif kind == "llm-rubric":
            judge = (part["assertion"].get("provider") or {"id": "openai:chat:judge-1"})["id"]
            failed = (part.get("metadata") or {}).get("graderError")
            criterion = part["assertion"].get("metric") or kind
            row["judges"].setdefault(judge, {})[criterion] = None if failed else part["score"]
            row["reasons"].setdefault(judge, {})[criterion] = None if failed else part["reason"]
    return row


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _post(url: str, body: Any) -> None:
    """Send a request to a server that is starting."""
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    for _ in range(200):
        try:
            with urlopen(request, timeout=20):
                return
        except ConnectionError:
            time.sleep(0.1)
        except URLError as refusal:
            if not isinstance(refusal.reason, ConnectionError):
                raise
            time.sleep(0.1)
    raise TimeoutError(url)
