"""`evalkit audit` from the command line: what it asks, and what it writes and finds."""

import json
from pathlib import Path
from typing import Any

import pytest

SAMPLE = ("dataset=sample", "tracking=none", "scoring.bootstrap=50", "-q")


def read(path: str) -> Any:
    return json.loads(Path(path).read_bytes())


def calls(folder: str) -> dict[str, int]:
    return read(f"{folder}/metrics.json")["calls"]


def test_an_audit_is_a_run_with_a_datasheet(call):
    words = ["judge=simulated/good", *SAMPLE, "dataset.limit=8"]
    call("audit", *words, "--output", "audit")
    call("run", *words, "--output", "plain")
    audit, plain = read("audit/metrics.json")["metrics"], read("plain/metrics.json")["metrics"]
    assert {name: one for name, one in audit.items() if not name.startswith("audit/")} == plain
    assert audit["audit/master_key/passed"]["n"] == 8
    assert audit["audit/padding/shift"]["low"] < audit["audit/padding/shift"]["value"]
    assert len(Path("audit/cases.jsonl").read_text().splitlines()) == 8
    assert {Path("audit", f"datasheet.{kind}").is_file() for kind in ("html", "md", "json")} == {
        True
    }
    # The run's own requests were paid for by the audit.
    assert calls("plain") | {"sent": 0} == calls("plain")


def test_a_finished_run_is_audited_and_an_audit_repeated(call):
    call("run", "judge=simulated/good", *SAMPLE, "--output", "plain")
    call("audit", "plain/config.yaml", "probe=[padding,authority]", "-q", "--output", "audit")
    assert (calls("audit")["planned"], calls("audit")["stored"]) == (192, 48)
    call("run", "audit/config.yaml", "-q", "--output", "again")
    again, audit = (read(f"{name}/metrics.json")["metrics"] for name in ("again", "audit"))
    assert again == audit
    assert "audit/authority/shift" in again


def test_two_samples_share_the_repeat(call):
    call("audit", "judge=simulated/good", "probe=order", *SAMPLE, "--output", "audit")
    call("run", "judge=simulated/good", "mode.samples=2", *SAMPLE, "--output", "plain")
    assert (calls("audit")["planned"], calls("plain")["planned"], calls("plain")["sent"]) == (
        96,
        96,
        0,
    )


def test_other_commands_read_an_audit(call):
    call(
        "audit",
        "judge=simulated/length_biased",
        "probe=[padding,order]",
        *SAMPLE,
        "--output",
        "audit",
    )
    before = read("audit/metrics.json")["metrics"]
    assert "metrics are equal to the last bit" in call("reproduce", "audit").out
    call("score", "audit", "scoring.confidence=0.5")
    after = read("audit/metrics.json")["metrics"]
    assert after["audit/padding/flip_rate"]["low"] > before["audit/padding/flip_rate"]["low"]
    # Narrower intervals allow the judge something, so its slices are searched.
    searched = {"slices/tested", "decision/follows", "decision/within"}
    assert after.keys() - before.keys() == searched
    assert before.keys() <= after.keys()


def test_a_gate_on_an_audit(call):
    gate = 'gate={audit/master_key/passed: "<= 0.02", audit/padding/shift: {high: "<= 9"}}'
    call(
        "audit",
        "judge=simulated/good",
        "probe=[master_key,padding]",
        gate,
        *SAMPLE,
        "--output",
        "audit",
        status=4,
    )
    states = {one["metric"]: one["state"] for one in read("audit/gate.json")["rules"]}
    assert states == {"audit/master_key/passed": "failed", "audit/padding/shift": "held"}
    wrong = call(
        "audit", "judge=simulated/good", 'gate={audit/paddin/shift: "< 1"}', *SAMPLE, status=1
    ).line()
    assert wrong == "gate.audit/paddin/shift: no such metric; did you mean 'audit/padding/shift'?"


def test_a_plan_has_a_row_for_each_probe(call):
    planned = call(
        "plan", "audit", "judge=simulated/good", "probe=[order,padding]", *SAMPLE[:3]
    ).out
    rows = {
        line.split()[0]: [word for word in line.split() if word.isdecimal()][:3]
        for line in planned.splitlines()
    }
    assert rows["no"] == ["48", "0", "48"]
    assert rows["probe=repeat"] == rows["probe=padding"] == ["48", "0", "48"]
    assert rows["probe=order"] == ["0", "0", "0"]
    old = call("plan", "judge=simulated/good", "--probe", "20", status=1).line()
    assert old == "evalkit plan: --probe is now named --pilot; try evalkit plan --help"


def test_an_unknown_probe_is_one_line(call):
    wrong = call("audit", "+probe.probes.paddin={}", *SAMPLE, status=1).line()
    assert wrong == "probe.probes.paddin: there is no such probe; did you mean 'padding'?"


def test_the_list_of_probes(call):
    lines = call("audit", "--probes").out.splitlines()
    assert "identical" in [line.split()[0] for line in lines]
    assert all(line.endswith((".", "”")) for line in lines)


def test_the_terminal_says_what_the_judge_falls_for(call):
    words = (
        "probe=[order,identical,padding]",
        "dataset=sample",
        "tracking=none",
        "scoring.bootstrap=200",
    )
    done = call("audit", "judge=simulated/position_biased", *words, "--output", "audit")
    assert "✗ order: Shows the two responses in the other order. Verdicts shift toward" in done.out
    assert "✗ identical: Compares a response with itself." in done.out
    assert "Not decided; more cases would tell: padding." in done.out
    assert "datasheet: audit/datasheet.html" in done.out
    sheet = {one["name"]: one for one in read("audit/datasheet.json")["probes"]}
    assert all(one["after"] != "TIE" for one in sheet["identical"]["worst"])


@pytest.mark.parametrize(("language", "reason"), [
    pytest.param("en", "no pair has a label", marks=pytest.mark.thorough),
    ("zh", "没有成对回答有标注"),
])  # fmt: skip
def test_a_datasheet_says_why_a_number_is_absent(call, language, reason):
    rows = [
        {"id": f"c{k}", "prompt": f"p{k}", "response_a": f"a{k}" * 9, "response_b": "b"}
        for k in range(6)
    ]
    Path("pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    words = [
        "judge=simulated/good",
        "dataset=file",
        "dataset.path=pairs.jsonl",
        "probe=authority",
        *SAMPLE[1:],
    ]
    call("audit", *words, f"prompt={language}", "--output", "audit")
    lines = Path("audit/datasheet.md").read_text("utf-8").splitlines()
    (accuracy,) = [line for line in lines if line.startswith(("- Accuracy", "- 准确率"))]
    assert accuracy.endswith(f": {reason}")
    assert not [line for line in lines if "(n = 0)" in line or ": (n = " in line]
    assert f'lang="{language}">{reason}</span>' in Path("audit/datasheet.html").read_text("utf-8")
