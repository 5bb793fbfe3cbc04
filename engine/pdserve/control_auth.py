"""How a process of the deployment calls another's control HTTP: every request carries what is derived from the secret
that is the one to use when it is sent, so that a rotation needs no new client."""

from __future__ import annotations

from collections.abc import Generator

import httpx

from pdserve.secret_file import CONTROL_HEADER, SecretFile


class ControlAuth(httpx.Auth):
    """Without a secret nothing is added."""

    def __init__(self, secret: SecretFile | None) -> None:
        self._secret = secret

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._secret is not None:
            request.headers[CONTROL_HEADER] = self._secret.control_token
        yield request
