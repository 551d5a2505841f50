"""Asks a feed's source for the state of its slot, once, within seconds: a source that is away holds no command up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Final

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.slot_state import SlotState
from tidelock.adapters.wiring.slot_state import SlotQuestion, slot_question

ASK_SECONDS: Final = 5.0


async def slot_state(feed: Feed) -> SlotState | None:
    """Returns the state; None where the source keeps its log for everybody.  Raises nothing that the source causes."""
    question = slot_question(feed.source_url)
    if question is None:
        return None
    answer: Future[SlotState] = Future()
    # A thread that waits for a name server cannot be ended, and the loop's own threads are waited for at its end.
    threading.Thread(target=_ask, args=(question, answer), name="slot state", daemon=True).start()
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await asyncio.wrap_future(answer)
    except TimeoutError:
        silent = f"{feed.source_url} gave no answer in {ASK_SECONDS:.0f} s"
        return SlotState(name=slot_name(feed.name), unread=silent)


def _ask(question: SlotQuestion, answer: Future[SlotState]) -> None:
    answer.set_running_or_notify_cancel()
    try:
        answer.set_result(question.state())
    except BaseException as error:
        answer.set_exception(error)
    finally:
        question.close()
