"""The golden runs: the commands of each, in a folder with `files/`, `imports/` and `v0.2.0/`."""

from __future__ import annotations

from dataclasses import dataclass

PORT = 8439
"""Where the recorder answers. The address is part of each content key."""
_BRACKET = "output=bracket"
_QUICK = ("dataset=quick", _BRACKET)
_GRADED = ("dataset=graded", "dataset.limit=3")
_POINTWISE = (*_GRADED, "mode=pointwise", "criteria=overall", "output=rating")

_CLASSES = "dataset.label_map={{1:{0},2:{0},3:{0},4:{1},5:{1}}}"
_GATE = 'gate={agreement/accuracy: {low: ">= 0.9"}, tie_rate: {value: "<= 0.9", by: value}, decision: rates}'
_SUFFIX = {"csv": "csv", "parquet": "parquet", "paraphrases": "csv", "mt_bench": "jsonl"}
_SUFFIX |= dict.fromkeys(("alpaca_eval", "argilla", "label_studio"), "json")


@dataclass(frozen=True)
class Golden:
    """A golden run: its commands of evalkit (or `copy FOLDER FOLDER`), and whether its page's data are kept too."""

    name: str
    commands: tuple[str, ...]
    page_data: bool = False

    @property
    def brief(self) -> bool:
        """Whether long lines of its page are cut: those of benchmarks and imports are mostly in other runs too."""
        return self.name.startswith(("benchmark_", "import_"))


def _judge(model: str) -> str:
    """Return the overrides of a stored judge; its name is that of the simulated judge that answered."""
    base = f"http://127.0.0.1:{PORT}/v1"
    return f"judge=openai_compatible judge.model=openai/{model} judge.api_base={base} judge.price={{input:1,output:4}}"


def _run(*words: str, judge: str = "good", command: str = "run", to: str = "run") -> str:
    return " ".join((command, f"--output {to}", _judge(judge), *words))


def _panel(*models: str) -> str:
    base = f"http://127.0.0.1:{PORT}/v1"
    members = ",".join(
        f"{{name:{model},model:openai/{model},api_base:'{base}'}}" for model in models
    )
    return f'judge=panel judge.name=three "judge.judges=[{members}]"'


def _study(
    name: str, *more: str, run: tuple[str, ...], page_data: bool = False, judge: str = "good"
) -> Golden:
    return Golden(name, (_run(*run, judge=judge), *more), page_data)


def _export(*layouts: str) -> tuple[str, ...]:
    return tuple(
        f"export run --to {layout} --output exports/{layout}.{_SUFFIX[layout]}"
        for layout in layouts
    )


