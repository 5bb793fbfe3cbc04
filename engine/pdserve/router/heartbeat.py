"""Asks every peer how it is, so that one that is frozen is known before a request waits for it.

A stopped process keeps its connections and takes new ones: only the silence tells. What is asked does not wait for what
the peer computes, so a long prefill or a large batch is no silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pdserve.logs import log
from pdserve.router.peers import Peers
from pdserve.router.pool import PoolMember

_EVERY_SECONDS = 2.0
# A silent one: requests may be waiting for it.
_AGAIN_SECONDS = 0.2
# No health call, nor any token, for so long is silence.
_SILENT_AFTER_SECONDS = 5.0


async def watch(members: Iterable[PoolMember], peers: Peers) -> None:
    """Never ends. A member that says nothing is `silent` until it is heard again."""
    async with asyncio.TaskGroup() as group:
        for member in members:
            group.create_task(_watch(member, peers))


async def _watch(member: PoolMember, peers: Peers) -> None:
    told = False
    while True:
        if not await peers.silent(member.url, _SILENT_AFTER_SECONDS):
            # Refusing a connection is an answer too: who is gone is found out by the request, at once.
            member.heard()
        elif member.unheard_s >= _SILENT_AFTER_SECONDS:
            member.fell_silent(f"{member.url}: has said nothing for {member.unheard_s:.0f} s")
        if member.silent != told:
            told = member.silent
            log("peer_silent" if told else "peer_heard", peer=member.name, reason=member.last_error if told else None)
        await asyncio.sleep(_AGAIN_SECONDS if member.silent else _EVERY_SECONDS)
