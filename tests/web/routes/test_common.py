"""What the routes share."""

import asyncio
from types import SimpleNamespace

import pytest

from repri.web.limits import Refused
from repri.web.routes.common import computed
from repri.web.work import Worker


def test_a_question_is_dropped_when_the_page_has_gone():
    """The worker does not run, so the question waits until the page goes away."""
    worker, asked = Worker(list), []

    async def gone():
        return True

    projects = SimpleNamespace(worker=worker)
    request = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(projects=projects)), is_disconnected=gone)
    with pytest.raises(Refused, match="gone away"):
        asyncio.run(computed(request, lambda: asked.append(1)))
    worker.start()
    worker.ask(lambda: None).result(10)
    worker.stop()
    assert asked == []
