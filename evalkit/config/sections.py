"""The config groups; only this module, `rubric` and `data` define defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from evalkit.config.kinds import (
    FreeParameters,
    Model,
    Program,
    ReadPath,
    Server,
    Settings,
    Text,
    WrittenPath,
)
from evalkit.config.section_base import Section
from evalkit.core.checklists import read_items
from evalkit.core.types import ChecklistItem

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]


def _one_line(name: str) -> str:
    if not name.strip() or "\n" in name:
        raise ValueError("must be a non-empty name on one line")
    return name


Name = Annotated[Text, AfterValidator(_one_line)]
CodeName = Annotated[Program, AfterValidator(_one_line)]
Levels = dict[float, Text]
SIMULATED = "simulated/"
"""The prefix of simulated judges' models, which are functions with known faults."""
CHECKLIST = "checklist"
SCORED_MODES = ("pointwise", CHECKLIST)
REWARDS = ("classify", "pooling", "score")
"""The values of `judge.endpoint` that answer with numbers or a label instead of text."""
DECISIONS = ("systemone", "decisions")
"""The values of `judge.endpoint` that answer questions with probabilities of given choices."""
Spelling = Annotated[Text, Field(coerce_numbers_to_str=True)]


class PluginSection(Section):
    """Base of a group whose key `named` selects code, including plug-ins; `_target_` is
    an alias of that key.
    """

    named: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _alias_target(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "_target_" not in value:
            return value
        remaining = {key: part for key, part in value.items() if key != "_target_"}
        if value["_target_"] is None:
            return remaining
        return {**remaining, cls.named: value["_target_"]}


class Price(Section):
    """Price of a judge model's tokens."""

    input: Weight
    """US dollars per million prompt tokens."""
    output: Weight
    """US dollars per million answer tokens."""


class JudgeConfig(Section):
    """The judge model and how it is called, or a panel of judges."""

    name: Name | None = None
    """Name in reports, file names and MLflow; by default the last part of `model`."""
    model: Model | None = None
    """LiteLLM model name, such as `openai/gpt-4o-mini`; required unless `judges` is set."""
    api_base: Server | None = None
    """URL of an OpenAI-compatible server (vLLM, SGLang, llama.cpp, Ollama's `/v1`, a LiteLLM
    proxy)."""
    endpoint: Literal[
        "chat",
        "completion",
        "classify",
        "pooling",
        "score",
        "systemone",
        "decisions",
    ] = "chat"
    """What the server is asked for: a `chat` answer, the `completion` of a text, the reward of a
    conversation (`classify`, `pooling` or `score`, as vLLM, SGLang and TEI name them), which needs
    `mode=pointwise`, or a decision model's probabilities of given choices (`systemone` or
    `decisions`, as LiteLLM names the two protocols).
    """
    template: ReadPath | None = None
    """With `classify` and `pooling`: Jinja file that renders the conversation, for a model without
    a chat template."""
    context: Annotated[int, Field(gt=0)] | None = None
    """Context length in tokens; by default as reported by the server or in LiteLLM's list."""
    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    """Sampling temperature; `null` leaves it to the provider."""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """Longest answer in tokens; `null` leaves it to the provider."""
    seed: int | None = None
    """Sampling seed, if the provider supports one; sample k uses `seed` + k."""
    params: FreeParameters = {}
    """Additional parameters of the request, passed on unchanged."""
    headers: dict[str, Text] = {}
    """Additional headers of each request; credentials belong into the provider's environment
    variable."""
    system: Literal["system", "user"] = "system"
    """The role of the judge's instructions; `user` puts them into the first user message, for a
    model without a system role. After a refusal that is done without asking."""
    max_string: Annotated[int, Field(gt=0)] | None = None
    """Longest string in a JSON answer, in characters, for a model that repeats itself; the schema
    that is sent has it as a bound."""
    response_format: Literal["auto", "json_schema", "tool", "json_object", "text"] = (
        "auto"
    )
    """How structured answers are requested; `auto` chooses the best that the model supports."""
    logprobs: bool | Literal["fallback"] = False
    """Request token probabilities and judge by expected values; `fallback` does without them if
    there are none."""
    transport: Program = "litellm"
    """How requests are sent: `litellm` for every provider, `direct` for an OpenAI-compatible
    server, with a tenth of the CPU time, or the name of a plug-in.
    """
    vision: bool | None = None
    """Whether the model sees pictures; by default as in LiteLLM's list."""
    concurrency: Annotated[int, Field(gt=0)] | None = None
    """Maximum number of concurrent calls to this judge; by default `runner.concurrency`."""
    rpm: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of requests per minute."""
    tpm: Annotated[float, Field(gt=0)] | None = None
    """Maximum number of tokens per minute."""
    price: Price | None = None
    """Token prices, if LiteLLM does not know those of the model."""
    max_answer_bytes: Annotated[int, Field(gt=0)] = 4_000_000
    """Longest answer in bytes, decompressed; a longer answer is a failed call."""
    look: Text | None = None
    """Keeps answers apart from stored ones to the same requests; set by `evalkit watch`,
    differently for each look."""
    judges: tuple[JudgeConfig, ...] | None = None
    """The judges of a panel, each with the keys of `judge`."""
    vote: Literal[
        "majority", "dawid_skene", "mean", "median", "weighted", "cascade"
    ] = "majority"
    """How a panel decides: the most frequent winner (the median of scores), the most probable
    winner or class by the judges' errors as estimated without labels (`dawid_skene`), or the mean,
    median or weighted mean of margins or scores. In a `cascade`, the first judge that is sure
    enough decides, and the next ones are not asked.
    """
    target: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """With `vote: cascade`: the least agreement with labels of the cases that the cascade
    decides."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """With `vote: cascade`: the probability that their agreement is lower anyway."""
    last: Literal["abstain", "answer"] = "abstain"
    """With `vote: cascade`: whether the last judge abstains where it is not sure enough, or answers
    without the guarantee.
    """
    calibration: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """With `vote: cascade`: share of the labeled clusters whose labels choose how sure a judge must
    be; the other labels are for the report.
    """
    thresholds: tuple[Annotated[float, Field(ge=0, le=1)] | None, ...] | None = None
    """With `vote: cascade`: how sure each judge must be to decide, as in `cascade.json` of a run
    with labels; `null` for a judge that never decides. By default the labels choose them.
    """
    quorum: Annotated[int, Field(gt=0)] | None = None
    """How many judges must have a verdict; by default half of the panel."""
    weights: dict[str, Weight] = {}
    """Weight of each judge by name, for `vote: weighted`; 1 for a judge that is not listed."""

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        if self.judges is None and not self.model:
            raise ValueError(
                "model is not set: choose a LiteLLM model, for example model=openai/gpt-4o-mini"
            )
        if self.judges is not None and not self.judges:
            raise ValueError("judges is empty: a panel needs at least one judge")
        return self

    @model_validator(mode="after")
    def _endpoints(self) -> Self:
        if self.judges is not None or self.endpoint == "chat":
            return self
        if self.template is not None and self.endpoint not in ("classify", "pooling"):
            raise ValueError("template is for classify and pooling: remove it")
        # Only chat has an address that a provider's name implies.
        if self.simulated or (self.api_base is None and not self.decides):
            raise ValueError(
                f"endpoint is {self.endpoint}, which needs a server: set api_base, and the model's"
                " name"
            )
        if self.logprobs:
            raise ValueError(
                f"logprobs does not work with endpoint={self.endpoint}: set it to false"
            )
        # A reward of half a response looks like any other.
        if self.rewards and "truncate_prompt_tokens" in self.params:
            raise ValueError(
                "params.truncate_prompt_tokens cuts texts unnoticed: remove it, and set"
                " dataset.fit=ends"
            )
        # A verdict cut off after 16 tokens would be unreadable, and all of them paid for.
        if self.endpoint == "completion" and self.max_tokens is None:
            raise ValueError(
                "endpoint is completion, whose answers servers cut off at 16 tokens: set max_tokens"
            )
        return self

    @model_validator(mode="after")
    def _check_votes(self) -> Self:
        """Check that the settings of a vote or cascade fit the number of judges.

        Raises:
            ValueError: If one does not.
        """
        names = [member.label for member in self.members]
        if unknown := sorted(set(self.weights) - set(names)):
            raise ValueError(
                f"weights has '{unknown[0]}', which is not one of its judges: choose from"
                f" {', '.join(names)}"
            )
        # A weight that is not listed is 1, so only listed zeros can do this.
        if self.vote == "weighted" and not any(
            self.weights.get(name, 1.0) for name in names
        ):
            raise ValueError(
                "every judge's weight is 0: give at least one judge a weight above 0"
            )
        # With two judges who disagree, nothing shows which one errs.
        if self.vote == "dawid_skene" and len(names) < 3:
            raise ValueError(
                f"vote is dawid_skene, which needs three judges, but there are {len(names)}: add"
                " judges, or set vote=majority"
            )
        if self.cascades and any(
            judge.judges is not None for judge in self.judges or ()
        ):
            raise ValueError("judges of a cascade include a panel: list single judges")
        if self.cascades and len(names) < 2:
            raise ValueError(
                "a cascade needs two judges, but there is only one: add judges, cheapest first"
            )
        if (
            self.cascades
            and self.thresholds is not None
            and len(self.thresholds) != len(names)
        ):
            raise ValueError(
                f"thresholds has {len(self.thresholds)} values, and there are {len(names)} judges:"
                " give one for each"
            )
        if self.quorum is not None and self.quorum > len(names):
            raise ValueError(
                f"quorum is {self.quorum}, but there are {len(names)} judges: choose at most that"
                " number"
            )
        return self

    @property
    def members(self) -> tuple[JudgeConfig, ...]:
        """The judges of a panel, including those of nested panels, or the judge itself."""
        if self.judges is None:
            return (self,)
        # Depth first, as in the config: the index of a member is the index of its answers.
        return tuple(member for judge in self.judges for member in judge.members)

    @property
    def in_turn(self) -> tuple[JudgeConfig, ...]:
        """What is asked in turn: each judge of a cascade, or the judge or panel itself."""
        if self.cascades:
            return self.members
        return (self,)

    @property
    def cascades(self) -> bool:
        """Whether judges are asked in turn, each only where those before are not sure."""
        return self.judges is not None and self.vote == "cascade"

    @property
    def calibrates(self) -> bool:
        """Whether labels choose how sure the judges of a cascade must be."""
        return self.cascades and self.thresholds is None

    @property
    def rewards(self) -> bool:
        """Whether it, or every judge of the panel, is a reward model or a classifier."""
        return all(judge.endpoint in REWARDS for judge in self.members)

    @property
    def decides(self) -> bool:
        """Whether it, or every judge of the panel, is a decision model."""
        return all(member.endpoint in DECISIONS for member in self.members)

    @property
    def writes(self) -> bool:
        """Whether it, or a judge of the panel, answers with a text."""
        return any(
            member.endpoint not in (*REWARDS, *DECISIONS) for member in self.members
        )

    @property
    def probabilities(self) -> bool | Literal["fallback"]:
        """Whether its answers have probabilities: those of a decision model, or of tokens."""
        if self.decides:
            return True
        return self.logprobs

    @property
    def weighs(self) -> bool:
        """Whether this judge, or any judge of the panel, answers with probabilities."""
        return any(member.probabilities for member in self.members)

    @property
    def label(self) -> str:
        """The judge's name in file names, runs and tables."""
        if self.simulated and not self.name:
            return (self.model or "").replace("/", "_")
        return (
            self.name
            or ("panel" if self.judges is not None else self.model or "panel").rsplit(
                "/", 1
            )[-1]
        )

    @property
    def simulated(self) -> bool:
        """Whether it is a simulated judge."""
        return (self.model or "").startswith(SIMULATED)


class ModeConfig(PluginSection):
    """How responses are shown to the judge."""

    named: ClassVar[str] = "name"

    name: CodeName = "pairwise"
    """`pairwise`, `pointwise`, `listwise`, `checklist`, or the name of a plug-in's mode."""
    samples: Annotated[int, Field(gt=0)] = 1
    """Number of samples of each request."""
    commit_first: bool = False
    """Let the judge answer the task itself before it judges."""
    ask: Literal["each", "together"] | Annotated[int, Field(gt=0)] = "each"
    """With `checklist`: ask for each item alone, for all items `together`, or for this many items
    in one request."""
    checklist: tuple[Settings | Text, ...] = ()
    """With `checklist`: items of all cases, before those of the case. An item is a text, or
    `criterion` with optional `id`, `points`, `weight`, `required`, `after` (ids), `tags`, and
    `parts` (items).
    """
    params: Settings = {}
    """Settings of a plug-in's mode."""

    @field_validator("checklist")
    @classmethod
    def _items(
        cls, value: tuple[dict[str, Any] | str, ...]
    ) -> tuple[dict[str, Any] | str, ...]:
        if value and any(item.labels for item in read_items(value, prefix="")):
            raise ValueError(
                "an item of all cases has a label: label the items of cases in the dataset"
            )
        return value

    @property
    def items(self) -> tuple[ChecklistItem, ...]:
        """The checklist items of all cases, named by their numbers unless they have ids."""
        items = read_items(self.checklist, prefix="") if self.checklist else ()
        return tuple(replace(item, numbered=False) for item in items)

    @property
    def scores(self) -> bool:
        """Whether it scores single responses."""
        return self.name in SCORED_MODES


class SwapConfig(Section):
    """Whether pairs are shown in both orders, and what a disagreement becomes."""

    policy: Literal["none", "both", "random"] = "both"
    """Show each pair in both orders, in the order of the data (`none`), or in one order chosen by a
    hash (`random`)."""
    resolve: Literal["tie", "lower_confidence", "net_vote", "mean", "third_pass"] = (
        "tie"
    )
    """What a disagreement becomes: a tie, the more confident order's verdict with lowered
    confidence, the winner against a tie (`net_vote`), the mean of the margins, or a third judgment.
    """
    arbiter: JudgeConfig | None = None
    """The judge that gives the third judgment for `third_pass`, with the keys of `judge`; by
    default the same judge."""

    @model_validator(mode="after")
    def _one_arbiter(self) -> Self:
        if self.arbiter is not None and self.arbiter.judges is not None:
            raise ValueError("arbiter is a panel: choose a single judge")
        return self


class TieConfig(Section):
    """When two responses count as equal."""

    allow: bool = True
    """Let the judge answer that two responses are equal."""
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Smaller differences are ties: of margins (pairwise, 0 to 1) or of scores (pointwise)."""
    min_confidence: Fraction = 0.0
    """Verdicts with lower confidence are ties."""


class SourceConfig(Section):
    """How a third-party template is read from its authors' file, which is `prompt.template`."""

    url: Text
    """Where to get the file."""
    text: tuple[Text, ...] = ("",)
    """Names of the texts in a Python file that are joined by line breaks, such as
    `[SYSTEM, PROMPT]`; `NAME[1]` is the second text with a name.
    """
    when: dict[Literal["context", "reference"], tuple[Text, ...]] = {}
    """Names of the texts that are used instead if a case has this field."""
    fields: dict[str, Text] = {}
    """What each placeholder of the texts is: a placeholder of evalkit's templates, or an expression
    of them, or another text in the file. A placeholder that is not listed is the text or the
    placeholder with its name.
    """


class PromptConfig(Section):
    """Which prompt template is used, and in which language."""

    language: Annotated[ReadPath, AfterValidator(_one_line)] = "en"
    """Folder of `prompts/` with the templates, such as `en` or `zh`."""
    template: ReadPath | None = None
    """Name or path of a template; by default the mode's own."""
    show_weights: bool = False
    """Show the criteria's weights to the judge if they differ; changing a weight then changes the
    prompts."""
    source: SourceConfig | None = None
    """How `template` is read, if it is a third-party template in the file of its authors."""

    @model_validator(mode="after")
    def _sourced(self) -> Self:
        if self.source is not None and self.template is None:
            raise ValueError(
                f"template is not set: download it from {self.source.url} and set"
                " prompt.template=PATH"
            )
        return self


class OutputConfig(PluginSection):
    """How the judge formats its answer, and how the answer is parsed."""

    named: ClassVar[str] = "format"

    format: CodeName = "json"
    """`json`, `bracket`, `rating`, `regex`, or the name of a plug-in's format."""
    graded: bool = False
    """With `bracket`: better (`[[A>B]]`) is a third of the margin of much better (`[[A>>B]]`), as
    in Arena-Hard."""
    instruction: Annotated[Text, Field(min_length=1)] | None = None
    """Text that specifies the form of the answer; by default the format's own."""
    pattern: Text | None = None
    """With `regex`: a regular expression with a group `winner`, `score` or `class`."""
    map: dict[Spelling, Spelling] = {}
    """With `regex`: what each matched text means: A, B or TIE, or a class."""
    take: Literal["last", "first", "only"] = "last"
    """Which match counts if there are several."""

    @property
    def structured(self) -> bool:
        """Whether answers are evalkit's JSON: only they name winners by criterion, and
        show where a decision is.
        """
        return self.format == "json"


class ScoringConfig(Section):
    """How judgments become metrics; changing any of these settings makes no calls."""

    normalize: Literal["none", "zscore", "minmax", "rank"] = "none"
    """How each judge's scores are normalized before they are compared."""
    weights: dict[str, Weight] = {}
    """Weights of criteria for scoring only; they override `criteria.NAME.weight`."""
    aggregate: Literal["auto", "overall", "criteria", "criteria_first"] = "auto"
    """What a pair's margin is: the judge's `overall` winner, or the weighted mean of its winners by
    `criteria`, which can cancel out to a tie. With `criteria_first`, the overall winner then
    decides. `auto` is `criteria_first` if the weights differ and the answer names a winner for each
    criterion, and otherwise `overall`.
    """
    combine: Literal["mean", "median", "majority"] = "mean"
    """How several samples become one number; `majority` takes the mean of the most frequent
    values."""
    checklist: Literal["points", "weighted", "share", "required"] = "points"
    """How checklist items become a score from 0 to 1: the `points` met over all positive points,
    the weighted mean of the parts at each level of the tree (`weighted`), the `share` of items, or
    1 if all `required` items (all items, if none is marked) are fulfilled. An item with negative
    points is fulfilled if it is not met.
    """
    weighted: bool = True
    """Judge by expected values if `judge.logprobs` requested token probabilities."""
    conflict_edges: Literal["verdict", "net", "both", "single", "ties"] = "verdict"
    """What counts as a win when cycles are searched: the `verdict`, the `net` vote of the orders, a
    win in `both` orders, a win in the `single` order of the case, or the verdict with `ties` as
    edges both ways.
    """
    length_control: bool = False
    """Remove the effect of a response's length from scores."""
    alt_test_epsilon: Fraction = 0.2
    """Advantage of an annotator over the judge in the alternative annotator test: 0.2 for experts,
    0.1 for crowd workers.
    """
    margin: Fraction = 0.05
    """Differences up to this size do not matter: the accuracy or correlation of a cheaper job of a
    sweep, or of fewer judges of a panel, the accuracy of a run after another (`drift`), and the
    mean of a system's corrected scores as a share of the scale.
    """
    cluster: Text | None = None
    """Column whose equal values form a cluster, the unit of resampling; by default the conversation
    of turns or steps, or the prompt, if several cases share one. `id` makes each case its own
    cluster.
    """
    slices: list[Name] = []
    """Columns by which the main metrics are repeated, such as `language`: each value is a slice,
    and quarters of the cases if a column has many numbers. If no column has the name, `length` is
    the mean length of a case's responses, and `annotator` is who labeled it.
    """
    search: Literal["all", "listed", "none"] = "all"
    """Which columns are searched for slices in which a judge is worse: `all` with few values, with
    numbers or dates in bins, and the length of responses; only those `listed` in `slices`; or
    `none`.
    """
    bootstrap: Annotated[int, Field(ge=0, le=100_000)] = 2000
    """Number of bootstrap resamples; 0 omits intervals."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level of intervals and tests."""
    seed: int = 0
    """Seed of the bootstrap."""

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        if twice := [
            name
            for position, name in enumerate(self.slices)
            if name in self.slices[:position]
        ]:
            raise ValueError(f"slices names '{twice[0]}' twice: name each column once")
        return self


class StoreConfig(Section):
    """Where answers are stored."""

    url: WrittenPath | None = None
    """File or URL of the store; by default an SQLite file in the user's cache folder, or
    `EVALKIT_STORE`."""
    mode: Literal["read_write", "read_only", "retry", "refresh", "off"] = "read_write"
    """`read_write`, `read_only`, `retry` (request stored answers again that this run cannot use),
    `refresh` (request again and store), or `off` (neither read nor store)."""


class StopConfig(Section):
    """When a run has asked enough: its metric is known to a width, at any number of cases."""

    metric: Name
    """Metric that must be known: a mean of values with a known range, such as `win_rate/a`."""
    width: Annotated[float, Field(ge=0.005)]
    """Width of its confidence sequence at which no more cases are judged."""
    seed: int = 0
    """Seed of the random order in which clusters of cases are judged."""
    largest: Annotated[int, Field(gt=0)] | None = None
    """The most pairs or responses of a cluster that the metric can count; a run finds it in the
    data."""


class RunnerConfig(Section):
    """How requests are sent, and what a run may cost."""

    kind: Literal["online", "batch", "slurm", "ray"] = "online"
    """How requests are sent: one by one (`online`), together through the provider's batch API
    (`batch`), or one by one by workers that are jobs of Slurm or actors of Ray (`slurm`, `ray`).
    """
    poll: Annotated[float, Field(gt=0)] = 60.0
    """Seconds between two looks at running batches."""
    resend: Annotated[
        list[Text],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = []
    """Ids of batches whose answers the provider has lost; their requests without an answer are sent
    again."""
    workers: Annotated[int, Field(gt=0)] = 2
    """Number of workers of `slurm` and `ray`; each has its own `concurrency`."""
    options: FreeParameters = {}
    """Settings of the workers. With `slurm`: parameters of submitit, such as `slurm_partition`,
    `timeout_min` and `cluster` (`local` uses this machine). With `ray`: `address` of a cluster (by
    default `RAY_ADDRESS`, else this machine), `runtime_env`, and options of an actor, such as
    `num_cpus`. A file may set only those that describe resources; the command line may set all.
    """
    judgments: Literal["jsonl", "parquet"] = "jsonl"
    """Format of a run's judgments: `judgments.jsonl`, or `judgments.parquet` for large runs."""
    concurrency: Annotated[int, Field(gt=0)] = 16
    """Maximum number of concurrent calls."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Timeout of one attempt, in seconds."""
    retries: Annotated[int, Field(ge=0)] = 4
    """Number of attempts after the first."""
    outage: Annotated[float, Field(ge=0)] = 120.0
    """Longest wait in seconds for a server that has answered before and cannot be reached now, for
    example while it restarts."""
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    """Maximum cost in US dollars; requests that it cuts off are reported as missing."""
    budget_calls: Annotated[int, Field(ge=0)] | None = None
    """Maximum number of calls."""
    budget_scope: Literal["run", "sweep", "store"] = "run"
    """What the budget is for: each run, all jobs of a sweep together, or all workers on the `store`
    that judge the same study, then and later.
    """
    stop: StopConfig | None = None
    """Stop judging once a metric is known: `{metric: win_rate/a, width: 0.1}`. Cases are judged in
    a random order of their clusters; those that were not needed are not part of the run.
    """
    max_failure_rate: Fraction = 0.05
    """A run with a larger share of failed requests ends with exit status 2."""
    max_unusable_rate: Fraction = 0.5
    """A run with a larger share of failed, refused or unparseable answers ends with exit status
    2."""
    stop_if_useless: bool = True
    """Stop, with exit status 2, if the first answers of a judge (at least 16 of at least 8 cases)
    cannot be used, all for the same reason. Stored answers and batches do not count."""

    @model_validator(mode="after")
    def _shared_budget(self) -> Self:
        # Workers share an amount in the store; calls and batches are not counted there.
        if self.budget_scope == "store" and (
            self.budget_calls is not None or self.kind == "batch"
        ):
            key = "budget_calls" if self.budget_calls is not None else "kind"
            raise ValueError(
                f"{key} does not work with budget_scope=store: set budget_usd, and no batches"
            )
        return self


class ProbeConfig(Section):
    """Which biases an audit plants."""

    probes: dict[Name, Settings] = {}
    """The probes by name, each with its settings; without any, a run is not an audit."""
    rewriter: JudgeConfig | None = None
    """The model that writes the texts of the probe `paraphrase`, with the keys of `judge`; on the
    command line, also the name of a judge. It adds this probe.
    """

    @model_validator(mode="before")
    @classmethod
    def _with_paraphrase(cls, value: Any) -> Any:
        # Naming a rewriter asks for its probe; settings of the probe that are there stay.
        if not isinstance(value, Mapping) or value.get("rewriter") is None:
            return value
        probes = value.get("probes") or {}
        return {
            **value,
            "probes": {**probes, "paraphrase": probes.get("paraphrase") or {}},
        }

    @model_validator(mode="after")
    def _check_rewriter(self) -> Self:
        """Check that the rewriter is a single model.

        Raises:
            ValueError: If it is a panel, or a simulated judge.
        """
        if self.rewriter is not None and (
            self.rewriter.judges is not None or self.rewriter.simulated
        ):
            # A simulated judge is a function of marked responses and writes no texts.
            if self.rewriter.simulated:
                kind = "simulated judge, which writes no texts"
            else:
                kind = "panel"
            raise ValueError(f"rewriter is a {kind}: choose a single model")
        return self
