"""The kernel is built once with the machine's C compiler and kept.

There is nothing to install: without a compiler or OpenMP, or with ``REPRI_NATIVE=0``, the torch backend
computes the same sums. The library is kept in the user cache (``REPRI_CACHE`` overrides the folder), or in the
folder for temporary files if the cache cannot be written or trusted. Its folder belongs to the user alone. Its name
has two parts: one depends on sources, flags and processor, the other is the hash of its content. A file whose content
does not fit its name is never loaded; it is built again.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from repri.runtime.files import cache_folder, private_folder, remove_leftovers, scratch, user

__all__ = ["load_library", "native_status"]

FOLDER = Path(__file__).parent
SOURCES = [FOLDER / name for name in ("kernel.c", "pack.c", "threads.c")]
HEADERS = [FOLDER / name for name in ("threads.h", "vectors.h")]
COMMON_FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")
FLAG_CHOICES = (("-march=native",), ("-mcpu=native",))
"""Flags that are tried in turn. Without the processor's own vectors, torch is faster than the kernel."""


def native_status() -> tuple[bool, str]:
    """Tell whether the compiled kernel is used on this machine. The first call builds it.

    Returns:
        Whether it is used, and its file or the reason why not.

    Example:
        >>> used, text = native_status()
    """
    library, text = load_library()
    return library is not None, text


def load_library() -> tuple[ctypes.CDLL | None, str]:
    """Load the kernel, and build it before if necessary.

    Returns:
        The library and its file, or None and the reason why there is none.
    """
    with _LOCK:
        return _load_library()


_LOCK = threading.Lock()


@functools.cache
def _load_library() -> tuple[ctypes.CDLL | None, str]:
    """Do the work of ``load_library``, once per process."""
    if os.environ.get("REPRI_NATIVE", "1") == "0":
        return None, "REPRI_NATIVE=0"
    compiler = shutil.which(os.environ.get("CC") or "cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "no C compiler (cc, gcc or clang) found"
    source = b"".join(path.read_bytes() for path in (*SOURCES, *HEADERS))
    key = hashlib.sha256(source + repr((compiler, COMMON_FLAGS, FLAG_CHOICES, _processor())).encode()).hexdigest()
    errors = [OSError("there is no folder that belongs to this user alone")]
    for folder in _folders():
        try:
            path = _kept(folder, key[:16]) or _build(compiler, folder, key[:16])
            return _declare(ctypes.CDLL(str(path))), str(path)
        except (RuntimeError, OSError, AttributeError, subprocess.SubprocessError) as error:
            errors.append(error)
        finally:
            with suppress(OSError):
                folder.rmdir()  # if nothing was built
    return None, f"building the kernel failed: {(str(errors[-1]) or 'no reason was given').splitlines()[0]}"


def _folders() -> Iterator[Path]:
    """Folders for the library, the best first; nobody else can write to them."""
    for place in (cache_folder(), Path(tempfile.gettempdir())):
        if (folder := private_folder(place / f"repri-kernel-{user()}")) is not None:
            yield folder


def _kept(folder: Path, key: str) -> Path | None:
    """The library that was built before, if its content is what its name says; a damaged one is removed."""
    for path in folder.glob(f"kernel-{key}-*.so"):
        if path.stem.rpartition("-")[2] == _digest(path) and not path.is_symlink():
            return path
        path.unlink()
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _build(compiler: str, folder: Path, key: str) -> Path:
    """Compile to a new name, then rename: two processes may do this at once. Return the file."""
    remove_leftovers(folder)
    with scratch(folder, ".so") as temporary:
        for flags in FLAG_CHOICES:
            command = [compiler, *COMMON_FLAGS, *flags, *map(str, SOURCES), "-o", str(temporary), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                break
        else:
            raise RuntimeError(done.stderr.strip() or f"{compiler} exited with {done.returncode}")
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        path = folder / f"kernel-{key}-{_digest(temporary)}.so"
        os.replace(temporary, path)
    return path


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tell ctypes the types of the kernel's functions."""
    library.repri_pass.argtypes = (ctypes.c_void_p, ctypes.c_int32)
    library.repri_pass.restype = None
    pointer = ctypes.c_void_p
    library.repri_step.argtypes = (*[pointer] * 7, ctypes.c_int32)
    library.repri_step.restype = ctypes.c_int32
    library.repri_pack.argtypes = (pointer,)
    library.repri_pack.restype = ctypes.c_int64
    return library


def _processor() -> str:
    """A description of the processor, on which -march=native depends: machines may share a cache folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()