_MODES = (
    _study(
        "pairwise",
        "copy run mean",
        "score mean swap.resolve=mean tie.threshold=0.3",
        "compare run mean metrics=[agreement/accuracy,tie_rate] bootstrap=200 --output compared",
        *_export("csv", "parquet", "argilla", "label_studio"),
        run=("dataset=quick",),
        page_data=True,
    ),
    _study(
        "pairwise_zh", run=(*_QUICK, "prompt=zh", "criteria=general_zh"), judge="position_biased"
    ),
    _study(
        "pairwise_gate",
        f"score run '{_GATE}'",
        run=("dataset=sample", _BRACKET, "swap=third_pass", "criteria=overall"),
        judge="faulty",
    ),
    _study(
        "pairwise_graded",
        run=(*_QUICK, "output=bracket_graded", "swap=lower_confidence"),
        judge="noisy",
    ),
    _study(
        "pairwise_weighted",
        run=("dataset=quick", "dataset.limit=4", "method=pairwise_weighted"),
        judge="good",
    ),
    _study("pairwise_many", run=(*_GRADED, _BRACKET), judge="noisy"),
    _study("commit_first", run=(*_QUICK, "mode.commit_first=true", "dataset.limit=4", "swap=none")),
    _study(
        "pointwise",
        *_export("csv", "argilla"),
        run=("dataset=graded", "mode=pointwise"),
        page_data=True,
    ),
    _study(
        "pointwise_zh",
        run=(*_POINTWISE, "prompt=zh", "criteria=general_zh", "output=json"),
        judge="faulty",
    ),
    _study("pointwise_samples", run=(*_POINTWISE, "method=sampled"), judge="noisy"),
    _study(
        "pointwise_weighted",
        run=(*_POINTWISE, "dataset.limit=2", "method=weighted", "output=json"),
        judge="good",
    ),
    _study("listwise", run=(*_GRADED, "method=listwise")),
    _study("listwise_zh", run=(*_GRADED, "method=listwise", "prompt=zh"), judge="position_biased"),
    _study(
        "classes",
        *_export("csv", "label_studio"),
        run=(*_POINTWISE, _BRACKET, "rubric=pass_fail", _CLASSES.format("fail", "pass")),
        page_data=True,
    ),
    _study(
        "classes_zh",
        run=(*_POINTWISE, _BRACKET, "rubric=yes_no_zh", _CLASSES.format("否", "是"), "prompt=zh"),
        judge="class_biased",
    ),
    Golden(
        "panel",
        (
            f"run --output run {_panel('good', 'noisy', 'position_biased')} {' '.join(_QUICK)}",
            "copy run weighted",
            "score weighted judge.vote=weighted 'judge.weights={good: 3}'",
        ),
    ),
    Golden(
        "panel_classes",
        (
            f"run --output run {_panel('good', 'class_biased', 'faulty')} {' '.join(_POINTWISE)}"
            f" {_BRACKET} rubric=pass_fail {_CLASSES.format('fail', 'pass')}",
        ),
    ),
    Golden(
        "turns",
        (
            f"run --output run {_panel('good', 'class_biased', 'faulty')} dataset=file dataset.path=imports/turns.jsonl"
            f" dataset.unit=turn mode=pointwise criteria=overall {_BRACKET} rubric=pass_fail",
        ),
        page_data=True,
    ),
    Golden(
        "audit",
        (
            _run(
                *_QUICK,
                "dataset.limit=6",
                "probe=[repeat,order,padding,authority,refusal]",
                command="audit",
            ),
        ),
    ),
    Golden(
        "audit_zh",
        (
            _run(
                *_POINTWISE,
                "dataset.limit=2",
                "probe=[repeat,markdown,master_key]",
                "prompt=zh",
                "criteria=truthful_zh",
                command="audit",
                judge="master_key",
            ),
        ),
    ),
    Golden(
        "audit_paraphrase",
        (
            _run(
                *_QUICK,
                "dataset.limit=3",
                "probe=[repeat,paraphrase]",
                "probe.rewriter=openai_compatible probe.rewriter.model=openai/rewriter",
                f"probe.rewriter.api_base=http://127.0.0.1:{PORT}/v1",
                command="audit",
            ),
            *_export("paraphrases"),
        ),
    ),
    Golden(
        "sweep",
        (
            _run(
                *_QUICK,
                "judge.model=openai/good,openai/position_biased swap=both,none -m",
                to="sweep",
            ),
        ),
    ),
    Golden(
        "sweep_methods",
        (
            _run(
                *_GRADED,
                "criteria=overall method=pairwise,direct5,direct10 -m",
                judge="noisy",
                to="sweep",
            ),
        ),
    ),
    Golden(
        "sweep_audit",
        (
            _run(
                *_QUICK,
                "dataset.limit=3",
                "probe=[repeat,order]",
                "judge.model=openai/good,openai/position_biased -m",
                command="audit",
                to="sweep",
            ),
        ),
    ),
)

