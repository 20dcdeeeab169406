"""The command `weir`: `weir worker APP` runs functions, everything else is the program that comes with the package."""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from weir._time import microseconds
from weir._workflow import configure, registry
from weir.errors import DefinitionError, Error, Kind, TimedOut
from weir.store import Store
from weir.worker import SUPERVISOR, Worker

log = logging.getLogger('weir')
PROGRAM = pathlib.Path(__file__).with_name('bin') / 'weir'
RELOAD_SECONDS = 0.5
#: A process that ends at once is started again after a growing pause.
RESTART_SECONDS_FIRST, RESTART_SECONDS_MOST = 0.5, 30.0
#: Beyond the grace: a stopping process awaits cancelled functions for 15 s. What goes on for longer holds the interpreter.
KILL_SECONDS = 20.0


def main() -> NoReturn:
    if sys.argv[1:2] == ['worker'] and sys.argv[2:3] != ['list']:
        sys.exit(worker(sys.argv[2:]))
    try:
        os.execv(PROGRAM, ['weir', *sys.argv[1:]])
    except OSError as problem:
        sys.exit(f'weir: {PROGRAM} cannot be run: {problem.strerror}; install the package anew')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='weir worker',
        description='Runs the workflows of a Python module.',
        epilog='example: weir worker shop.tasks --store postgres://weir@db/app --processes 2',
    )
    parser.add_argument('app', nargs='+', help='a module with workflows, as in import: shop.tasks')
    add_options(parser)
    parser.add_argument('-v', '--verbose', action='store_true', help='log what happens inside')
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that a worker has in every framework."""
    parser.add_argument(
        '--store', help='sqlite:PATH, a path, postgres://... or https://... (default: WEIR_STORE, else ./weir.db)'
    )
    parser.add_argument('--processes', type=int, default=1, help='processes of this worker (default: 1)')
    parser.add_argument('--threads', type=int, default=0, help='of each, for functions that are not async, 1 to 16')
    parser.add_argument('--max-running', type=int, default=0, help='executions at once in each process (default: 1000)')
    parser.add_argument('--executor-group', help='of executions that it runs (default: "default")')
    parser.add_argument('--grace', default='25s', help='how long a stop awaits what runs (default: 25s)')
    parser.add_argument('--lease', default='6s', help='silent for this long it counts as dead (default: 6s)')
    parser.add_argument('--reload', action='store_true', help='for development: start again when a module has changed')


def worker(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    child = [sys.executable, '-m', 'weir', 'worker', *without_supervision(arguments)]

    def make() -> Worker:
        sys.path.insert(0, os.getcwd())
        for name in options.app:
            _import(name)
        return make_worker(options, configure(options.store))

    return run(options, options.verbose, make, child)


def run(options: argparse.Namespace, verbose: bool, make: Callable[[], Worker], child: list[str]) -> int:
    """Runs a worker, or supervises several processes of the command `child`; returns the exit code."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format='%(asctime)s %(levelname)s %(message)s')
    if options.processes < 1:
        return _refuse(f'--processes {options.processes}: at least one is needed')
    if options.processes > 1 or options.reload:
        return _supervise(child, options) if child else _refuse('--processes and --reload need a command line')
    made = None
    try:
        made = make()
        return 0 if made.run() else 1
    except (Error, ValueError) as problem:
        if made is not None and made.has_started:
            return _end_started(problem)
        _refuse(str(problem))
        # A store that is away is no mistake, also when it went in the middle of a commit: a supervisor tries again.
        return 1 if isinstance(problem, Error) and problem.kind in (Kind.TRANSIENT, Kind.UNKNOWN) else 2


def _end_started(problem: Exception) -> int:
    log.error('the worker ends: %s', problem)
    if isinstance(problem, TimedOut):  # no thread can be ended from outside; the end of the process frees its executions
        log.error('a function did not end after its cancellation: the process ends without it')
        logging.shutdown()
        sys.stdout.flush()
        os._exit(1)
    return 1


