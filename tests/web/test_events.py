"""Events for pages."""

import asyncio
import json

import pytest

from repri.web.events import WAITING, Events
from repri.web.limits import Limits, Refused


async def take(stream, count):
    return [await anext(stream) for _ in range(count)]


def test_every_page_hears_what_other_threads_say():
    async def scenario():
        events = Events()
        streams = [events.follow(events.subscribe()) for _ in range(2)]
        await asyncio.to_thread(events.publish, "result", image="a\nb", confidence=0.5)
        heard = [await take(stream, 2) for stream in streams]
        for stream in streams:
            await stream.aclose()
        return heard, events.followed

    heard, followed = asyncio.run(scenario())
    for retry, text in heard:
        assert retry.startswith("retry:")
        kind, data = text.strip().split("\n")
        assert kind == "event: result"
        assert json.loads(data.removeprefix("data: ")) == {"image": "a\nb", "confidence": 0.5}
    assert not followed


def test_a_page_that_is_too_slow_must_load_everything_again():
    async def scenario():
        events = Events()
        queue = events.subscribe()
        for n in range(WAITING + 1):
            events.publish("progress", seen=n)
        await asyncio.sleep(0.05)
        return queue.qsize(), queue.get_nowait()

    size, text = asyncio.run(scenario())
    assert (size, text.split("\n")[0]) == (1, "event: reload")


def test_a_project_is_abandoned_when_its_last_page_has_gone():
    async def scenario():
        events = Events()
        before = events.abandoned(0)
        stream = events.follow(events.subscribe())
        await take(stream, 1)
        there = events.abandoned(0)
        await stream.aclose()
        return events, before, there

    events, before, there = asyncio.run(scenario())
    assert (before, there) == (False, False), "a program need not follow events"
    assert events.abandoned(0)
    assert not events.abandoned(60)
    events._used -= 100
    assert events.abandoned(60)
    events.use()
    assert not events.abandoned(60)


def test_too_many_pages_are_refused():
    async def scenario():
        events = Events(Limits(listeners=1))
        events.subscribe()
        with pytest.raises(Refused, match="close one"):
            events.subscribe()

    asyncio.run(scenario())
