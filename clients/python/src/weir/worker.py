"""A worker: a node of weir whose handlers are the functions of this program."""

from __future__ import annotations

import atexit
import contextvars
import logging
import os
import select
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from weir import _log, _weir
from weir._time import Duration, microseconds
from weir._workflow import Workflow, default_store, refuse_two, registry
from weir.errors import DefinitionError, Error, StoreUnavailable, TimedOut
from weir.store import Store

if TYPE_CHECKING:  # only workers with async functions import it: it costs 7 MiB, and a third of `import weir`
    import asyncio

log = logging.getLogger('weir')
THREADS_MOST = 16
DEFAULT_GROUP = 'default'
#: Workflows in one line of the log.
NAMED_MOST = 10
CHECK_MS = 500
#: Between two log lines about a store that is away.
PROBLEM_SECONDS = 5
_LEVEL_ERROR = 3
SUPERVISOR = 'WEIR_WORKER_SUPERVISOR'


class Worker:
    """Runs the workflows of a registry until stop(). Use it as a context manager, or run() it in the main thread."""

    def __init__(
        self,
        workflows: Iterable[Workflow[Any]] | None = None,
        *,
        store: Store | None = None,
        name: str | None = None,
        executor_group: str | None = None,
        threads: int = 0,
        max_running: int = 0,
        grace: Duration = 25,
        lease: Duration = 0,
        migrate: bool | None = None,
        around_calls: Callable[[], None] | None = None,
    ) -> None:
        """`threads`: for functions that are not asynchronous, at most 16; 0 = one more than processors.
        `max_running`: executions at once; 0 = 1000, and 64 on a server. `grace`: how long stop() awaits what runs.
        `migrate`: makes or upgrades the store at the start; None = only a SQLite file.
        `around_calls`: is called before and after each function, in its thread or, if it is async, in another one."""
        self.workflows = list(registry.workflows.values() if workflows is None else workflows)
        self.store = store or default_store()
        self._problem_due = 0.0
        if not self.workflows:
            raise DefinitionError(
                'there is no workflow: nothing could be run', 'decorate a function with @weir.workflow(name=...)'
            )
        for number, workflow in enumerate(self.workflows):
            for other in self.workflows[:number]:
                refuse_two(other, workflow)
        self._parts = _parts_of(self.workflows)
        self._of_other_groups = _of_other_groups(self.workflows, executor_group)
        #: Of this program, but not of this worker.
        self._left_out = [one for one in registry.workflows.values() if all(one.name != own.name for own in self.workflows)]
        if not 0 <= threads <= THREADS_MOST:
            raise ValueError(f'threads={threads}: a worker has at most {THREADS_MOST}; start more processes for more')
        self.name, self.executor_group, self.threads, self.max_running = name, executor_group, threads, max_running
        self._grace_us, self._lease_us = microseconds(grace), microseconds(lease)
        self._migrate = migrate
        self._around_calls = around_calls
        self._lock = threading.Lock()
        self._node: _weir.Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        self._deferred: deque[tuple[Callable[[Any], Any], Any]] = deque()
        self._is_loop_woken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = threading.Event()
        #: False until start() has returned.
        self.has_started = False
        _workers.add(self)

    def start(self) -> None:
        """Publishes the workflows and begins to run them, in threads of its own; returns at once."""
        if self._migrate or (self._migrate is None and self.store.is_sqlite()):
            self.store.migrate()
        for workflow in self.workflows:
            if workflow.has_states and self.store.is_server():
                raise DefinitionError(
                    f'{workflow.place}: the workflow {workflow.name!r} has states, and a server gives none away',
                    'give this worker the address of the store',
                )
        native = self.store.native()
        # The node forks the process that watches over it: before this program has threads of its own, if it can be.
        node = _weir.Node(
            native,
            {name: self._handler(part) for name, part in self._parts.items()},
            name=self.name,
            executor_group=self.executor_group,
            threads=self.threads,
            max_running=self.max_running,
            lease_us=self._lease_us,
            stop_grace_us=self._grace_us,
            secrets_directory=os.environ.get('WEIR_SECRETS_DIRECTORY'),
        )
        try:
            self._publish()
            if any(workflow.is_async for workflow in self.workflows):
                self._run_loop()
            _log.attach()
            try:
                node.start()
            except BaseException:
                _log.detach()
                raise
        except BaseException:
            node.close()
            self._end_loop()
            raise
        self._node = node
        self.has_started = True
        atexit.register(self.stop)
        log.info('the worker runs %s', ', '.join(workflow.name for workflow in self.workflows))
        self._log_what_it_does_not_run()

    def _publish(self) -> None:
        """With a token that may not publish, those run that the server knows already."""
        for workflow in self.workflows:
            try:
                workflow.publish(self.store)
            except Error as problem:
                if problem.status != 'not_permitted' or not self.store.is_server():
                    raise
                log.warning('%s: %s is not published by this worker: %s', workflow.place, workflow.name, problem)

    def _log_what_it_does_not_run(self) -> None:
        if self._left_out:
            places = [f'{workflow.name} ({workflow.place})' for workflow in self._left_out[:NAMED_MOST]]
            more = ' ...' if len(self._left_out) > NAMED_MOST else ''
            log.info('this worker has no handler for %s%s: another one must run them', ', '.join(places), more)
        for workflow in self._of_other_groups:
            log.warning(
                '%s: %s is of the group %s, and this worker is of the group %s: start one with --executor-group %s',
                workflow.place,
                workflow.name,
                workflow.executor_group,
                self.executor_group or DEFAULT_GROUP,
                workflow.executor_group,
            )

    def stop(self, grace: Duration | None = None) -> bool:
        """Takes nothing more and awaits what runs; what is left after `grace` is cancelled and given back. False when
        something had to be. TimedOut when a function goes on all the same: its execution stays with this process, and the
        end of the process (`os._exit()`) gives it to another worker."""
        with self._lock:
            node, self._node = self._node, None
            if node is None:
                return True
            atexit.unregister(self.stop)
            is_busy = False
            try:
                return bool(node.stop(-1 if grace is None else microseconds(grace)))
            except TimedOut:
                is_busy = True
                _left_alone.append(node)  # its end would await the function
                raise
            finally:
                if not is_busy:
                    node.close()
                    self._end_loop()
                    _log.detach()
                self._ended.set()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def run(self) -> bool:
        """In the main thread, until SIGTERM or SIGINT; a second signal ends at once. Returns whether it ended gracefully,
        raises an Error when the node cannot go on."""
        wanted: list[int] = []
        # Not an Event: the signal may come inside of its wait(), which holds the lock that set() takes.
        woken, waker = os.pipe()
        sleep = select.poll()
        sleep.register(woken, select.POLLIN)
        supervised = os.environ.get(SUPERVISOR)  # its end is this one's

        process = os.getpid()

        def end(number: int, frame: object) -> None:
            if os.getpid() != process:  # a child of fork() shares the pipe: it must not wake the parent
                signal.signal(number, before[signal.Signals(number)])
                os.kill(os.getpid(), number)
                return
            if wanted:
                os._exit(128 + number)
            wanted.append(number)
            os.write(waker, b'.')

        before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            while not wanted and not (supervised and os.getppid() != int(supervised)):
                self.check()
                self._log_problem()
                sleep.poll(CHECK_MS)
            log.info('the worker takes nothing more and awaits what runs, for %g s at most', self._grace_us / 1e6)
            return self.stop()
        finally:
            self.stop(0)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(woken)
            os.close(waker)

    def check(self) -> None:
        """Raises an Error when the node cannot go on, for example because it has lost its lease."""
        node = self._node
        if node is None:
            raise StoreUnavailable('the worker is not running', status='stopped')
        node.health()

    def _log_problem(self) -> None:
        """Logs the last warning or error of the library, at most one each PROBLEM_SECONDS."""
        if time.monotonic() < self._problem_due:
            return
        problem = self.store.native().take_problem()
        if problem is None:
            return
        level, text, count = problem
        self._problem_due = time.monotonic() + PROBLEM_SECONDS
        more = f' (and {count - 1} more since the last line)' if count > 1 else ''
        log.log(logging.ERROR if level == _LEVEL_ERROR else logging.WARNING, '%s%s', text, more)

    # --- handlers ---

    def _handler(self, workflow: Workflow[Any]) -> Any:
        around = self._around_calls
        if workflow.is_async:
            run_async = workflow.run_async if around is None else _surrounded_async(workflow, around)

            def begin(call: Any) -> None:
                assert self._loop is not None
                call.defer()
                self._deferred.append((run_async, call))
                if not self._is_loop_woken:
                    self._is_loop_woken = True
                    self._loop.call_soon_threadsafe(self._begin_deferred)

            return begin

        run = workflow.run if around is None else _surrounded(workflow, around)
        # A thread runs the functions of many workspaces: a context variable must not pass from one to the next.
        return lambda call: contextvars.Context().run(run, call)

    def _begin_deferred(self) -> None:
        """In the event loop. One wake-up serves all calls that came meanwhile: waking the loop costs more than a call."""
        loop = self._loop
        self._is_loop_woken = False  # before the reading: a call that comes later wakes the loop again
        while self._deferred and loop is not None:  # without a loop the worker has ended, and its calls are given back
            run_async, call = self._deferred.popleft()
            task = loop.create_task(run_async(call))
            self._tasks.add(task)  # the loop has weak references only
            task.add_done_callback(self._tasks.discard)

    def _run_loop(self) -> None:
        import asyncio

        loop = asyncio.new_event_loop()
        # A loop that ended before left what it was woken for; those calls were given back.
        self._deferred.clear()
        self._is_loop_woken = False

        def run() -> None:
            asyncio.set_event_loop(loop)
            while self._loop is loop:
                try:
                    loop.run_forever()
                except BaseException as problem:  # a SystemExit of a task that no function awaits
                    log.error('%r left the event loop, which goes on', problem, exc_info=problem)

        self._loop = loop
        self._loop_thread = threading.Thread(target=run, name='weir-asyncio', daemon=True)
        self._loop_thread.start()

    def _end_loop(self) -> None:
        if self._loop is not None and self._loop_thread is not None:
            loop, thread = self._loop, self._loop_thread
            self._loop = self._loop_thread = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _parts_of(workflows: Iterable[Workflow[Any]]) -> dict[str, Workflow[Any]]:
    """What the node calls, by the names of handlers. Raises DefinitionError when two have one name."""
    parts: dict[str, Workflow[Any]] = {}
    for workflow in workflows:
        for name, part in workflow.parts().items():
            if name in parts and parts[name].place != part.place:
                raise DefinitionError(
                    f'two handlers are named {name!r}: of {parts[name].place} and of {part.place}',
                    'a state has the handler WORKFLOW-STATE: rename the workflow or the state',
                )
            parts[name] = part
    return parts


