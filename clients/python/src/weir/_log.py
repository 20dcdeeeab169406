"""The log of an attempt: what a function prints and logs, for `weir logs`.

1. A started worker puts streams in the place of sys.stdout and sys.stderr, and a function in the place of
   `logging.Logger.callHandlers`. Each of them does the work of the original, too.
2. The context variable `_current` has the log of the function that runs. Tasks and `asyncio.to_thread()` inherit it; other
   threads do not.
3. A log passes whole lines with their stream to weir, which hides the secrets in them. A partial line waits for its end,
   one for each stream and thread, because print() writes the end of a line apart.
4. Records of logging have the stream stderr, where the module logging writes them without a configuration.

Nothing here may fail or slow down a function. A child of fork() has no log, because its attempt belongs to the parent.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import sys
import threading
from typing import Any

#: Of the partial lines of a call. A part of a longer line could end within a secret, which weir could then not hide.
LINE_CHARACTERS_MAX = 256 * 1024
NOTE = '(weir left out a line that is too long for the log)\n'
_Source = tuple[int, int]  # the stream, and the thread that writes to it
#: enum weir_stream of weir/handler.h
LOG, STDOUT, STDERR = range(3)
_FORMAT = logging.Formatter('%(levelname)s %(name)s: %(message)s')


class AttemptLog:
    """The log of one call. Any thread may write to it; after close() it takes nothing."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._partial: dict[_Source, str] = {}
        self._too_long: set[_Source] = set()
        # A destructor that prints can run within write().
        self._lock = threading.RLock()
        self._forks = _forks

    def write(self, stream: int, text: str) -> None:
        """Passes the whole lines on, and keeps the rest."""
        if self._forks != _forks:
            return
        try:  # contextlib.suppress() is slower
            with self._lock:
                source = (stream, threading.get_ident())
                lines, end, rest = text.rpartition('\n')
                if end:
                    self._pass(stream, self._end_line(source, lines + end))
                if rest:
                    self._keep(source, rest)
        except Exception:
            return

    def add(self, text: str, stream: int = LOG) -> None:
        """Adds one or more whole lines."""
        if self._forks == _forks:
            with contextlib.suppress(Exception), self._lock:
                self._pass(stream, text or '\n')

    def report(self, fraction: float, text: str | None) -> None:
        """Reports the progress of the call; NaN = unknown."""
        safe = None if text is None else str(text).encode('utf-8', 'replace').decode().replace('\0', ' ')
        with self._lock:
            if self._forks == _forks and self._call is not None:
                self._call.progress(fraction, safe)

    def close(self) -> None:
        if self._forks != _forks:
            return
        with contextlib.suppress(Exception), self._lock:
            for source in [*self._partial, *self._too_long]:
                self._pass(source[0], self._end_line(source, ''))
        self._call = None

    def _end_line(self, source: _Source, text: str) -> str:
        """The text that begins with the end of the line, with the beginning of that line."""
        if source in self._too_long:
            self._too_long.discard(source)
            return NOTE + text.partition('\n')[2]
        return self._partial.pop(source, '') + text

    def _keep(self, source: _Source, text: str) -> None:
        if source in self._too_long:
            return
        kept = self._partial.pop(source, '') + text
        others = sum(map(len, self._partial.values())) if self._partial else 0
        if len(kept) + others > LINE_CHARACTERS_MAX:
            self._too_long.add(source)
        else:
            self._partial[source] = kept

    def _pass(self, stream: int, text: str) -> None:
        if self._call is not None and text:
            self._call.log(text.encode('utf-8', 'backslashreplace'), stream)


_current: contextvars.ContextVar[AttemptLog | None] = contextvars.ContextVar('weir_attempt_log', default=None)
_forks = 0  # of the process since the program began
_lock = threading.Lock()
_users = 0
_streams: dict[str, _Stream] = {}
_call_handlers: Any = None


def begin(call: Any) -> AttemptLog:
    """Opens the log of a call for the present task or thread. The caller closes it before the answer."""
    made = AttemptLog(call)
    _current.set(made)
    return made


class _Stream:
    """Has the attributes of the original, and copies what is written to the current log."""

    def __init__(self, number: int, original: Any) -> None:
        self.__dict__.update(_number=number, _original=original)

    def write(self, text: Any) -> Any:
        log = _current.get()
        if log is not None and isinstance(text, str):
            log.write(self._number, text)
        return self._original.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__['_original'], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)

    def __iter__(self) -> Any:
        return iter(self._original)


def _log_record(self: logging.Logger, record: logging.LogRecord) -> None:
    """In the place of Logger.callHandlers(). A handler may print the record: the log has it once."""
    log = _current.get()
    if log is None:
        _call_handlers(self, record)
        return
    token = _current.set(None)
    try:
        _call_handlers(self, record)
    finally:
        _current.reset(token)
        log.add(_text_of(record), STDERR)


def _text_of(record: logging.LogRecord) -> str:
    try:
        return _FORMAT.format(record)
    except Exception:  # arguments that do not fit the message
        return f'{record.levelname} {record.name}: {record.msg!r}'


def attach() -> None:
    """For a worker that starts. Each call needs one detach()."""
    global _users, _call_handlers
    with _lock:
        _users += 1
        for name, number in (('stdout', STDOUT), ('stderr', STDERR)):
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, _Stream):
                _streams[name] = _Stream(number, stream)
                setattr(sys, name, _streams[name])
        if logging.Logger.callHandlers is not _log_record:
            _call_handlers = logging.Logger.callHandlers
            logging.Logger.callHandlers = _log_record  # type: ignore[method-assign]


def detach() -> None:
    """Puts the originals back, unless another worker runs, or the program has put others there."""
    global _users
    with _lock:
        _users -= 1
        if _users > 0:
            return
        for name, stream in _streams.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, stream._original)
        _streams.clear()
        if logging.Logger.callHandlers is _log_record:
            logging.Logger.callHandlers = _call_handlers  # type: ignore[method-assign]


def _leave_to_parent() -> None:
    global _forks, _lock
    _forks += 1
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)
