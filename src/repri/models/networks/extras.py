"""Import of the optional libraries that some networks come from."""

from __future__ import annotations

import importlib
from typing import Any

from repri.runtime.errors import MissingExtraError

__all__ = ["import_extra"]


def import_extra(module: str, extra: str, wanted: str) -> Any:
    """Import an optional library, or say how to install it.

    Args:
        module: Name of the library.
        extra: Extra of this package that installs it.
        wanted: Extractor that needs it, for the message.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f"{wanted} needs {module}: pip install 'repri[{extra}]'") from None
    except (RuntimeError, OSError) as error:  # for instance a torchvision that was built for another torch
        reason = str(error).splitlines()[0]
        raise MissingExtraError(
            f"{wanted} needs {module}, which is installed but cannot be imported: {reason}"
        ) from None
