"""The ``repri`` command: one module per command, each of which imports torch only when it runs."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from repri.runtime.errors import RepriError

from . import annotate, compare, data, demo, evaluate, info, reproduce, segment, serve, train, try_folder, weights

__all__ = ["app", "main"]

app = typer.Typer(
    name="repri",
    help="Few-shot segmentation by transductive inference (RePRI, CVPR 2021).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich alone would double the time it takes
)
app.command("demo")(demo.demo)
app.command("info")(info.info)
app.command("annotate")(annotate.annotate)
app.command("segment")(segment.segment)
app.command("serve")(serve.serve)
app.command("try")(try_folder.try_folder)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(data.app, name="data")
app.add_typer(weights.app, name="weights")


def _version(wanted: bool) -> None:
    if wanted:
        from repri import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_PLAIN = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], filename: str, *place: Any, **more: Any) -> None:
    """Print our own warnings as one sentence; those of libraries stay as they are."""
    if category is UserWarning and Path(filename).is_relative_to(Path(__file__).parents[1]):
        print(f"repri: warning: {message}", file=sys.stderr)
    else:
        _PLAIN(message, category, filename, *place, **more)


def _from_home(argument: str) -> str:
    """Expand ``~`` where shells leave it: in quotes, and in --name=~/folder."""
    name, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
    return f"{name}{equals}{os.path.expanduser(value)}"


def main() -> None:
    """A user's mistake is one sentence on stderr and exit code 1. A bug keeps its traceback and asks for a report.

    ``REPRI_DEBUG=1`` shows the traceback of mistakes too.
    """
    # Threads that wait actively take the cores from other programs, and from each other: several times slower where a
    # core is busy. It must be said before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = _show_warning  # ty: ignore[invalid-assignment]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may hold bytes that are no text
    try:
        if any("\0" in argument for argument in sys.argv):
            raise RepriError("an argument holds a null character, which no file name has: leave it out.")
        app([_from_home(argument) for argument in sys.argv[1:]])
    except (RepriError, OSError) as error:
        if os.environ.get("REPRI_DEBUG"):
            raise
        own = isinstance(error, RepriError)
        text = str(error) if own else f"{getattr(error, 'filename', None) or 'a file'}: {error.strerror or error}"
        print(f"repri: {text}", file=sys.stderr)
        sys.exit(1)
    except Exception:
        traceback.print_exc()
        print("repri: This is a bug in repri. Please report it with the lines above.", file=sys.stderr)
        sys.exit(70)
