"""Tensors written as a safetensors file, piece by piece.

The library's own function looks at all of them at once: tensors that lie in files would all be in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from accord.stored import release_all, slices

KINDS = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.complex64: "C64", torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip
PIECE = 1 << 26
"""Bytes that are looked at together."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Tensors of the CPU, and words, as a new file."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # so that all are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        one, start = tensors[name], end
        end += one.numel() * one.element_size()
        header[name] = {"dtype": KINDS[one.dtype], "shape": list(one.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            content = tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy()
            for rows in slices(len(content), PIECE):
                file.write(content[rows].data)
                if len(content) > PIECE:
                    release_all()