_PAIRS = (
    *("alpaca_eval", "arena_hard", "arena_hard_v0.1", "auto_j", "faireval", "helpsteer_preference"),
    "helpsteer3",
)
_PAIRS += ("judgebench", "llmbar", "mt_bench", "pandalm", "rewardbench", "shp")
_SCORES = ("halluqa", "helpsteer", "prometheus/feedback_bench.json", "prometheus/vicuna_eval.json")
_SCORES += ("summeval", "topical_chat", "rewardbench2", "rm_bench")
_ITEMS = ("healthbench", "devai", "paperbench", "wildbench")
_BENCHMARKS = {
    "arena_hard_v0.1": "arena_hard",
    "helpsteer_preference": "helpsteer",
    "helpsteer3": "helpsteer",
}
_ALSO = {
    "llmbar": "swap=none",
    "summeval": "criteria=summeval",
    "topical_chat": "criteria=topical_chat",
}
_ALSO |= {
    "helpsteer": "criteria=helpsteer rubric=helpsteer",
    "mt_bench": "scoring.cluster=question_id",
}


def _benchmark(path: str, mode: str) -> Golden:
    folder, _, file = path.partition("/")
    also = _ALSO.get(folder, "" if mode == "checklist" else "criteria=overall")
    output = (
        "output=rating" if mode == "pointwise" and also == "criteria=overall" else "output=json"
    )
    output = _BRACKET if mode == "pairwise" else output
    words = (
        *(f"dataset={_BENCHMARKS.get(folder, folder)}", f"dataset.path=files/{path}"),
        *(f"mode={mode}", output, also),
    )
    return _study(f"benchmark_{folder}{'_vicuna' if file.startswith('vicuna') else ''}", run=words)


_IMPORTS = (
    *("alpaca_eval", "arena_hard", "deepeval", "devai", "halluqa", "inspect", "judgebench"),
    "llm_rubric",
)
_IMPORTS += (
    *("llmbar", "mt_bench", "openai_batch", "paperbench", "prometheus", "promptfoo", "qlora"),
    "reward_bench",
)
_IMPORTS += ("unieval", "wildbench", "icescore", "mlflow_traces", "pydantic_evals")
_AGAIN = {
    "alpaca_eval": _export("alpaca_eval"),
    "arena_hard": _export("mt_bench"),
    "qlora": _export("csv"),
}


def _import(name: str) -> Golden:
    return Golden(
        f"import_{name}", (f"import {name} imports/{name} --output run", *_AGAIN.get(name, ()))
    )


_GENERIC = (
    Golden(
        "import_pairs", ("import generic imports/pairs.jsonl --output run", *_export("alpaca_eval"))
    ),
    Golden(
        "import_scores",
        (
            "import generic imports/scores.csv --output run --fields score.style=style score.truth=truth grade=grade",
        ),
    ),
    Golden(
        "import_classes",
        (
            "import generic imports/classes.csv --output run --fields class=verdict --map ok=pass --map bad=fail"
            " rubric=pass_fail",
        ),
    ),
)

_OLD_STORE = "store.url=v0.2.0/answers.store"
_OLD = Golden(
    "v0.2.0",
    (
        "copy v0.2.0/pairs pairs",
        "score pairs",
        "copy v0.2.0/scores scores",
        "score scores",
        "compare v0.2.0/pairs pairs metrics=[agreement/accuracy] bootstrap=200 --output compared",
        f"store stats {_OLD_STORE}",
        _run(*_QUICK, _OLD_STORE, "dataset.limit=8", judge="faulty", to="pairs_again"),
        _run(*_POINTWISE, _OLD_STORE, to="scores_again"),
    ),
)
"""Folders and answers that evalkit 0.2.0 wrote (without pages and figures), read today."""

GOLDEN = {
    golden.name: golden
    for golden in (
        *_MODES,
        *(_benchmark(path, "pairwise") for path in _PAIRS),
        *(_benchmark(path, "pointwise") for path in _SCORES),
        *(_benchmark(path, "checklist") for path in _ITEMS),
        *map(_import, _IMPORTS),
        *_GENERIC,
        _OLD,
    )
}
"""Every golden run by its name."""
