"""Parts of a study's cases, for workers that judge one part each."""

from __future__ import annotations

import re

from evalkit.config import RunConfig
from evalkit.core.errors import ConfigError
from evalkit.core.hashing import text_digest
from evalkit.core.types import Case
from evalkit.core.values import frozen

_SHARD = re.compile(r"([1-9]\d{0,8})/([1-9]\d{0,8})")


@frozen
class Shard:
    """One of `count` parts of a study's cases, numbered from 1; cases with the same
    prompt are in the same part.
    """

    index: int
    count: int

    @staticmethod
    def of(text: str) -> Shard:
        """Return the shard that a text such as `3/20` names.

        Raises:
            ValueError: if it names none.
        """
        match = _SHARD.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            raise ValueError(f"'{text}' is not a shard such as 3/20, the third of 20")
        return Shard(int(match[1]), int(match[2]))

    def holds(self, case: Case) -> bool:
        """Return whether a case is in this shard, by a hash that is the same everywhere
        and in every version.
        """
        return (
            # 15 hexadecimal digits are 60 bits. By the prompt, because cases with the same prompt
            # may share requests: two workers would wait for each other's claims.
            int(text_digest(case.prompt or case.id)[:15], 16) % self.count
            == self.index - 1
        )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def check_budget(config: RunConfig) -> None:
    """Refuse a budget that workers do not share.

    Raises:
        ConfigError: if each worker would spend it.
    """
    runner = config.runner
    if runner.budget_calls is not None or (
        runner.budget_usd is not None and runner.budget_scope != "store"
    ):
        key = "budget_usd" if runner.budget_calls is None else "budget_calls"
        remedy = "set runner.budget_usd and runner.budget_scope=store"
        raise ConfigError(
            "each worker would spend it", where=f"runner.{key}", remedy=remedy
        )
