"""Claims of a store on a server: many in one round trip, none lost or kept."""

from __future__ import annotations

import asyncio

import pytest

from evalkit.engine.dispatch import ClaimQueue
from evalkit.errors import StoreError


class Server:
    """A store whose claims take a round trip; each is noted."""

    def __init__(self) -> None:
        self.trips: list[tuple[str, list[str]]] = []
        self.held: set[str] = set()
        self.fault: StoreError | None = None

    def claim_many(self, keys):
        self.trips.append(("claim", [*keys]))
        free = {*keys} - self.held
        self.held |= free
        return free

    def release_many(self, keys):
        self.trips.append(("release", [*keys]))
        if self.fault:
            raise self.fault
        self.held -= {*keys}

    def get_many(self, keys):
        return {key: f"answer {key}" for key in keys if key.startswith("stored")}


async def test_claims_share_a_round_trip_and_what_is_stored_comes_with_them() -> None:
    server = Server()
    server.held = {"taken"}
    queue = ClaimQueue(server, server)
    keys = ["a", "b", "stored", "taken"]
    assert await asyncio.gather(*map(queue.claim, keys)) == [True, True, "answer stored", False]
    for key in keys[:3]:
        queue.release(key)
    await queue.settle()
    assert [(what, sorted(some)) for what, some in server.trips] == [("claim", keys), ("release", ["a", "b", "stored"])]
    assert server.held == {"taken"}


async def test_a_claim_that_nobody_waits_for_any_more_is_given_up() -> None:
    server = Server()
    queue = ClaimQueue(server, server)
    waiting = asyncio.create_task(queue.claim("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await queue.settle()
    assert server.held == set()


async def test_a_failure_to_give_up_a_claim_is_told() -> None:
    server = Server()
    server.fault = StoreError("claims do not hold")
    queue = ClaimQueue(server, server)
    assert await queue.claim("a")
    queue.release("a")
    with pytest.raises(StoreError, match="do not hold"):
        await queue.settle()
    with pytest.raises(StoreError, match="do not hold"):
        await queue.claim("b")
