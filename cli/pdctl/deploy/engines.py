"""Questions to the prefill and decode processes of a running deployment, asked by a command and not by the supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import httpx

from pdctl.deploy.local import LocalSupervisor, Snapshot
from pdctl.deploy.spec import checked_name
from pdctl.deploy.state import StateUnreadable
from pdctl.errors import PdError
from pdctl.exit_codes import ExitCode
from pdserve.control_auth import ControlAuth
from pdserve.secret_file import SecretFile

ENGINES: tuple[Literal["prefill", "decode"], ...] = ("prefill", "decode")
_ANSWER_WITHIN_S = 10.0


class Engines:
    """The engines of the deployment called `name`. Raises PdError when none of that name runs."""

    def __init__(self, name: str) -> None:
        local = LocalSupervisor(checked_name(name))
        self._snapshot = _running(local)
        self._secret = SecretFile(local.state.secret)

    def get(self, role: Literal["prefill", "decode"], path: str) -> dict[str, Any]:
        """The JSON object that the engine answers. Raises PdError."""
        url = self._snapshot.record.unit(role).url
        try:
            with self._client() as client:
                response = client.get(url + path)
            answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self._silent(role, str(error) or type(error).__name__) from error
        if response.status_code != 200 or not isinstance(answer, dict):
            raise self._silent(role, f"HTTP {response.status_code}: {answer}")
        return answer

    def stream(
        self, role: Literal["prefill", "decode"], path: str, body: dict[str, Any], within_s: float
    ) -> Iterator[bytes]:
        """The body of the answer, piece by piece as it comes. within_s: between two pieces. Raises PdError."""
        url = self._snapshot.record.unit(role).url
        try:
            with (
                self._client() as client,
                client.stream("POST", url + path, json=body, timeout=httpx.Timeout(within_s)) as response,
            ):
                if response.status_code != 200:
                    raise self._silent(role, f"HTTP {response.status_code}: {response.read().decode(errors='replace')}")
                yield from response.iter_raw()
        except httpx.HTTPError as error:
            raise self._silent(role, str(error) or type(error).__name__) from error

    def _client(self) -> httpx.Client:
        return httpx.Client(auth=ControlAuth(self._secret), trust_env=False, timeout=_ANSWER_WITHIN_S)

    def _silent(self, role: str, detail: str) -> PdError:
        return PdError(
            f"{role} of deployment `{self._snapshot.record.name}` does not answer",
            detail=detail,
            hint=f"`pdctl status` and `pdctl logs {role}` tell more",
            code=ExitCode.INCOMPLETE,
        )


def _running(local: LocalSupervisor) -> Snapshot:
    try:
        snapshot = local.snapshot()
    except StateUnreadable as error:
        raise PdError(
            f"the state of deployment `{local.name}` cannot be read", detail=str(error), code=ExitCode.INCOMPLETE
        ) from error
    if snapshot is None or not snapshot.supervised:
        raise PdError(
            f"no deployment `{local.name}` runs here",
            hint="`pdctl up` starts one; `--name` names another",
            code=ExitCode.INCOMPLETE,
        )
    return snapshot
