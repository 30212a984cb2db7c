"""The exceptions a caller may want to catch.

Messages read `<what> must <rule>, got <value>; <remedy>`: one sentence that a person can act on.
"""


class LRGIError(Exception):
    """Anything this package raises on purpose."""


class InputError(LRGIError, ValueError):
    """What the caller handed over cannot be used; the message says what to change."""


class FormatError(InputError):
    """A file or directory on disk is not what it should be: truncated, newer, or something else."""


class DivergedError(LRGIError, ArithmeticError):
    """A loss or a gradient stopped being finite while a layer was fitted."""


class CollapsedError(LRGIError):
    """Embeddings lost what sets them apart while they were fitted; the message says what may help."""


class WorldError(LRGIError):
    """A process of several that fit together is gone or out of reach."""


class Stopped(KeyboardInterrupt):
    """The process was asked to end by a signal, and did so when it could; the message says what is kept."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
