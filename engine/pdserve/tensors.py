"""Between torch's tensors and the wire's dtypes and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pdwire import DType

if TYPE_CHECKING:
    import numpy as np
    import torch


def torch_dtype(dtype: DType) -> torch.dtype:
    import torch

    return cast("torch.dtype", getattr(torch, dtype.label))


def byte_array(tensor: torch.Tensor) -> np.ndarray:
    """The same memory as uint8, the last dimension in bytes; by way of torch.uint8, because numpy has no bfloat16.

    tensor: on the CPU, contiguous.
    """
    import torch

    return tensor.view(torch.uint8).numpy()


def byte_view(tensor: torch.Tensor) -> memoryview:
    """All of a contiguous CPU tensor's memory, flat and writable."""
    return memoryview(byte_array(tensor.flatten()).data).cast("B")
