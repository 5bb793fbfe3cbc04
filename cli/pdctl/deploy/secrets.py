"""A new secret for a deployment that runs: the processes take the old one too, for a while, so that nothing stops."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from pdctl.deploy.bringup import busy, operator
from pdctl.deploy.engines import ENGINES, Engines
from pdctl.deploy.local import LocalSupervisor
from pdctl.deploy.spec import checked_name
from pdctl.deploy.state import write_private
from pdctl.errors import PdError, UsageError
from pdctl.exit_codes import ExitCode
from pdserve import filelock
from pdserve.secret_file import TooManySecrets, rotated
from pdwire import SECRET_BYTES, Secret


@dataclass(frozen=True, slots=True)
class Rotation:
    """taken_by: the engines that have answered to the new secret. old_until: Unix seconds."""

    taken_by: tuple[str, ...]
    old_until: float


def rotate(name: str, window_s: float) -> Rotation:
    """Writes the new secret and asks both engines with it. Raises PdError."""
    local = LocalSupervisor(checked_name(name))
    Engines(name)
    try:
        with filelock.hold(local.state.operator_lock, operator("secret rotate")):
            now = time.time()
            text = local.state.secret.read_text(encoding="ascii")
            write_private(local.state.secret, rotated(text, Secret(os.urandom(SECRET_BYTES)), now, window_s))
            engines = Engines(name)
            for role in ENGINES:
                engines.get(role, "/v1/ledger")
    except filelock.LockHeld as held:
        raise busy(name, held) from held
    except TooManySecrets as error:
        raise UsageError(
            f"deployment `{name}` takes as many secrets as it may",
            detail=str(error),
            hint="wait until a window ends, or say `--window 0` to refuse the old ones now",
        ) from error
    except (OSError, ValueError) as error:
        raise PdError(
            f"the secret of deployment `{name}` cannot be rotated",
            detail=str(error),
            hint=f"`pdctl down --name {name}` and `pdctl up` make a new one",
            code=ExitCode.FAILED,
        ) from error
    return Rotation(tuple(ENGINES), now + window_s)
