"""What `evalkit COMMAND --help` prints: how each command is called, and what its words mean."""

from __future__ import annotations

from typing import Final

USAGE: Final = {
    "run": "evalkit run [STUDY.yaml] [overrides…] [-m]",
    "demo": "evalkit demo [DIR]",
    "plan": "evalkit plan [STUDY.yaml] [overrides…] [-m] [--probe N]",
    "score": "evalkit score RUN [overrides…]",
    "compare": "evalkit compare RUN RUN […] [metrics=[…]] [confidence=0.95] [folder=PATH]",
    "reproduce": "evalkit reproduce RUN [folder=PATH] [overrides…]",
    "track": "evalkit track RUN [tracking.…=…]",
    "import": "evalkit import FORMAT PATH [--fields winner=COLUMN …] [--only KEY=VALUE] [overrides…]",
    "export": "evalkit export RUN --to csv|parquet|alpaca_eval|mt_bench|argilla|label_studio [--output FILE] [--n N] "
    "[--seed N] [--raw]",
    "label": "evalkit label RUN FILE | RUN --to mlflow [--n 50] [--annotators ANN,BOB] [--seed 0] | RUN --from mlflow",
    "store": "evalkit store stats | prune --older-than 30d | export FILE.jsonl | import FILE.jsonl",
    "ui": "evalkit ui [STUDY.yaml] [overrides…] [--host HOST] [--port PORT] [--workers N]",
    "tools": "evalkit tools [--format openai|anthropic|mcp|json-schema]",
    "plugins": "evalkit plugins",
    "doctor": "evalkit doctor [STUDY.yaml] [overrides…]",
    "init": "evalkit init DIR",
}
"""How each command is called, in a line."""

_MORE: Final = {
    "demo": """\
  DIR   where everything is written, MLflow's store too: a new or empty folder, or that of an earlier demo;
        evalkit-demo if it is not given

Runs experiments/demo.yaml: two of its three judges have a planted fault, and the figures should show just these.""",
    "plan": """\
  STUDY.yaml, overrides, -m   as of `evalkit run`, whose jobs they describe
  --probe N                   have N requests of each judge judged, which is paid, so that the estimates rest on them

Tokens, minutes and US$ are estimates; a line below the table says what they rest on. The total counts a request that
several jobs share once.""",
    "score": """\
  RUN         a run's folder, which is written anew; its judgments stay as they are
  overrides   scoring.*, criteria.NAME.weight, swap.resolve, tie.threshold, tie.min_confidence,
              judge.vote, judge.quorum, judge.weights, gate""",
    "compare": """\
  RUN                        a run's folder, or its id in MLflow; every two are compared
  metrics=[…]                the metrics to be tested; all tests together are adjusted (Holm)
  confidence, bootstrap, seed   of the intervals, as under `scoring`
  folder=PATH                where comparison.json and comparison.csv go; here if it is not given
  tracking.uri=URI           where a run is that is named by its id""",
    "reproduce": """\
  RUN           a run's folder or a sweep's (every job), which is not changed, or its id in MLflow
  folder=PATH   write every difference to reproduction.json there
  overrides     dataset.path, store.url: read the cases or the answers from there instead of the run's own files;
                judge.api_base, tracking.uri""",
    "track": """\
  RUN         a run's folder; one that is recorded already is not recorded twice
  overrides   tracking.*""",
    "export": """\
  RUN             a run's folder
  --to LAYOUT     csv and parquet: a row for each judgment; alpaca_eval, mt_bench: as these tools write;
                  argilla, label_studio: tasks for people, without judge and verdict
  --output FILE   else a file in the run's folder
  --n N           only the N that would teach most (argilla, label_studio)
  --seed N        of the order in which people see the two answers
  --raw           csv: texts as they are; else one that a spreadsheet would run (=…) gets a ' in front""",
    "label": """\
  RUN                    a run's folder; it is scored again with the labels
  FILE                   a table with columns id, annotator, label, or what Argilla or Label Studio export
  --to mlflow            let people label in MLflow: what would teach most, a queue for each annotator
  --n N                  how many to label
  --annotators ANN,BOB   who is to label
  --from mlflow          read what people said there""",
    "store": """\
  stats                    how many answers of which model, and what they cost
  prune --older-than 30d   take out answers older than that: hours (h), days (d) or weeks (w)
  export FILE.jsonl        write all answers to a file
  import FILE.jsonl        add the answers of such a file
  store.url=FILE           another store than the configured one""",
    "tools": """\
  --format FORMAT   openai and anthropic: the `tools` of a request; mcp: the result of tools/list;
                    json-schema (the default): input and output of each tool

From Python: evalkit.tools.tool_schemas(FORMAT).""",
    "ui": """\
  STUDY.yaml, overrides      say which tracking store, as of `evalkit run`; else that of this folder
  --host, --port, --workers  are MLflow's; 127.0.0.1, 5000 and 1 if they are not given""",
    "doctor": """\
  STUDY.yaml, overrides   as of `evalkit run`: what that run would need is checked. Nothing is asked or paid""",
    "init": """\
  DIR   the project's folder; files that are there already are left alone""",
}


def wants_help(command: str, words: list[str]) -> bool:
    """Say whether words ask for a command's help; `run` and `import` have their own, and MLflow's `-h` is a host."""
    if command in ("run", "import"):
        return False
    return "--help" in words or ("-h" in words and command != "ui")


def help_of(command: str, does: str) -> str:
    """Return the help of a command that `does` something, in the words of the list of all commands."""
    parts = [f"usage: {USAGE[command]}", f"{does[0].upper()}{does[1:]}.", _MORE.get(command, "")]
    return "\n\n".join(part for part in parts if part)
