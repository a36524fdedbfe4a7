"""``make fuzz``: many damaged files for every parser, for some minutes; prints how each ended.

    python -m tests.hostile.fuzz [MINUTES]

It ends with 1 if an input gave anything but a result or a sentence, if it took more than ten seconds, or if the memory
grew beyond two gigabytes.
"""

import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from repri.runtime.errors import RepriError
from repri.runtime.memory import peak_memory

from .parsers import PARSERS, Parser

SLOW, LARGE = 10.0, 2.0
"""Seconds and gigabytes that no input may take."""


def attempt(parser: Parser, folder: Path, content: object, counts: Counter[str], bad: list[str], name: str) -> None:
    """Try one input and count how it ended."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    start = time.monotonic()
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser.read(folder, content)
        counts["read"] += 1
    except RepriError as error:
        counts["sentences"] += 1
        if not 10 <= len(str(error)) <= 2000:
            bad.append(f"{name}: a sentence of {len(str(error))} characters for {content!r:.300}")
    except Exception:
        counts["anything else"] += 1
        bad.append(f"{name}: {content!r:.600}\n{traceback.format_exc()}")
    if time.monotonic() - start > SLOW:
        counts["slow"] += 1
        bad.append(f"{name}: {time.monotonic() - start:.0f} s for {content!r:.300}")


def main(minutes: float) -> int:
    """Try inputs until the time is over; returns the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))  # a bomb must not take the machine down
    end, bad, table, number = time.monotonic() + 60 * minutes, [], {name: Counter() for name in PARSERS}, 0
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < end and len(bad) < 50:
            number += 1
            for name, parser in PARSERS.items():

                @seed(number)
                @settings(
                    max_examples=40,
                    database=None,
                    derandomize=False,
                    deadline=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                @given(st.data())
                def check(data):
                    content = data.draw(parser.inputs)  # noqa: B023
                    if time.monotonic() < end:
                        attempt(parser, Path(place) / "x", content, table[name], bad, name)  # noqa: B023

                check()
    columns = ("read", "sentences", "anything else", "slow")
    print(f"{'parser':14}" + "".join(f"{column:>15}" for column in ("inputs", *columns)))
    for name, counts in [*table.items(), ("all", sum(table.values(), Counter()))]:
        tried = sum(counts[column] for column in columns[:3])
        print(f"{name:14}{tried:15}" + "".join(f"{counts[column]:15}" for column in columns))
    print(f"largest memory: {peak_memory():.2f} GB")
    for text in bad:
        print(f"\n{text}")
    return int(bool(bad) or peak_memory() > LARGE)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10))
