"""Being asked to end: a signal is heard after the step, when the state is whole, not in the middle of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lrgi.errors import Stopped

_HEARD = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether the process was asked to end, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def asked(self) -> bool:
        """Whether to end at the next good moment."""
        return self.signal is not None

    def heed(self, kept: str) -> None:
        """Raise Stopped if asked to end; `kept` says what will not have to be done again."""
        if self.signal is not None:
            raise Stopped(f"interrupted; {kept}, and the same command goes on from there", self.signal)


@contextmanager
def stopping_gently() -> Iterator[Stop]:
    """Within it SIGINT and SIGTERM only set the Stop; the second one ends the process as usual.

    Outside the main thread, which alone may listen, signals stay as they are.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def hear(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise Stopped("interrupted at once; what the last snapshot holds is kept", number)
        stop.signal = number

    before = {number: signal.signal(number, hear) for number in _HEARD}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
