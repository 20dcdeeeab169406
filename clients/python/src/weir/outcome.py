"""What a function may raise to say how its attempt ended."""

from __future__ import annotations

from weir._time import Duration, microseconds


class Outcome(Exception):
    """Base of the two below."""

    def __init__(self, code: str, message: str | None = None) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message


class Retry(Outcome):
    """It did not work and may work later. The retry policy says how often; `after` takes the place of its delay."""

    def __init__(self, code: str, message: str | None = None, *, after: Duration | None = None) -> None:
        super().__init__(code, message)
        self.delay_us = -1 if after is None else microseconds(after)


class Fail(Outcome):
    """It did not work and never will: the execution fails at once."""


class Cancelled(Exception):
    """The execution was cancelled, timed out, or the worker stops. Raised by `ctx.heartbeat()`."""
