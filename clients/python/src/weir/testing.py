"""For tests of programs that use weir.

`run_inline()` runs what is enqueued at once, in the caller's thread and without a store. The fixture `weir_worker` of the
pytest plugin runs it in a real worker on a store of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from weir._workflow import Workflow
from weir.outcome import Fail, Retry


@dataclass
class Run:
    """One execution that run_inline() has run."""

    workflow: str
    workspace: str
    params: dict[str, Any]
    options: dict[str, Any]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = 'COMPLETED'
    result: Any = None
    error_code: str = ''
    #: The lines of `ctx.log()`.
    log: list[str] = field(default_factory=list)
    #: The reports of `ctx.progress()`.
    progress: list[tuple[float | None, str | None]] = field(default_factory=list)


class _Call:
    """What a function sees of its call."""

    cancelled = False
    step = 'run'
    attempt = 1
    fence = 1
    traceparent: str | None = None

    def __init__(self, run: Run) -> None:
        self.execution_id = run.id
        self.workspace = run.workspace
        self.traceparent = run.options.get('traceparent')
        self._lines = run.log
        self._reports = run.progress

    def log(self, text: bytes, stream: int = 0) -> None:
        self._lines.extend(text.decode().splitlines())

    def progress(self, fraction: float, text: str | None) -> None:
        self._reports.append((None if math.isnan(fraction) else fraction, text))

    @staticmethod
    def secret(name: str) -> str | None:
        """From the variable WEIR_SECRET_NAME, as a worker would read it."""
        return os.environ.get('WEIR_SECRET_' + re.sub('[^A-Za-z0-9]', '_', name).upper())


@contextlib.contextmanager
def run_inline() -> Iterator[list[Run]]:
    """Within it, enqueue() runs the function at once. Gives the list of runs.

    Retry and Fail end up in the run's `error_code`, with the status FAILED; any other exception is raised by
    enqueue(), so that the test shows it. A known `key` of a workspace runs nothing again, unless it has a
    mode: the run before has ended.
    """
    runs: list[Run] = []

    def enqueue(self: Workflow[Any], workspace: str, **given: Any) -> str:
        from weir._workflow import OPTIONS, Context

        options = {name: given.pop(name) for name in OPTIONS if name in given}
        self.check(given)
        for run in runs:
            is_once = options.get('key') is not None and options.get('key_mode') in (None, 'once')
            if is_once and (run.workspace, run.options.get('key')) == (workspace, options['key']):
                return run.id
        # As the store would give them to the function.
        run = Run(self.name, workspace, json.loads(json.dumps(given, allow_nan=False)), options)
        runs.append(run)
        extra = {'ctx': Context(_Call(run), self.name, self.secrets)} if self.wants_context else {}
        try:
            value: Any = self.function(**run.params, **extra)
            if self.is_async:
                value = _finish(value)
            run.result = json.loads(json.dumps(value, allow_nan=False))
        except (Retry, Fail) as outcome:
            run.status, run.error_code = 'FAILED', outcome.code
        return run.id

    async def enqueue_async(self: Workflow[Any], workspace: str, **given: Any) -> str:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: enqueue(self, workspace, **given))

    with mock.patch.object(Workflow, 'enqueue', enqueue), mock.patch.object(Workflow, 'enqueue_async', enqueue_async):
        yield runs


def _finish(coroutine: Any) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    coroutine.close()
    raise RuntimeError('an async function was enqueued inside an event loop: use `await enqueue_async()` there')
