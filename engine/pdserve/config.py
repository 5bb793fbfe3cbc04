"""Configuration of the three processes: one JSON file each, `python -m pdserve ROLE --config FILE`.

Secrets never stand in these files or in argv; a secret is named by the path of a 0600 file.
Unknown keys are refused, so that a misspelt key is an error and not a silent default.
"""

import ipaddress
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pdwire import Conversion

SecurityName = Literal["authenticated", "encrypted"]
DTypeName = Literal["float32", "bfloat16", "float16"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(_Strict):
    """An address to bind. Loopback unless the deployment says otherwise; never all interfaces by default."""

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)

    @property
    def is_loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class KvListen(Listen):
    """transport shm: prefill runs on this host, as the same user; host is then a loopback address."""

    transport: Literal["tcp", "shm"] = "tcp"


class ModelConfig(_Strict):
    """path: a Hugging Face directory (config.json, safetensors, tokenizer.json). name: what clients ask for."""

    path: Path
    name: str
    dtype: DTypeName = "float32"
    device: str = "cpu"
    threads: int | None = Field(default=None, ge=1)


class _Process(_Strict):
    """run: of which deployment's run this process is; `/health` says it, so that a stranger on the port is known as one.

    drain_s: after SIGTERM, how long requests in work may go on.

    secret_file: the deployment's secret, mode 0600; without one only this host's processes are served, and no proof is
    asked of them. security: how far KV connections are protected; the same for a whole deployment. See docs/security.md.
    """

    name: str
    run: str = ""
    listen: Listen
    model: ModelConfig
    drain_s: float = Field(default=5.0, ge=0.0)
    secret_file: Path | None = None
    security: SecurityName = "authenticated"

    @property
    def _listeners(self) -> tuple[Listen, ...]:
        """Those that only processes of the deployment use."""
        return ()

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if self.secret_file is not None:
            return self
        if self.security != "authenticated":
            raise ValueError(f"security `{self.security}` needs a secret_file")
        for listen in self._listeners:
            if not listen.is_loopback:
                raise ValueError(f"listening on {listen.host}, where other hosts reach it, needs a secret_file")
        return self


class _Engine(_Process):
    """kv_rounding: let KV of another 16- or 32-bit dtype be rounded to decode's. What loses nothing needs no leave. The
    same on both sides, because each refuses what it does not expect.
    """

    kv_rounding: bool = False

    @property
    def can(self) -> frozenset[Conversion]:
        """What decode converts when the KV comes (pdserve.landing)."""
        return frozenset({Conversion.DTYPE, Conversion.ROUNDING} if self.kv_rounding else {Conversion.DTYPE})


class PrefillConfig(_Engine):
    """chunk_tokens: prompt tokens computed, and pushed per layer, at a time."""

    role: Literal["prefill"] = "prefill"
    chunk_tokens: int = Field(default=256, ge=1, le=8192)
    max_waiting: int = Field(default=256, ge=1)

    @property
    def _listeners(self) -> tuple[Listen, ...]:
        return (self.listen,)


class DecodeConfig(_Engine):
    """kv_listen: where prefill pushes KV. kv_memory_bytes: size of the paged cache, both K and V, all layers.

    max_running: requests that hold blocks. max_waiting: requests that wait for blocks; more are refused.
    recompute_chunk_tokens: longest chunk when decode computes a prompt itself.
    """

    role: Literal["decode"] = "decode"
    kv_listen: KvListen
    block_tokens: int = Field(default=16, ge=1)
    kv_memory_bytes: int = Field(default=1 << 30, ge=1 << 20)
    max_running: int = Field(default=32, ge=1)
    max_waiting: int = Field(default=256, ge=1)
    recompute_chunk_tokens: int = Field(default=128, ge=1)

    @property
    def _listeners(self) -> tuple[Listen, ...]:
        return (self.listen, self.kv_listen)


class Peer(_Strict):
    name: str
    url: str


class RouterConfig(_Process):
    """request_deadline_s: longest wait for a next token. default_max_tokens: of a chat answer that names none, because
    blocks for the whole answer are set aside before it begins. max_requests: in work or being read at once; more are
    refused.
    """

    role: Literal["router"] = "router"
    prefill: list[Peer] = Field(min_length=1)
    decode: list[Peer] = Field(min_length=1)
    request_deadline_s: float = Field(default=30.0, gt=0, le=86_400)
    max_body_bytes: int = Field(default=4 << 20, ge=1024)
    default_max_tokens: int = Field(default=1024, ge=1)
    max_requests: int = Field(default=1024, ge=1)