def _of_other_groups(workflows: list[Workflow[Any]], group: str | None) -> list[Workflow[Any]]:
    """Those that a worker of the group does not run, unless an enqueue names its group. It needs one that it runs."""
    others = [one for one in workflows if one.executor_group not in (None, group or DEFAULT_GROUP)]
    if len(others) == len(workflows):
        wanted = others[0].executor_group
        raise DefinitionError(
            f'this worker is of the group {group or DEFAULT_GROUP}, and no workflow is: '
            + ', '.join(f'{one.name} at {one.place} is of the group {one.executor_group}' for one in others[:3]),
            f'start it with --executor-group {wanted}, or Worker(executor_group={wanted!r})',
        )
    return others


def _surrounded(workflow: Workflow[Any], around: Callable[[], None]) -> Callable[[Any], None]:
    def run(call: Any) -> None:
        _quietly(around)
        workflow.run(call)
        _quietly(around)

    return run


def _surrounded_async(workflow: Workflow[Any], around: Callable[[], None]) -> Callable[[Any], Any]:
    import asyncio

    async def run(call: Any) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, _quietly, around)
        await workflow.run_async(call)
        await loop.run_in_executor(None, _quietly, around)

    return run


def _quietly(around: Callable[[], None]) -> None:
    """A failure of it must not cost the attempt."""
    try:
        around()
    except Exception:
        log.exception('the work around a call failed')


# --- fork() ---

_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
#: Nodes whose end would wait: of functions that do not end, and of the parent process.
_left_alone: list[Any] = []


def _leave_to_parent() -> None:
    """A child of fork() has no worker: neither its threads nor its executions. The end of the child must not stop it."""
    for worker in _workers:
        if worker._node is not None:
            _left_alone.append(worker._node)
            atexit.unregister(worker.stop)
        worker._node = worker._loop = worker._loop_thread = None
        worker._lock = threading.Lock()


os.register_at_fork(after_in_child=_leave_to_parent)
