"""A store: where executions wait. Every method may be called from any thread."""

from __future__ import annotations

import json
import os
import re
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from weir import _served, _sqlite, _weir
from weir._time import Duration, microseconds, moment
from weir._trace import current_traceparent
from weir.errors import Error, Misuse, ParamsError, TimedOut, make

if TYPE_CHECKING:
    from datetime import datetime

_weir.set_error_maker(make)
DEFAULT_URL = 'sqlite:./weir.db'


class Request(NamedTuple):
    """One execution that `enqueue_many()` shall make."""

    workspace: str
    workflow: str
    params: Mapping[str, Any] = {}
    key: str | None = None
    executor_group: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    id: str | None = None
    traceparent: str | None = None
    business_key: str | None = None
    labels: Mapping[str, str] | None = None
    key_mode: str | None = None
    debounce: Duration | None = None
    debounce_max: Duration | None = None

    def _as_arguments(self) -> tuple[Any, ...]:
        return (
            self.workspace,
            self.workflow,
            dump_params(self.params),
            self.key,
            self.executor_group,
            self.priority,
            moment(self.run_at),
            self.id,
            self.traceparent or current_traceparent(),
            self.business_key,
            json.dumps(dict(self.labels)) if self.labels else None,
            number_of_key_mode(self.key_mode),
            0 if self.debounce is None else microseconds(self.debounce),
            0 if self.debounce_max is None else microseconds(self.debounce_max),
        )


#: In the order of enum weir_key_mode.
KEY_MODES = ('once', 'replace', 'debounce', 'one_active')


def number_of_key_mode(name: str | None) -> int:
    if name is not None and name not in KEY_MODES:
        raise Misuse(f'{name!r} is not a mode of a key', 'the modes are once, replace, debounce and one_active')
    return 0 if name is None else KEY_MODES.index(name)


#: Of one encoder: json.dumps() makes one for each call with options.
encode = json.JSONEncoder(allow_nan=False, separators=(',', ':')).encode


def dump_params(params: Mapping[str, Any]) -> str:
    try:
        return encode(params)
    except (TypeError, ValueError) as problem:
        raise ParamsError(
            f'the params are no JSON: {problem}', 'give text, numbers, booleans, None, lists and dicts'
        ) from None


class Acted(NamedTuple):
    """How many executions an act matched, changed, and found in a state that does not allow it."""

    matched: int
    changed: int
    refused: int


_KINDS = ('executions', 'events', 'steps', 'workspaces', 'plans', 'workflows', 'nodes', 'locks', 'groups', 'actions')
_STATES = ('PENDING', 'CLAIMED', 'DISPATCHED', 'WAITING', 'COMPLETED', 'FAILED', 'CANCELLED')
_ACTS = ('cancel', 'retry', 'release', 'purge', 'wake', 'dismiss')  # in the order of enum weir_act


class Filter(NamedTuple):
    """The conditions that executions must meet, all of them."""

    id: str | None = None
    workspace: str | None = None
    workflow: str | None = None
    executor_group: str | None = None
    reason: str | None = None
    waiting_for: str | None = None
    error_code: str | None = None
    key: str | None = None
    states: Iterable[str] | str = ()
    created_since: datetime | None = None
    created_before: datetime | None = None
    finished_before: datetime | None = None
    business_key: str | None = None
    business_key_prefix: str | None = None
    labels: Mapping[str, str] | None = None

    def _as_arguments(self) -> _weir._Filter:
        states = [self.states] if isinstance(self.states, str) else self.states
        bits = 0
        for state in states:
            if state.upper() not in _STATES:
                raise ValueError(f'{state!r} is no state: there are {", ".join(_STATES)}')
            bits |= 1 << _STATES.index(state.upper())
        labels = tuple(text for pair in (self.labels or {}).items() for text in pair)
        moments = map(moment, self[9:12])
        keys = (self.business_key, self.business_key_prefix)
        return (*self[:8], bits, *moments, *keys, labels)  # type: ignore[return-value]


