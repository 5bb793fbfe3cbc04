import socket

import pytest

from pdctl.deploy import ports
from pdctl.errors import PdError


def test_a_busy_port_is_refused_naming_the_port_and_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PdError) as caught:
            ports.require_free("127.0.0.1", port)
    text = caught.value.render()
    assert f"port {port}" in text and "pid " in text and "nothing was started" in text


def test_a_port_that_was_used_a_moment_ago_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        # The side that closes first is the one that keeps the port in TIME_WAIT.
        accepted.close()
        client.close()
    ports.require_free("127.0.0.1", port)


def test_an_address_that_is_not_of_this_host_is_an_error_about_the_address() -> None:
    with pytest.raises(PdError, match=r"cannot listen on `192\.0\.2\.7`"):
        ports.require_free("192.0.2.7", 8000)


def test_free_ports_are_distinct_bindable_and_outside_the_ephemeral_range() -> None:
    found = ports.free_ports("127.0.0.1", 3)
    assert len(set(found)) == 3
    for port in found:
        assert port < 32768
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_promised_to_another_deployment_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_LAST", ports._FIRST + 40)
    first = ports.free_ports("127.0.0.1", 4)
    assert not set(first) & set(ports.free_ports("127.0.0.1", 4, first))
    with pytest.raises(PdError, match="free ports"):
        ports.free_ports("127.0.0.1", 1, range(ports._FIRST, ports._LAST))
