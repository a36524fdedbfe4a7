"""``python -m repri`` is ``repri``."""

from .cli import main

main()
