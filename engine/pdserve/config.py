"""Configuration of the three processes: one JSON file each, `python -m pdserve ROLE --config FILE`.

Secrets never stand in these files or in argv; a secret is named by the path of a 0600 file.
Unknown keys are refused, so that a misspelt key is an error and not a silent default.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DTypeName = Literal["float32", "bfloat16", "float16"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(_Strict):
    """An address to bind. Loopback unless the deployment says otherwise; never all interfaces by default."""

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class ModelConfig(_Strict):
    """path: a Hugging Face directory (config.json, safetensors, tokenizer.json). name: what clients ask for."""

    path: Path
    name: str
    dtype: DTypeName = "float32"
    device: str = "cpu"
    threads: int | None = Field(default=None, ge=1)


class PrefillConfig(_Strict):
    role: Literal["prefill"] = "prefill"
    name: str
    listen: Listen
    model: ModelConfig
    chunk_tokens: int = Field(default=256, ge=1)
    max_waiting: int = Field(default=256, ge=1)


class DecodeConfig(_Strict):
    """kv_listen: where prefill pushes KV. kv_memory_bytes: size of the paged cache, both K and V, all layers."""

    role: Literal["decode"] = "decode"
    name: str
    listen: Listen
    kv_listen: Listen
    model: ModelConfig
    block_tokens: int = Field(default=16, ge=1)
    kv_memory_bytes: int = Field(default=1 << 30, ge=1 << 20)
    max_running: int = Field(default=32, ge=1)
    max_waiting: int = Field(default=256, ge=1)
    recompute_chunk_tokens: int = Field(default=128, ge=1)


class Peer(_Strict):
    name: str
    url: str


class RouterConfig(_Strict):
    role: Literal["router"] = "router"
    name: str
    listen: Listen
    model: ModelConfig
    prefill: list[Peer] = Field(min_length=1)
    decode: list[Peer] = Field(min_length=1)
    request_deadline_s: float = Field(default=30.0, gt=0)
    max_body_bytes: int = Field(default=4 << 20, ge=1024)