class Store:
    """Opened at the first use, and once more in a child process of fork().

    `url` is "sqlite:PATH", a path, "postgres://...", or a server before the store, "https://HOST:PORT", with the token in
    the variable WEIR_TOKEN. Without it WEIR_STORE of the environment, else ./weir.db.
    """

    def __init__(
        self, url: str | None = None, *, deadline: Duration | None = None, on_event: Callable[..., None] | None = None
    ) -> None:
        self.url = url or os.environ.get('WEIR_STORE') or DEFAULT_URL
        self._deadline_us = 0 if deadline is None else microseconds(deadline)
        self._on_event = on_event
        self._lock = threading.Lock()
        self._native: _weir.Store | None = None
        _stores.add(self)

    def native(self) -> _weir.Store:
        with self._lock:
            if self._native is None:
                self._native = _weir.Store(self.url, self._deadline_us, self._on_event)
            return self._native

    def is_open(self) -> bool:
        return self._native is not None

    def is_postgres(self) -> bool:
        return self.url.startswith(('postgres://', 'postgresql://'))

    def is_server(self) -> bool:
        """A server of weir before the store."""
        return self.url.startswith(('http://', 'https://', 'unix:'))

    def is_sqlite(self) -> bool:
        return not self.is_postgres() and not self.is_server()

    def close(self) -> None:
        """What runs ends first. A later call opens the store again."""
        with self._lock:
            native, self._native = self._native, None
        if native is not None:
            native.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def migrate(self, *, share: bool = False) -> int:
        """Makes the store, or brings its schema up to this version; the number of applied migrations.

        `share`: also in a SQLite file that has the tables of your application already.
        """
        if not share or not self.is_sqlite():
            return _weir.migrate(self.url)
        with _sqlite.shared(re.sub('^sqlite:', '', self.url)):
            return _weir.migrate(self.url)

    # --- executions ---

    def enqueue(
        self,
        workspace: str,
        workflow: str,
        params: Mapping[str, Any] = {},
        *,
        key: str | None = None,  # noqa: B006
        executor_group: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        id: str | None = None,
        traceparent: str | None = None,
        business_key: str | None = None,
        labels: Mapping[str, str] | None = None,
        key_mode: str | None = None,
        debounce: Duration | None = None,
        debounce_max: Duration | None = None,
    ) -> str:
        """Enqueues one execution, durably, and returns its id. A known idempotency key returns the first one's id.

        business_key, labels: what lists and acts find it by; many executions may have the same.
        key_mode: another effect of a known key, 'replace', 'debounce' (with its window and longest delay) or 'one_active'.
        """
        request = Request(
            workspace,
            workflow,
            params,
            key,
            executor_group,
            priority,
            run_at,
            id,
            traceparent,
            business_key,
            labels,
            key_mode,
            debounce,
            debounce_max,
        )
        return self._enqueue(request)

    def _enqueue(self, request: Request) -> str:
        arguments = request._as_arguments()  # before the store is opened: a wrong request needs none
        native = self.native()
        id = native.enqueue(*arguments)
        _served.watch((self.url, request.workflow, request.executor_group), lambda: native.why(id))
        return id

    def enqueue_many(self, requests: Iterable[Request]) -> list[str]:
        """Enqueues a set in one transaction and returns the ids.

        If some are refused, the others exist all the same, and EnqueueManyError is raised with the outcome of each.
        """
        made = list(requests)
        arguments = [request._as_arguments() for request in made]
        native = self.native()
        results = native.enqueue_many(arguments)
        firsts: dict[tuple[str, str | None], str] = {}
        for request, result in zip(made, results):
            if not isinstance(result, Error):
                firsts.setdefault((request.workflow, request.executor_group), result[0])
        for subject, id in firsts.items():
            _served.watch((self.url, *subject), lambda id=id: native.why(id))  # type: ignore[misc]
        refused = [result for result in results if isinstance(result, Error)]
        if refused:
            raise EnqueueManyError([result if isinstance(result, Error) else result[0] for result in results], refused)
        return [result[0] for result in results]

    def show(self, id: str) -> dict[str, Any]:
        """One execution with params, steps and events, as `weir show --json` has it."""
        return _object(self.native().show(id))

    def why(self, id: str) -> dict[str, Any]:
        """Why it is not running yet, as `weir why --json` has it."""
        return _object(self.native().why(id))

    def wait(self, id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Waits until the execution has ended, in any way, and returns what `show()` would. Raises TimedOut."""
        left_us = None if timeout is None else microseconds(timeout)
        while True:
            # In parts, so that a signal such as Ctrl-C is seen.
            part_us = 200_000 if left_us is None else min(left_us, 200_000)
            try:
                return _object(self.native().wait(id, part_us))
            except TimedOut:
                if left_us is not None:
                    left_us -= part_us
                    if left_us <= 0:
                        raise

    def result(self, id: str, timeout: Duration | None = None) -> Any:
        """What the function returned. Waits for the end; raises ExecutionFailed when it did not complete."""
        execution = self.wait(id, timeout)
        if execution['status'] != 'COMPLETED':
            raise ExecutionFailed(execution)
        return _last_output(execution)

    def cancel(self, id: str, reason: str | None = None) -> None:
        """A PENDING or WAITING execution ends at once; a running one is stopped by its worker, soon."""
        self.native().cancel(id, reason)

    def signal(self, id: str, name: str, data: Any = None, *, key: str | None = None, reason: str | None = None) -> int:
        """Sends data to a step that waits for a signal of this name, or will wait. The same key again is the same signal.

        Returns the number of the signal among those of the execution.
        """
        text = encode(data)
        return int(self.native().signal(id, name, text, key, reason))

    def complete(
        self,
        id: str,
        run_id: str,
        *,
        result: Any = None,
        failed: str | None = None,
        error: str | None = None,
        cancelled: bool = False,
        fence: int = 0,
    ) -> None:
        """For the worker of a workflow on Temporal: reports its end, as the last act, so that the slot is free at once.

        `id`: the execution, or the default workflow id. `run_id`: the workflow's own run, or the first one of its chain;
        the end of another run is refused. `failed`: the code of a failure, `error` its text.
        """
        end = 2 if cancelled else 1 if failed is not None else 0
        text = None if result is None else encode(result)
        self.native().complete(id, end, text, failed, error, run_id, fence)

    # --- lists, and acts on executions ---

    def executions(self, **conditions: Any) -> Iterator[dict[str, Any]]:
        """The executions that meet the conditions (the fields of Filter), newest first, page by page as you go on."""
        return self._rows('executions', Filter(**conditions))

    def count(self, **conditions: Any) -> int:
        """How many meet the conditions; at most 100,000 are counted."""
        return int(self._page('executions', Filter(**conditions), limit=1, count=True)['count'])

    def steps(self, id: str) -> list[dict[str, Any]]:
        return list(self._rows('steps', Filter(id)))

    def events(self, id: str) -> list[dict[str, Any]]:
        return list(self._rows('events', Filter(id)))

    def actions(self, id: str) -> list[dict[str, Any]]:
        """The history of an execution with states, oldest first."""
        return list(self._rows('actions', Filter(id)))

    def workspaces(self) -> Iterator[dict[str, Any]]:
        return self._rows('workspaces')

    def plans(self) -> Iterator[dict[str, Any]]:
        return self._rows('plans')

    def workflows(self) -> Iterator[dict[str, Any]]:
        return self._rows('workflows')

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Workers and other nodes, also stopped and dead ones: see the key "state"."""
        return self._rows('nodes')

    def usage(self, workspace: str) -> dict[str, Any]:
        """Plan, cap, slots in use and waiting executions of a workspace."""
        return _object(self.native().usage(workspace))

    def failures(self, **conditions: Any) -> list[dict[str, Any]]:
        """Failed executions that nobody has retried or dismissed, grouped by code, workflow and workspace, the largest
        first."""
        return list(_object(self.native().failures(Filter(**conditions)._as_arguments()))['items'])

    def retry(
        self, id: str, reason: str | None = None, *, keep_finished: bool = False, from_step: str | None = None
    ) -> str:
        """Enqueues a failed or cancelled execution again, as a new one, and returns its id. `keep_finished`: its finished
        steps are kept with their outputs. `from_step`: the same, but this one and all that need it run again."""
        return self.native().retry(id, keep_finished, from_step, reason)

    def release(self, id: str, reason: str | None = None) -> None:
        """A PENDING execution may start at once, before its time or the end of its back-off."""
        self._act('release', Filter(id), reason)

    def dismiss(self, id: str, reason: str | None = None) -> None:
        """A FAILED execution is dealt with: `weir failures` counts it no more."""
        self._act('dismiss', Filter(id), reason)

    def approve(self, id: str, step: str | None = None, *, comment: str | None = None, reason: str | None = None) -> None:
        """Approves a step that waits for it; without `step`, the only one that does. `comment` is a part of its output."""
        self.native().decide(id, step, True, comment, reason)

    def reject(self, id: str, step: str | None = None, *, comment: str | None = None, reason: str | None = None) -> None:
        """Rejects a step that waits for an approval, as approve() approves it."""
        self.native().decide(id, step, False, comment, reason)

    def call_back(
        self, token: str, output: Any = None, *, failed: str | None = None, error: str | None = None, final: bool = False
    ) -> str:
        """Reports the end of the work of an `http` step with `callback`, for the function that it has called.

        `token`: of the header Weir-Callback. `failed`: the code of a failure, `error` its text; `final`: without another
        attempt. The same report again is no error. Returns the id of the execution.
        """
        text = None if failed is not None else encode(output)
        return self.native().call_back(token, text, failed, error, final)

    def update(
        self,
        id: str,
        state: str | None = None,
        *,
        variables: Mapping[str, Any] | None = None,
        reason: str | None = None,
        if_state: str | None = None,
    ) -> int:
        """Moves an execution with states to another state, and sets variables, while no worker has it.

        `if_state`: only while this is its present state; the same update twice is then refused (`conflict`). Returns the
        number of the update in its history of actions."""
        text = None if variables is None else encode(variables)
        return int(self.native().update(id, state, text, reason, if_state))

    def wake(self, id: str, reason: str | None = None, *, waiting_for: str | None = None) -> None:
        """Ends the waits of an execution before their time: sleeps are finished, and next attempts begin. `waiting_for`:
        only waits of this kind, "sleep" or "retry"; "signal", "callback" (the report of a function) or "child" end those
        with a timeout, as if the time had come."""
        self.native().wake(id, waiting_for, reason)

    def migrate_execution(self, id: str, to_version: int, reason: str | None = None) -> None:
        """Lets a waiting execution go on with this version of its workflow. If its steps on record do not fit, it is
        refused with `illegal_state`, and the message names them."""
        self.native().migrate_execution(id, to_version, reason)

    def act(self, act: str, *, because: str | None = None, **conditions: Any) -> Acted:
        """Does "cancel", "retry", "release", "wake", "dismiss" or "purge" to all executions that meet the conditions. One
        condition is needed."""
        return Acted(*self._act(act, Filter(**conditions), because)[:3])

    def _act(self, act: str, conditions: Filter, reason: str | None) -> tuple[int, int, int, str]:
        if act not in _ACTS:
            raise ValueError(f'{act!r} is no act: there are {", ".join(_ACTS)}')
        return self.native().act(_ACTS.index(act), conditions._as_arguments(), reason)

    def _page(
        self, kind: str, conditions: Filter, cursor: str | None = None, limit: int = 0, count: bool = False
    ) -> dict[str, Any]:
        arguments = conditions._as_arguments()
        return _object(self.native().list(_KINDS.index(kind), arguments, None, cursor, limit, count))

    def _rows(self, kind: str, conditions: Filter = Filter()) -> Iterator[dict[str, Any]]:  # noqa: B008
        cursor = None
        while True:
            page = self._page(kind, conditions, cursor)
            yield from page['items']
            cursor = page['next_cursor']
            if cursor is None:
                return

    def metrics(self) -> str:
        """The metrics of the store and of this process as Prometheus text."""
        return self.native().metrics()

    # --- workflows, workspaces, plans ---

    def publish(self, definition: str, source: str = 'workflow') -> int:
        """Publishes a definition (YAML or JSON text) and returns its version; an unchanged one makes no new version."""
        return self._publish(definition, source)[0]

    def _publish(self, definition: str, source: str) -> tuple[int, bool, int]:
        """The version, whether it was there already, and the older version with the text of a new one, or 0."""
        return self.native().publish(definition, source)

    def set_workspace(self, name: str, *, plan: str | None = None, max_concurrent: int | None = 0) -> None:
        """Makes or changes a workspace. `max_concurrent`: its own limit; 0 = as it is, None = that of the plan."""
        self.native().set_workspace(name, plan, -1 if max_concurrent is None else max_concurrent)

    def set_max_pending(self, name: str, max_pending: int | None) -> None:
        """Changes how many executions of a workspace may be PENDING; 0 = no limit, None = that of the plan.

        Beyond it an enqueue raises QueueFull.
        """
        self.native().set_max_pending(name, False, -1 if max_pending is None else max_pending)

    def pause_workspace(self, name: str) -> None:
        """Nothing more of it is started; what runs goes on."""
        self.native().pause_workspace(name, True)

    def resume_workspace(self, name: str) -> None:
        self.native().pause_workspace(name, False)

    def rename_workspace(self, name: str, new_name: str, *, reason: str | None = None) -> None:
        """Gives a workspace another name; it keeps all that belongs to it.

        Executions that start later run under the new name. A request for the old name raises WorkspaceNotFound.
        """
        self.native().rename_workspace(name, new_name, reason)

    def delete_workspace(
        self, name: str, *, fail_waiting: bool = False, erase: bool = False, reason: str | None = None
    ) -> tuple[int, int]:
        """Deletes a workspace; refused while executions run, or wait without `fail_waiting`. `erase` removes its history.

        Returns how many PENDING and WAITING executions were ended, and how many ended ones were erased.
        """
        return self.native().delete_workspace(name, fail_waiting, erase, reason)

    def disable_workflow(self, name: str, workspace: str | None = None) -> None:
        """It takes no new executions; what is in the queue goes on. `workspace`: its owner, if it has one."""
        self.native().disable_workflow(name, workspace, True)

    def enable_workflow(self, name: str, workspace: str | None = None) -> None:
        self.native().disable_workflow(name, workspace, False)

    def delete_workflow(self, name: str, workspace: str | None = None) -> None:
        """Refused while executions of it have not ended. A worker that has the function publishes it again."""
        self.native().delete_workflow(name, workspace)

    def set_plan(self, name: str, *, max_concurrent: int = 0, weight: int = 0) -> None:
        """Makes or changes a plan. 0 = as it is; a new plan needs `max_concurrent`."""
        self.native().set_plan(name, max_concurrent, weight)

    def set_plan_max_pending(self, name: str, max_pending: int) -> None:
        """Changes the limit of set_max_pending() for the workspaces of a plan; 0 = no limit, as of a new plan."""
        self.native().set_max_pending(name, True, max_pending)


class EnqueueManyError(Error):
    """Some requests of a set were refused. `results` has an id or an Error per request, in their order."""

    status = 'failed'

    def __init__(self, results: list[Any], refused: list[Error]) -> None:
        super().__init__(f'{len(refused)} of {len(results)} requests were refused; the first: {refused[0]}')
        self.results = results


class ExecutionFailed(Error):
    """The execution ended, but not COMPLETED. `execution` is what show() returns."""

    status = 'failed'

    def __init__(self, execution: dict[str, Any]) -> None:
        code = execution.get('error_code') or execution['status'].lower()
        super().__init__(f'execution {execution["id"]} is {execution["status"]}: {code}: {execution.get("error") or ""}')
        self.execution = execution
        self.code: str = code


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def _last_output(execution: dict[str, Any]) -> Any:
    steps = execution.get('steps') or []
    return steps[-1].get('output') if steps else execution.get('result')


# --- fork() ---

_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """The library's handles do not survive fork(): the child opens its own. The parent's must not be closed here."""
    for store in _stores:
        store._lock = threading.Lock()
        if store._native is not None:
            _inherited.append(store._native)
            store._native = None


_inherited: list[Any] = []
os.register_at_fork(after_in_child=_leave_to_parent)
