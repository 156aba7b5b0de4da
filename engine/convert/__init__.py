"""Making containers: of tensors in memory (`write_container`), or of any model that can be read (`convert_model`)."""

from __future__ import annotations

from .container import FORMATS, write_container
from .run import convert_model

__all__ = ["FORMATS", "convert_model", "write_container"]
