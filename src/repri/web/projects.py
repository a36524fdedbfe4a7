"""The projects that a server knows: the folder that it was started with, and those that pages have created."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from pathlib import Path

from repri.segmenter import Segmenter

from .limits import Limits, Refused
from .project import Project
from .session import Session
from .work import Worker

__all__ = ["FOLDER", "Projects"]

FOLDER = "folder"
"""Id of the project of the folder that the server was started with."""
OPEN = 4
"""Projects that are in use at the same time; the others are on disk."""


class Projects:
    """Opens projects and shares one worker among them.

    Args:
        segmenter: Segments for all projects.
        root: Folder of the projects that pages create.
        folder: The folder that the server was started with.
        limits: Sizes that are refused.
    """

    def __init__(self, segmenter: Segmenter, root: Path, folder: Path | None = None, limits: Limits | None = None):
        self.limits = limits or Limits()
        self.segmenter, self.root = segmenter, root
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.RLock()
        self.worker = Worker(self.sessions, self.limits)
        self.folder = None if folder is None else self._keep(FOLDER, Project(folder, self.limits))

    def create(self, name: str = "") -> str:
        """Begin a new project; returns its id, which cannot be guessed."""
        with self._lock:
            if self.root.is_dir() and sum(1 for _ in self.root.iterdir()) >= self.limits.projects:
                raise Refused(429, f"The server keeps {self.limits.projects} projects at most: remove old ones.")
            id = secrets.token_hex(16)
            (self.root / id).mkdir(parents=True)
            session = self._keep(id, Project(self.root / id, self.limits))
            session.project.change(session.project.settings.model_copy(update={"name": name or "New project"}))
            return id

    def session(self, id: str) -> Session:
        """A project in use; an unknown id is refused."""
        with self._lock:
            if id in self._open:
                self._open.move_to_end(id)
                self._open[id].events.use()
                return self._open[id]
            if not re.fullmatch(r"[0-9a-f]{32}", id) or not (self.root / id).is_dir():
                raise Refused(404, "There is no such project.")
            return self._keep(id, Project(self.root / id, self.limits))

    def _keep(self, id: str, project: Project) -> Session:
        session = Session(project, self.segmenter, id)
        session.wake = self.worker.wake
        self._open[id] = session
        idle = [key for key, other in self._open.items() if key not in (FOLDER, id) and not other.events.followed]
        for key in idle[: max(0, len(self._open) - OPEN)]:
            del self._open[key]
        self.worker.wake()
        return session

    def sessions(self) -> list[Session]:
        """The projects in use: those that a page shows first, and of these the one that was used last."""
        with self._lock:
            last_first = reversed(list(self._open.values()))
        return sorted(last_first, key=lambda session: not session.events.followed)
