"""The config groups, each frozen and checked; with `data`, the only place where a setting has a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evalkit.core.scale import Scale

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]


def _one_line(name: str) -> str:
    if not name.strip() or "\n" in name:
        raise ValueError("must be a non-empty name on one line")
    return name


Name = Annotated[str, AfterValidator(_one_line)]
Levels = dict[float, str]
SIMULATED = "simulated/"
"""What the models of simulated judges begin with: they are functions with known faults, and no models."""
_SHORT_SCALE = 10
Spelling = Annotated[str, Field(coerce_numbers_to_str=True)]


class Section(BaseModel):
    """Base of every config group: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class PluginSection(Section):
    """Base of a group whose key `named` names code, also other people's; `_target_` is another spelling of that key."""

    named: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _targeted(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "_target_" not in given:
            return given
        rest = {key: value for key, value in given.items() if key != "_target_"}
        return rest if given["_target_"] is None else {**rest, cls.named: given["_target_"]}


class Price(Section):
    """US$ for a million tokens."""

    input: Weight
    output: Weight


class JudgeConfig(Section):
    """The judge model and how it is sampled; with `judges`, a panel of them.

    `logprobs` asks for the probabilities of the tokens that spell each decision, and judges by expectations; `fallback`
    does without where a provider gives none. Sample k of a judge with a `seed` is drawn with seed + k.

    `transport` is the way to it: `litellm` for every provider, or `direct` for an OpenAI-compatible server at
    `api_base` (vLLM, SGLang, llama.cpp, Ollama's /v1, a LiteLLM proxy): the same requests, answers and keys at a tenth
    of the work. An answer of more than `max_answer_bytes`, decompressed, is a failed call.

    A panel's verdicts are its judges' `vote`: the most frequent winner (of scores, the median), or the mean, median or
    `weighted` mean of margins or scores, by judge name in `weights` (1 if not there). At least `quorum` judges must
    have a verdict, by default half of them.
    """

    name: str | None = None
    model: str | None = None
    api_base: str | None = None
    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    seed: int | None = None
    params: dict[str, Any] = {}
    response_format: Literal["auto", "json_schema", "tool", "json_object", "text"] = "auto"
    logprobs: bool | Literal["fallback"] = False
    transport: Literal["litellm", "direct"] = "litellm"
    concurrency: Annotated[int, Field(gt=0)] | None = None
    rpm: Annotated[float, Field(gt=0)] | None = None
    tpm: Annotated[float, Field(gt=0)] | None = None
    price: Price | None = None
    max_answer_bytes: Annotated[int, Field(gt=0)] = 4_000_000
    judges: tuple[JudgeConfig, ...] | None = None
    vote: Literal["majority", "mean", "median", "weighted"] = "majority"
    quorum: Annotated[int, Field(gt=0)] | None = None
    weights: dict[str, Weight] = {}

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        if self.judges is None and not self.model:
            raise ValueError("model is not set: name a LiteLLM model, for example judge.model=openai/gpt-4o-mini")
        if self.judges is not None and not self.judges:
            raise ValueError("judges is empty: a panel needs at least one judge")
        return self

    @model_validator(mode="after")
    def _votes(self) -> Self:
        names = [member.label for member in self.members]
        if unknown := sorted(set(self.weights) - set(names)):
            raise ValueError(f"weights has '{unknown[0]}', which is no judge of it: choose from {', '.join(names)}")
        if self.vote == "weighted" and not any(self.weights.get(name, 1.0) for name in names):
            raise ValueError("every judge's weight is 0: give at least one judge a weight above 0")
        if self.quorum is not None and self.quorum > len(names):
            raise ValueError(f"quorum is {self.quorum}, of {len(names)} judges: set it to at most that")
        return self

    @property
    def members(self) -> tuple[JudgeConfig, ...]:
        """The judges of a panel, those of panels within it included, or the one judge itself."""
        return (self,) if self.judges is None else tuple(one for judge in self.judges for one in judge.members)

    @property
    def weighs(self) -> bool:
        """Whether it, or any judge of the panel, is asked for log-probabilities."""
        return any(member.logprobs for member in self.members)

    @property
    def label(self) -> str:
        """The name it goes by in file names, runs and tables."""
        if self.simulated and not self.name:
            return (self.model or "").replace("/", "_")
        return self.name or (self.model or "panel").rsplit("/", 1)[-1]

    @property
    def simulated(self) -> bool:
        """Whether it is a simulated judge."""
        return (self.model or "").startswith(SIMULATED)


class ModeConfig(PluginSection):
    """How responses are put to the judge; `params` are a plug-in's own settings.

    `samples` is how often the same is asked; with `commit_first` the judge answers the task itself before it judges.
    """

    named: ClassVar[str] = "name"

    name: Name = "pairwise"
    samples: Annotated[int, Field(gt=0)] = 1
    commit_first: bool = False
    params: dict[str, Any] = {}


class Criterion(Section):
    """One thing to judge by; weights are normalised to sum to 1. Its `levels` stand in place of the rubric's.

    A text alone is its description.
    """

    description: Spelling = ""
    weight: Weight = 1.0
    levels: Levels = {}

    @model_validator(mode="before")
    @classmethod
    def _described(cls, given: Any) -> Any:
        if isinstance(given, int | float):
            raise ValueError("is neither a description nor settings: write a text, or {weight: NUMBER}")
        return {"description": given} if isinstance(given, str) else {} if given is None else given


def criteria_by_name(given: Any) -> Any:
    """Return criteria as a mapping by name, of a list of them with their names too, as configs once had them.

    Raises:
        ValueError: if one is named twice.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        inner = given.get("criteria")
        # A file in conf/criteria that begins with `criteria:`.
        nested = isinstance(inner, list) or (
            isinstance(inner, Mapping) and not set(inner) <= set(Criterion.model_fields)
        )
        named = {str(name): one for name, one in given.items() if not (nested and name == "criteria")}
        return {**named, **criteria_by_name(inner)} if nested else named
    if not isinstance(given, list | tuple) or not all(isinstance(one, Mapping) and "name" in one for one in given):
        return given
    names = [str(one["name"]) for one in given]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"'{repeated[0]}' is named twice: give each criterion its own name")
    settings = ({key: value for key, value in one.items() if key != "name"} for one in given)
    return dict(zip(names, settings, strict=True))


Criteria = Annotated[dict[Name, Criterion], BeforeValidator(criteria_by_name)]


class Example(Section):
    """A scored response shown to the judge for calibration.

    `prompt` is the task that it answers; `scores` has its score by criterion. A single `score` for the whole response
    may take the place of `scores`.
    """

    response: str
    justification: str
    prompt: str | None = None
    scores: dict[str, float] = {}
    score: float | None = None

    @model_validator(mode="after")
    def _scored_once(self) -> Self:
        if bool(self.scores) == (self.score is not None):
            raise ValueError("give either scores (a score for each criterion) or a single score")
        return self

    def scored(self) -> list[tuple[str, float]]:
        """Return each of its scores with its key, such as `scores.accuracy`."""
        named = [(f"scores.{name}", score) for name, score in self.scores.items()]
        return named if self.score is None else [("score", self.score)]


class RubricConfig(Section):
    """The scale of scores: `min` to `max` by `step`, what its levels mean, and examples for calibration.

    `examples_path` names a file of additional examples, one JSON object per line with `prompt`, `response`, `scores`
    (by criterion) and `justification`; composing the config moves them to `examples` and clears the path.
    """

    min: float = 1
    max: float = 5
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1
    levels: Levels = {}
    examples: tuple[Example, ...] = ()
    examples_path: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if problem := self.scale.problem():
            raise ValueError(problem)
        return self

    @property
    def scale(self) -> Scale:
        """The scale that it describes."""
        return Scale.of(self)

    def calibrated_levels(self) -> list[float]:
        """Return the levels that examples should cover: those with a description, else every value of a short scale."""
        values = self.scale.values() if len(self.scale) <= _SHORT_SCALE else (self.min, self.max)
        return sorted(self.levels) or list(values)


class SwapConfig(Section):
    """Whether pairs are shown in both orders, and what a disagreement between the orders becomes.

    `arbiter` is the judge that gives the third judgment of `third_pass`; without one, the same judge gives it.
    """

    policy: Literal["none", "both", "random"] = "both"
    resolve: Literal["tie", "lower_confidence", "net_vote", "mean", "third_pass"] = "tie"
    arbiter: JudgeConfig | None = None

    @model_validator(mode="after")
    def _one_arbiter(self) -> Self:
        if self.arbiter is not None and self.arbiter.judges is not None:
            raise ValueError("arbiter is a panel: name one judge")
        return self


class TieConfig(Section):
    """When two responses count as equal: `threshold` in margin (pairwise, 0-1) or scale units (pointwise)."""

    allow: bool = True
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    min_confidence: Fraction = 0.0


class PromptConfig(Section):
    """Which template, in which language; `template` is a name, or a path.

    With `show_weights` prompts tell the judge the weights of criteria, where they differ. Changing one then asks again.
    """

    language: Name = "en"
    template: str | None = None
    show_weights: bool = False


class OutputConfig(PluginSection):
    """How the judge must answer, and how a completion is read.

    `instruction` is what the prompt tells the judge about the form of its answer, in place of the format's own text.
    With `graded`, format bracket gives a verdict of better (`[[A>B]]`) a third of the margin of much better
    (`[[A>>B]]`), as Arena-Hard weighs them.
    """

    named: ClassVar[str] = "format"

    format: Name = "json"
    graded: bool = False
    instruction: Annotated[str, Field(min_length=1)] | None = None
    pattern: str | None = None
    map: dict[Spelling, Literal["A", "B", "TIE"]] = {}
    take: Literal["last", "first", "only"] = "last"


class ScoringConfig(Section):
    """How judgments become numbers; changing any of it calls no judge.

    `aggregate` says what a pair's margin is made of: the judge's `overall` winner, or the weighted mean of its winners
    by `criteria`; `auto` weighs them where weights differ (those given here come before the criteria's own), and takes
    the overall winner where they are equal or the output names no winners by criterion. `conflict_edges` says what
    counts as an edge when cycles are looked for: a win in the `verdict`, the `net` of the two orders' votes, a win on
    which `both` orders agree, a win in a `single` order (the one of the case), or as the verdict with `ties` as edges
    both ways. `combine` makes one number of the samples of one question: their mean, their median, or the value that
    most of them have (the mean of several such values); so it does of values by criterion, but a panel's. `weighted`
    judges by expectations where `judge.logprobs` asked for them. `length_control` takes out of scores what a response's
    length adds to them; pairs have `length/controlled_win_rate` whatever it is. `alt_test_epsilon` is how much more a
    person's label may be worth than the judge's in the alternative annotator test: 0.2 for experts, 0.1 for crowd
    workers. `margin` is how far a cheaper configuration of a sweep may be behind the best, in accuracy or correlation,
    and still be recommended. `cluster` is the column whose equal values make cases a
    cluster, the unit of resampling in every interval and test: by default the prompt, where several cases share one;
    `id` makes each case its own.
    """

    normalize: Literal["none", "zscore", "minmax", "rank"] = "none"
    weights: dict[str, Weight] = {}
    aggregate: Literal["auto", "overall", "criteria"] = "auto"
    combine: Literal["mean", "median", "majority"] = "mean"
    weighted: bool = True
    conflict_edges: Literal["verdict", "net", "both", "single", "ties"] = "verdict"
    length_control: bool = False
    alt_test_epsilon: Fraction = 0.2
    margin: Fraction = 0.05
    cluster: str | None = None
    bootstrap: Annotated[int, Field(ge=0)] = 2000
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    seed: int = 0


class StoreConfig(Section):
    """Where completions are kept; `url` defaults to an SQLite file in the user's cache folder."""

    url: str | None = None
    mode: Literal["read_write", "read_only", "refresh", "off"] = "read_write"


class RunnerConfig(Section):
    """How requests are sent; `timeout` in seconds for one attempt, `retries` after the first.

    `budget_scope` says whether the budget is for each run, or for all jobs of a sweep together.
    A run exits with 2 if more than `max_failure_rate` of its requests failed, or more than `max_unusable_rate` of its
    answers are missing: failed, refused or not readable.
    """

    concurrency: Annotated[int, Field(gt=0)] = 16
    timeout: Annotated[float, Field(gt=0)] = 120.0
    retries: Annotated[int, Field(ge=0)] = 4
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    budget_calls: Annotated[int, Field(ge=0)] | None = None
    budget_scope: Literal["run", "sweep"] = "run"
    max_failure_rate: Fraction = 0.05
    max_unusable_rate: Fraction = 0.5


class TrackingConfig(PluginSection):
    """Where runs are recorded; `traces` is how many judgments become MLflow traces.

    `tracker` is `mlflow` or a plug-in's, of which `params` are the settings of its own.
    """

    named: ClassVar[str] = "tracker"

    enabled: bool = True
    tracker: Name = "mlflow"
    uri: str | None = None
    experiment: Name = "evalkit"
    run_name: str | None = None
    tags: dict[str, str] = {}
    traces: Annotated[int, Field(ge=0)] = 10
    params: dict[str, Any] = {}
