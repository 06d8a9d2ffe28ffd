"""A judge by the Model Context Protocol, as its own client sees it: over HTTP in both eras, and over stdio."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from evalkit.tools import tool_schemas
from tests.serving.test_serve import CRITERIA, NEW, TOOL
from tests.support.serving import Served


@asynccontextmanager
async def connected(shared: Served, mode: str) -> AsyncIterator[Any]:
    async with (
        create_mcp_http_client({"Authorization": f"Bearer {shared.key}"}) as http,
        Client(streamable_http_client(f"{shared.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_tools_answer_as_over_http(shared: Served, mode: str) -> None:
    async with connected(shared, mode) as client:
        tools = {tool.name: tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools}
        assert list(tools) == ["judge", "pairwise_compare"]
        (published, _) = tool_schemas("mcp")["tools"]
        assert {key: tools["pairwise_compare"][key] for key in published} == published
        verdict = await client.call_tool("judge", NEW)
        assert (verdict.is_error, verdict.structured_content["winner"]) == (False, "B")
        assert json.loads(verdict.content[0].text) == verdict.structured_content
        compared = await client.call_tool("pairwise_compare", {**TOOL, "criteria": CRITERIA})
        assert (compared.structured_content["winner"], compared.structured_content["trust"]["warnings"]) == ("B", [])
        for name, arguments, status in (("judge", {"prompt": 3}, 422), ("direct_score", {}, 404), ("judge", {}, 422)):
            refused = await client.call_tool(name, arguments)
            assert (refused.is_error, refused.content[0].text[:3]) == (True, str(status))
        (about,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource(about.uri)).contents
        assert json.loads(content.text) == shared.get("/trust").json()


@pytest.mark.slow
async def test_an_agent_starts_its_own_judge(shared: Served, tmp_path: Path) -> None:
    words = ["-m", "evalkit", "serve", *shared.words, "--mcp", "stdio"]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path, env={**os.environ})
    async with Client(server) as client:
        verdict = await client.call_tool("judge", NEW)
        assert verdict.structured_content["winner"] == "B"