def _refuse(message: str) -> int:
    print(f'weir worker: {message}', file=sys.stderr)
    return 2


def make_worker(options: argparse.Namespace, store: Store | None, around_calls: Callable[[], None] | None = None) -> Worker:
    return Worker(
        list(registry.workflows.values()),
        store=store,
        executor_group=options.executor_group,
        threads=options.threads,
        max_running=options.max_running,
        grace=options.grace,
        around_calls=around_calls,
        lease=options.lease,
    )


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f'{name}.'.startswith(f'{problem.name}.'):
            raise
        raise DefinitionError(
            f'there is no module {problem.name!r}', f'name one as in import, seen from {os.getcwd()}'
        ) from None


# --- several processes ---


def _supervise(command: list[str], options: argparse.Namespace) -> int:
    """Starts the processes, starts again what ends by itself, and passes signals on."""
    children: list[subprocess.Popen[bytes] | None] = [None] * options.processes
    pauses = [0.0] * options.processes
    due = [0.0] * options.processes
    stop: list[int] = []
    grace = microseconds(options.grace) / 1e6

    def end(number: int, frame: object) -> None:
        stop.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    seen = _times() if options.reload else {}
    while not stop:
        for place, child in enumerate(children):
            if child is not None and child.poll() is not None:
                is_mistake = child.returncode == 2  # in the program or its options: starting again does not mend it
                if is_mistake and not options.reload:
                    _end(children, [signal.SIGTERM], grace)
                    return 2
                pauses[place] = min(max(2 * pauses[place], RESTART_SECONDS_FIRST), RESTART_SECONDS_MOST)
                due[place] = math.inf if is_mistake else time.monotonic() + pauses[place]
                again = 'when a module changes' if is_mistake else f'in {pauses[place]:.1f} s'
                log.warning('process %d of the worker ended with %d; again %s', child.pid, child.returncode, again)
                children[place] = None
            if children[place] is None and time.monotonic() >= due[place] and not stop:
                children[place] = subprocess.Popen(command, env={**os.environ, SUPERVISOR: str(os.getpid())})
        if options.reload and (now := _times()) != seen:
            seen = now
            _end(children, [signal.SIGTERM], grace)
            children = [None] * options.processes
            pauses = [0.0] * options.processes
            due = [0.0] * options.processes
        time.sleep(RELOAD_SECONDS / 2)
    return 0 if _end(children, stop, grace) else 1


def without_supervision(arguments: list[str]) -> Iterator[str]:
    skip = False
    for argument in arguments:
        if skip or argument == '--reload' or argument.startswith('--processes='):
            skip = False
        elif argument == '--processes':
            skip = True
        else:
            yield argument


def _end(children: list[subprocess.Popen[bytes] | None], signals: list[int], grace: float) -> bool:
    """Passes signals on until all have ended. Whether they did so gracefully: one that a signal ended had not begun yet."""
    until = time.monotonic() + grace + KILL_SECONDS
    early = (-signal.SIGTERM, -signal.SIGINT)
    left = [child for child in children if child is not None and child.poll() is None]
    ended = []
    passed = 0
    while left:
        for number in signals[passed:]:
            passed += 1
            for child in left:
                child.send_signal(number)
        if time.monotonic() > until:
            for child in left:
                log.error('process %d of the worker does not end: it is killed', child.pid)
                child.kill()
        ended += [child for child in left if child.poll() is not None]
        left = [child for child in left if child.returncode is None]
        time.sleep(RELOAD_SECONDS / 10)
    return all([child.returncode == 0 or child.returncode in early for child in ended])


def _times() -> dict[pathlib.Path, float]:
    """Of the sources below the current folder."""
    return {
        path: path.stat().st_mtime
        for path in pathlib.Path.cwd().rglob('*.py')
        if not any(part.startswith('.') or part in ('node_modules', 'site-packages') for part in path.parts)
    }
