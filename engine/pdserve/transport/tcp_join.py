"""Connections of several streams: how prefill makes one, and how decode puts it together (JOIN in docs/wire.md)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from pdserve.transport.base import KvSink
from pdserve.transport.claims import Claims
from pdserve.transport.endpoint import Endpoint
from pdserve.transport.stream import PeerGone, Stream
from pdserve.transport.striped import MAX_STREAMS, Lane, Striped
from pdserve.transport.tcp_receive import Session
from pdserve.transport.tcp_send import Sender
from pdwire import Connection, Frame, Join, RemoteProtocolError


class TcpSender(Sender):
    """streams: how many to ask for. another: connects one more, before a deadline; may raise TransferFailed."""

    def __init__(
        self,
        stream: Stream,
        connection: Connection,
        *,
        deadline: float,
        streams: int,
        another: Callable[[float], Endpoint],
    ) -> None:
        self._streams = streams
        self._another = another
        super().__init__(stream, connection, deadline=deadline)

    def _greeted(self, deadline: float) -> None:
        if self._streams == 1:
            return
        session = os.urandom(16)
        streams = self._join(self._endpoint, Join(session=session, stream=0, streams=self._streams), deadline)
        lanes: list[Lane] = []
        try:
            for number in range(1, streams):
                endpoint = self._another(deadline)
                lanes.append(Lane(endpoint.stream))
                self._open(endpoint, deadline)
                lanes[-1] = Lane(endpoint.stream)
                self._join(endpoint, Join(session=session, stream=number, streams=streams), deadline)
        except BaseException:
            for lane in lanes:
                lane.stream.close()
            raise
        for lane in lanes:
            lane.start(f"kv-to-{lane.stream.peer}")
        tick_s = self._endpoint.connection.limits.tick_s
        self._endpoint.stream = Striped(self._endpoint.stream, lanes, tick_s=tick_s)

    def _join(self, endpoint: Endpoint, join: Join, deadline: float) -> int:
        """The number of streams that decode agrees to."""
        endpoint.post(join)
        while not isinstance(answer := endpoint.receive(deadline, endpoint.keep_up, lambda incoming: None), Join):
            pass
        if (answer.session, answer.stream) != (join.session, join.stream) or answer.streams > join.streams:
            raise RemoteProtocolError(f"answer to a join is not of it: {answer}")
        return answer.streams


class Joins:
    """The connections of one listener that wait for their other streams, or have them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[bytes, TcpSession] = {}

    def begin(self, session: bytes, first: TcpSession) -> None:
        with self._lock:
            if session in self._sessions:
                raise RemoteProtocolError("join begins a session that has begun")
            self._sessions[session] = first

    def add(self, join: Join, lane: Lane) -> None:
        """Raises RemoteProtocolError for a stream that no connection waits for."""
        with self._lock:
            first = self._sessions.get(join.session)
            if first is None or not first.add(join, lane):
                raise RemoteProtocolError(f"join of stream {join.stream}, which no connection here waits for")

    def end(self, session: bytes) -> None:
        with self._lock:
            self._sessions.pop(session, None)


class TcpSession(Session):
    """A session that other streams can join, or one that is such a stream."""

    def __init__(self, stream: Stream, connection: Connection, sink: KvSink, claims: Claims, joins: Joins) -> None:
        super().__init__(stream, connection, sink, claims)
        self._joins = joins
        self._joined: Join | None = None
        self._lanes: dict[int, Lane] = {}

    def add(self, join: Join, lane: Lane) -> bool:
        """From the stream's own thread. False: it is not waited for."""
        ours = self._joined
        if ours is None or join.streams != ours.streams or join.stream in self._lanes:
            return False
        self._lanes[join.stream] = lane
        if len(self._lanes) == ours.streams - 1:
            lanes = [self._lanes[number] for number in range(1, ours.streams)]
            tick_s = self._endpoint.connection.limits.tick_s
            self._endpoint.stream = Striped(self._endpoint.stream, lanes, tick_s=tick_s)
        return True

    def _hear(self, frame: Frame) -> None:
        if not isinstance(frame, Join):
            super()._hear(frame)
        elif self._joined is not None:
            raise RemoteProtocolError("join is said twice")
        elif frame.stream == 0:
            agreed = Join(session=frame.session, stream=0, streams=min(frame.streams, MAX_STREAMS))
            self._joined = agreed
            self._joins.begin(frame.session, self)
            self._endpoint.post(agreed)
        else:
            self._be_lane(frame)

    def _be_lane(self, join: Join) -> None:
        lane = Lane(self._endpoint.stream)
        self._joins.add(join, lane)
        self._endpoint.post(join)
        lane.run()
        self._endpoint.fail("the connection that it belongs to is over")
        raise PeerGone("the connection that it belongs to is over")

    def _finish(self) -> None:
        if self._joined is not None:
            self._joins.end(self._joined.session)
        for lane in self._lanes.values():
            lane.end()
        super()._finish()
