"""`evalkit serve`: answer questions to a validated judge over HTTP, or by the Model
Context Protocol.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from evalkit.cli.console import log, log_handler
from evalkit.cli.parser import UsageError, check_overrides
from evalkit.core.errors import ConfigError, ExitStatus
from evalkit.core.translation import in_every_language
from evalkit.core.values import JsonObject

KEYS: Final = "EVALKIT_SERVE_KEY"
_MEGABYTE: Final = 1_000_000
_BODY_SECONDS: Final = 10.0


def main(arguments: Namespace) -> int:
    """Serve a judge until a signal.

    Raises:
        ConfigError: if the judge, a setting, the port or the host cannot be used.
    """
    # The imports below take seconds. Scripts and services read only errors and the address.
    if sys.stderr.isatty():
        log("progress", f"starting {arguments.judge} …")

    from evalkit.core.plugins import code_allowed
    from evalkit.engine.event_loop import run_async
    from evalkit.judges import check_judges
    from evalkit.serving import load_judge
    from evalkit.serving.bounds import Bounds
    from evalkit.serving.service import STOP_SECONDS, Service

    settings = _serving_settings(arguments.overrides)
    judge = load_judge(
        Path(arguments.judge),
        api_base=arguments.api_base,
        allow_code=code_allowed(),
        store=settings["store"],
        runner=settings["runner"],
    )
    use = judge.validation.use
    required = arguments.require
    # Before anything listens: a service that must not be used is not started.
    if required is not None and not judge.validation.allows(required):
        problem = (
            f"the judge can be used for less than --require {arguments.require} ({use})"
        )
        log("error", f"{arguments.judge}: {problem}: {judge.validation.sentence}")
        return ExitStatus.GATE_FAILED
    # Keys and endpoints are checked at the start, not by the first user's question.
    if judge.config.store.mode != "read_only":
        run_async(check_judges(judge.config))
    service = Service(
        judge,
        strict=arguments.strict,
        seconds=arguments.timeout,
        rate=arguments.rate,
        require=arguments.require,
        bounds=Bounds(
            criteria=arguments.max_criteria,
            responses=arguments.max_responses,
            items=arguments.max_items,
            calls=arguments.max_calls,
        ),
        grace=arguments.grace or STOP_SECONDS,
    )
    unsearched = judge.validation.unsearched()
    if unsearched is not None:
        log("warning", f"{arguments.judge}: {in_every_language(unsearched)[0]}")
    with log_handler(threaded=True):
        if arguments.mcp == "stdio":
            from evalkit.serving.mcp import serve_stdio

            run_async(serve_stdio(service))
        else:
            _serve_http(service, arguments, judge.validation.sentence)
    return 0


def _serve_http(service: Any, arguments: Namespace, sentence: str) -> None:
    """Serve a judge over HTTP until a signal stops it.

    Args:
        service: Answers the requests.
        arguments: The options of the command.
        sentence: What is known about the judge; it is printed first.

    Raises:
        ConfigError: if other machines can reach it without a key.
    """
    from evalkit.core.admission import LOOPBACK, Admission, listen
    from evalkit.engine.event_loop import run_async
    from evalkit.serving.http import Limits, Server, application

    host = arguments.host
    keys = [
        key for part in os.environ.get(KEYS, "").split(",") if (key := part.strip())
    ]
    # Without a key, anyone in the network could spend the budget.
    if host not in LOOPBACK and not keys:
        raise ConfigError(
            "other machines can reach it, so it needs a key",
            where=f"--host {host}",
            remedy=f"set {KEYS}",
        )
    mcp = None
    if arguments.mcp:
        from evalkit.serving.mcp import McpOverHttp

        mcp = McpOverHttp(service)
    with listen(host, arguments.port) as listener:
        port = listener.getsockname()[1]
        admission = Admission.of(
            host,
            port,
            largest=arguments.max_megabytes * _MEGABYTE,
            seconds=_BODY_SECONDS,
        )
        limits = Limits(admission, keys, arguments.key_rate, arguments.concurrent)
        server = Server(service, application(service, limits, mcp), listener)
        print(
            f"{sentence}\n{arguments.judge} on"
            f" http://{f'[{host}]' if ':' in host else host}:{port}; Ctrl-C stops it",
            flush=True,
        )
        run_async(server.run_until_signal())


def _serving_settings(overrides: Sequence[str]) -> dict[str, JsonObject]:
    """Return the settings of the store and the runner.

    Raises:
        ConfigError: if an override sets something else.
    """
    from evalkit.cli.finished_run import read_value
    from evalkit.serving.judge import SETTINGS

    check_overrides(overrides)
    settings: dict[str, JsonObject] = {name: {} for name in SETTINGS}
    for word in overrides:
        key, _, value = word.partition("=")
        section, _, name = key.partition(".")
        if section not in settings or not name:
            raise UsageError(
                "serve",
                f"cannot set {key}",
                f"it sets only {' and '.join(f'{section}.*' for section in SETTINGS)}",
            )
        settings[section][name] = read_value(key, value)
    return settings
