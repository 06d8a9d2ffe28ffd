"""A judge for agents, by the Model Context Protocol: its tools and the resource
`trust`, over stdio or HTTP.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from evalkit.core.admission import Refusal
from evalkit.core.resources import own_version
from evalkit.core.values import JsonObject
from evalkit.engine.event_loop import on_interrupt
from evalkit.serving.judge import JudgeVerdict
from evalkit.serving.service import CaseInput, Service, problem
from evalkit.serving.tools.models import schema_of, tool_schemas

TRUST: Final = "evalkit://trust"
_JUDGE: Final = "judge"
_ABOUT: Final = (
    "Judge a case with the validated judge of this server. Returns the verdict, its reason, its"
    " cost, and what the validation of the judge says about this answer."
)


def mcp_server(service: Service) -> Server[Any]:
    """Return the protocol's server of a judge."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs what clients send
    schemas = {
        "inputSchema": schema_of(CaseInput),
        "outputSchema": schema_of(JudgeVerdict),
    }
    rows = [{"name": _JUDGE, "description": _ABOUT, **schemas}]
    rows += [
        # The served tool's own schema: its criteria are optional.
        {**row, "inputSchema": schema_of(service.tools[row["name"]].arguments)}
        for row in tool_schemas("mcp")["tools"]
        if row["name"] in service.tools
    ]
    tools = types.ListToolsResult(
        tools=[types.Tool.model_validate(row) for row in rows]
    )
    about = types.Resource(
        uri=TRUST,
        name="trust",
        description="What the judge's validation showed.",
        mime_type="application/json",
    )

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return tools

    async def call_tool(
        _: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Return the result of a tool, or a refusal as a result with an error."""
        try:
            value = await _answer(service, params.name, params.arguments or {})
        # As a result and not as an error of the protocol, so that the agent can read it.
        except Refusal as refusal:
            return types.CallToolResult(
                content=[_text(f"{refusal.status}: {refusal.text}")], is_error=True
            )
        return types.CallToolResult(
            content=[_text(json.dumps(value))], structured_content=value
        )

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[about])

    async def read_resource(
        _: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        content = types.TextResourceContents(
            uri=TRUST,
            mime_type="application/json",
            text=json.dumps(dict(service.trust())),
        )
        return types.ReadResourceResult(
            contents=[content] if str(params.uri) == TRUST else []
        )

    return Server(
        "evalkit",
        version=own_version() or "",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


async def _answer(service: Service, name: str, arguments: Any) -> JsonObject:
    try:
        if name == _JUDGE:
            return await service.judge(CaseInput.model_validate(arguments))
        if (tool := service.tools.get(name)) is None:
            raise Refusal(404, f"this judge has no tool '{name[:100]}'")
        parsed: Any = tool.arguments.model_validate(arguments)
        result = await service.use(tool, parsed)
    except ValidationError as error:
        raise Refusal(422, problem(error.errors())) from None
    return result.model_dump(mode="json", by_alias=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


class McpOverHttp:
    """The protocol as an ASGI application; each request is complete in itself."""

    def __init__(self, service: Service) -> None:
        self._manager = StreamableHTTPSessionManager(
            mcp_server(service), json_response=True, stateless=True
        )

    def lifespan(self, _: Any) -> AbstractAsyncContextManager[None]:
        """Return what must be entered while requests are answered."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._manager.handle_request(scope, receive, send)


async def serve_stdio(service: Service) -> None:
    """Answer one client on standard input and output until it ends them, or a signal."""
    loop = asyncio.get_running_loop()
    server = mcp_server(service)
    tasks: list[asyncio.Task[None]] = []

    async def ended() -> None:
        await service.stop()
        os._exit(0)  # a thread waits for input, and could not be ended

    def leave(_: int) -> None:
        tasks.append(loop.create_task(ended()))

    with on_interrupt(leave):
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        await service.stop()
