"""Records the stored answers of the golden runs, from simulated judges behind a loopback server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from evalkit.judges.simulated_transport import answer
from tests.support.fake_provider import Reply, completion

_MARKED = re.compile(r"<response>\n(.*?)\n</response>", re.DOTALL)
_TOKEN = re.compile(r'\d|"|[^\d"]+')


def reply(body: Mapping[str, Any]) -> Reply:
    """Answer as the simulated judge of the model's name; `faulty` sometimes says nothing useful, or refuses.

    A refusal is not stored, so it is a failed call in the golden run.
    """
    name, prompt = str(body["model"]), body["messages"][-1]["content"]
    drawn = crc32(json.dumps(body["messages"]).encode()) % 100
    if name == "rewriter" and (original := _MARKED.search(prompt)):
        return _said(body, f"{original[1]} In other words.")
    if name == "faulty" and drawn < 8:
        return _said(body, "", finish="content_filter")
    if name == "faulty" and drawn < 20:
        return _said(body, "I would rather not say.")
    simulated = "good" if name in ("faulty", "rewriter") else name
    text = answer(f"simulated/{simulated}", {**body, "accuracy": 0.85})
    assert text is not None, prompt
    return _said(body, text.replace("Simulated judge: no model read this.", "As shown."))


def _said(body: Mapping[str, Any], text: str, finish: str = "stop") -> Reply:
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text},
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [_token(token) for token in _TOKEN.findall(text)]}
    asked = sum(len(message["content"]) for message in body["messages"])
    return Reply({**completion([choice], (asked // 4, len(text) // 4)), "model": body["model"]})


def _token(token: str) -> dict[str, Any]:
    others = {"A": "B", "B": "A", **{str(n): str(n % 5 + 1) for n in range(1, 6)}}
    likely = [{"token": token, "logprob": -0.25, "bytes": None}]
    likely += [{"token": others[token], "logprob": -1.6, "bytes": None}] if token in others else []
    return {**likely[0], "top_logprobs": likely}


def write_answers(exported: Path, target: Path) -> int:
    """Write exported answers sorted by key, without the times at which they were given; return their number."""
    rows = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]
    for row in rows:
        row["created"] = 0.0
        row["completion"]["latency"] = round(0.1 + int(row["key"][:4], 16) / 1e5, 3)
    rows.sort(key=lambda row: row["key"])
    target.write_text(
        "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8", newline="\n"
    )
    return len(rows)
