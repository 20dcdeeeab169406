"""A function as a workflow: the decorator, the checks of its signature, and what calls it."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import sys
import traceback
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Generic, NoReturn, TypeVar, Union

from weir import _log
from weir._signature import Parameters, is_coroutine_function, unwrap
from weir._time import Duration, text
from weir._trace import current_traceparent
from weir.errors import DefinitionError, ParamsError, WorkflowNotFound
from weir.outcome import Cancelled, Fail, Outcome, Retry
from weir.store import Request, Store, encode

if TYPE_CHECKING:  # with the module math it costs half a MiB
    from datetime import datetime

log = logging.getLogger('weir')
Result = TypeVar('Result')
_NAME = re.compile(r'[a-z0-9][a-z0-9_-]{0,63}')
_SECRET = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}')
_HIDDEN_MIN = 4  # a shorter value occurs everywhere
#: Options of enqueue(), so no names of params.
OPTIONS = (
    'workspace',
    'key',
    'key_mode',
    'debounce',
    'debounce_max',
    'executor_group',
    'priority',
    'run_at',
    'id',
    'traceparent',
    'business_key',
    'labels',
    'using',
    'store',
)
_STEP = 'run'
_ABSENT = object()


class Secrets(Mapping[str, str]):
    """The secrets that `secrets=` of a workflow names. Its repr has no values."""

    def __init__(self, values: Mapping[str, str], named: Iterable[str] = ()) -> None:
        self._values = dict(values)
        self._named = tuple(named)

    def __getitem__(self, name: str) -> str:
        if name not in self._values and name in self._named:
            raise KeyError(
                f'the secret {name!r} has no value here: a server sends its workers none, and run_inline() reads '
                'WEIR_SECRET_NAME of the environment'
            )
        if name not in self._values:
            raise KeyError(f'the workflow does not name the secret {name!r}: write @workflow(..., secrets=[{name!r}])')
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f'<secrets {", ".join(self._values)}>'

    def hide(self, text: str) -> str:
        """The text with *** in place of the values."""
        for value in sorted(self._values.values(), key=len, reverse=True):
            text = text.replace(value, '***') if len(value) >= _HIDDEN_MIN else text
        return text


class Context:
    """What a call is about. A function that has a parameter named `ctx` gets it."""

    def __init__(self, call: Any, workflow: str, secrets: Iterable[str] = (), log: _log.AttemptLog | None = None) -> None:
        self._call = call
        self._log = log or _log.AttemptLog(call)
        #: Read by the worker when this attempt began.
        self.secrets = Secrets({name: value for name in secrets if (value := call.secret(name)) is not None}, secrets)
        self.workflow = workflow
        self.workspace: str = call.workspace
        self.execution_id: str = call.execution_id
        self.step: str = call.step
        #: From 1; no number is used twice.
        self.attempt: int = call.attempt
        #: A later claim of the same execution has a larger one.
        self.fence: int = call.fence
        #: The W3C trace context for all that the function calls; None = there is no trace.
        self.traceparent: str | None = call.traceparent
        #: The same for every attempt: give it to services that know idempotency keys.
        self.idempotency_key = f'{call.execution_id}/{call.step}'

    @property
    def cancelled(self) -> bool:
        """True when the execution was cancelled, timed out, or the worker stops."""
        return bool(self._call.cancelled)

    def log(self, text: object) -> None:
        """Adds a line to the log of this attempt, for `weir logs`, and nowhere else. Never fails for want of space."""
        self._log.add(str(text))

    def progress(self, fraction: float | None, text: str | None = None) -> None:
        """Shows how far the function is: a number from 0 to 1, None = unknown, and a text of at most 200 bytes.

        Each report replaces the one before. It is shown while the attempt runs, and gone after it.
        """
        self._log.report(math.nan if fraction is None else float(fraction), text)

    def heartbeat(self) -> None:
        """Raises Cancelled when the function shall end. Long functions call it now and then."""
        if self.cancelled:
            raise Cancelled(f'execution {self.execution_id} shall end')


class Workflow(Generic[Result]):
    """A function that weir runs, made by `@workflow`. Calling it runs it here and now, without weir."""

    #: True for a class whose methods are states.
    has_states = False

    def __init__(self, function: Callable[..., Result], name: str, definition: dict[str, Any]) -> None:
        self.function = function
        self.name = name
        self.definition = definition
        self.secrets: list[str] = definition['steps'][_STEP].get('secrets', [])
        self.executor_group: str | None = definition.get('executor_group')
        self.is_async = is_coroutine_function(function)
        self.place = place_of(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, '__name__', name)
        self.__wrapped__ = function
        self.params = Parameters(function)
        self.wants_context = self.params.wants_context
        try:
            self._types = typing.get_type_hints(function)
        except Exception:  # a forward reference to a name that exists for type checkers only
            self._types = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f'<weir workflow {self.name} at {self.place}>'

    def check_types(self) -> None:
        """Raises DefinitionError for a parameter whose type no params of JSON have, or whose default has another type."""
        for name, wanted in self._types.items():
            if name not in self.params.names:
                continue
            if not _json_has(wanted):
                raise DefinitionError(
                    f'{self.place}: the parameter {name!r} of {self.name} is a {_spell(wanted)}, which JSON does not have',
                    'params are JSON: take text, a number, a list or a dict, and make the object in the function',
                )
            default = self.params.defaults.get(name)
            if default is not None and not _fits(default, wanted):
                raise DefinitionError(
                    f'{self.place}: the default {default!r} of the parameter {name!r} is no {_spell(wanted)}',
                    'give a default of that type',
                )

    # --- enqueue ---

    def check(self, params: Mapping[str, Any]) -> None:
        """Raises ParamsError when the function could not be called with these."""
        try:
            self.params.bind(params)
        except TypeError as problem:
            hint = f'its params are {self.params.signature()}, see {self.place}'
            if not params.keys() <= set(self.params.names):
                hint += f'; the options of enqueue() are {", ".join(sorted(OPTIONS))}'
            raise ParamsError(f'{self.name}: {problem}', hint) from None
        for name in self.params.names if self._types else ():
            wanted = self._types.get(name)
            value = params.get(name, _ABSENT)
            if wanted is not None and value is not _ABSENT and not _fits(value, wanted):
                raise ParamsError(f'{self.name}: {name}={value!r} is no {_spell(wanted)}', f'see {self.place}')

    def enqueue(
        self,
        workspace: str,
        *,
        key: str | None = None,
        key_mode: str | None = None,
        debounce: Duration | None = None,
        debounce_max: Duration | None = None,
        executor_group: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        id: str | None = None,
        traceparent: str | None = None,
        business_key: str | None = None,
        labels: Mapping[str, str] | None = None,
        using: Any = None,
        store: Store | None = None,
        **params: Any,
    ) -> str:
        """Enqueues an execution of this function and returns its id.

        `key_mode`: the effect of a known key, 'replace', 'debounce' or 'one_active'; without it the first id is returned.
        `traceparent`: the W3C trace context that it belongs to; without it OpenTelemetry's current one, if there is one.
        `business_key`, `labels`: what lists and acts find it by; many executions may have the same.
        `using`: your own connection with its open transaction (psycopg, sqlite3, apsw, SQLAlchemy, Django); the execution
        exists when you commit, and never when you roll back.
        """
        self.check(params)
        if using is None and store is None and _find_transaction is not None:
            using = _find_transaction()
        request = Request(
            workspace,
            self.name,
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
        if using is not None:
            from weir import transactions  # with the drivers that it knows it costs programs without transactions 1.3 MiB

            return transactions.enqueue(using, store or default_store(), request)
        used = store or default_store()
        try:
            return used._enqueue(request)
        except WorkflowNotFound:
            self.publish(used)  # no worker has run yet
            return used._enqueue(request)

    async def enqueue_async(
        self,
        workspace: str,
        *,
        key: str | None = None,
        key_mode: str | None = None,
        debounce: Duration | None = None,
        debounce_max: Duration | None = None,
        executor_group: str | None = None,
        priority: int = 0,
        run_at: datetime | None = None,
        id: str | None = None,
        traceparent: str | None = None,
        business_key: str | None = None,
        labels: Mapping[str, str] | None = None,
        using: Any = None,
        store: Store | None = None,
        **params: Any,
    ) -> str:
        """As enqueue(), beside an event loop. `using` may be a connection of asyncpg or psycopg's AsyncConnection."""
        self.check(params)
        if using is not None:
            from weir import transactions

            request = Request(
                workspace,
                self.name,
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
            return await transactions.enqueue_async(using, store or default_store(), request)
        import asyncio  # at the top it would cost programs without an event loop 7 MiB, and a third of `import weir`

        trace = traceparent or current_traceparent()  # here: the thread below has another context
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            None,
            lambda: self.enqueue(
                workspace,
                key=key,
                key_mode=key_mode,
                debounce=debounce,
                debounce_max=debounce_max,
                executor_group=executor_group,
                priority=priority,
                run_at=run_at,
                id=id,
                traceparent=trace,
                business_key=business_key,
                labels=labels,
                store=store,
                **params,
            ),
        )

    def publish(self, store: Store | None = None) -> int:
        """Makes the definition known to the store; returns its version. The log has a line when that is new."""
        version, is_unchanged, earlier = (store or default_store())._publish(json.dumps(self.definition), self.place)
        if is_unchanged or version == 1:
            return version
        if earlier == 0:
            log.info('%s: %s has the new version %d, because its definition changed', self.place, self.name, version)
        else:
            log.warning(
                '%s: %s has the new version %d, which is version %d again: if this is no return to an earlier release, '
                'another program publishes a different definition of %s (give one of them another name)',
                self.place,
                self.name,
                version,
                earlier,
                self.name,
            )
        return version

    # --- run ---

    def parts(self) -> dict[str, Workflow[Any]]:
        """What a worker calls, by the names of handlers."""
        return {self.name: self}

    def context(self, call: Any, attempt_log: _log.AttemptLog) -> Context:
        return Context(call, self.name, self.secrets, attempt_log)

    def arguments(self, context: Context, input: str) -> dict[str, Any]:
        """Of one call. Raises Fail when they do not fit the function."""
        params = json.loads(input)
        try:
            self.check(params)
        except ParamsError as problem:
            raise Fail('params_invalid', problem.message) from None
        return {**params, 'ctx': context} if self.wants_context else params

    def run(self, call: Any) -> None:
        """A call of a function that is not asynchronous, on a thread of the node."""
        answer: Callable[[], None]
        process = os.getpid()
        secrets = Secrets({})
        attempt_log = _log.begin(call)
        try:
            context = self.context(call, attempt_log)
            secrets = context.secrets
            answer = self._result(call, self.function(**self.arguments(context, call.input)))
        except BaseException as problem:  # SystemExit must not end the worker
            _end_child_of_fork(process, problem)
            answer = self._failure(call, problem, secrets)
        _end_child_of_fork(process, None)
        attempt_log.close()
        self._give(call, answer, secrets)

    async def run_async(self, call: Any) -> None:
        """A deferred call of a coroutine function, in the worker's event loop."""
        import asyncio

        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        process = os.getpid()
        assert task is not None
        call.on_cancel(lambda: loop.call_soon_threadsafe(task.cancel))
        secrets = Secrets({})
        attempt_log = _log.begin(call)
        try:
            context = self.context(call, attempt_log)
            secrets = context.secrets
            coroutine: Any = self.function(**self.arguments(context, call.input))
            answer = self._result(call, await coroutine)
        except BaseException as problem:
            _end_child_of_fork(process, problem)
            answer = self._failure(call, problem, secrets)
        _end_child_of_fork(process, None)
        attempt_log.close()
        self._give(call, answer, secrets)

    def _give(self, call: Any, answer: Callable[[], None], secrets: Secrets) -> None:
        """A call without an answer would keep its slot for ever."""
        try:
            answer()
        except (TypeError, ValueError, OverflowError) as problem:  # of arguments that the library does not take
            self._failure(call, problem, secrets)()

    def _result(self, call: Any, value: Any) -> Callable[[], None]:
        try:
            output = None if value is None else encode(value)
        except (TypeError, ValueError, RecursionError) as problem:
            raise Fail('result_not_json', f'the result of {self.name} is no JSON: {problem}') from None
        return lambda: call.done(output)

    def _failure(self, call: Any, problem: BaseException, secrets: Secrets) -> Callable[[], None]:
        if isinstance(problem, Retry):
            code, message, delay_us = _clean(problem.code), _clean(problem.message), problem.delay_us
            return lambda: call.retry(code, message, delay_us)
        if isinstance(problem, Outcome):
            code, message = _clean(problem.code), _clean(problem.message)
            return lambda: call.fail(code, message)
        if isinstance(problem, Cancelled) or _is_cancelled_error(problem):
            return lambda: call.retry('cancelled', 'the function ended because it was asked to', -1)
        log.error(
            '%s of %s failed at attempt %d%s',
            self.name,
            call.workspace,
            call.attempt,
            '\n' + secrets.hide(''.join(traceback.format_exception(type(problem), problem, problem.__traceback__)))
            if secrets
            else '',
            exc_info=None if secrets else problem,
            extra={'execution_id': call.execution_id},
        )
        message = _clean(f'{type(problem).__name__}: {_words_of(problem)}')
        return lambda: call.retry(_clean(_code_of(problem)), message, -1)


def _is_cancelled_error(problem: BaseException) -> bool:
    """Without asyncio in the program there is no such exception."""
    return isinstance(problem, getattr(sys.modules.get('asyncio'), 'CancelledError', ()))


class Registry:
    """The workflows of a program, by name."""

    def __init__(self) -> None:
        self.workflows: dict[str, Workflow[Any]] = {}

    def add(self, workflow: Workflow[Any]) -> None:
        other = self.workflows.get(workflow.name)
        if other is not None:
            refuse_two(other, workflow)
        # The same place again is a reloaded module; with another definition it is a loop.
        if other is not None and other.definition != workflow.definition:
            raise DefinitionError(
                f'{workflow.place}: the workflow {workflow.name!r} was made twice, with different options',
                'decorate one function once for each name',
            )
        self.workflows[workflow.name] = workflow


def refuse_two(one: Workflow[Any], other: Workflow[Any]) -> None:
    """Raises DefinitionError when two functions have one name."""
    if one.name == other.name and one.place != other.place:
        raise DefinitionError(
            f'two workflows are named {one.name!r}: {one.place} and {other.place}', 'give one of them another name'
        )


registry = Registry()
_default_store: Store | None = None
_find_transaction: Callable[[], Any] | None = None
_make_store: Callable[[], Store] | None = None


def adapt(find_transaction: Callable[[], Any], make_store: Callable[[], Store]) -> None:
    """For frameworks. `find_transaction`: the open transaction that enqueue() takes part in without `using`, or None.
    `make_store`: the default store, at its first use."""
    global _find_transaction, _make_store
    _find_transaction, _make_store = find_transaction, make_store


def configure(store: str | Store | None = None) -> Store:
    """Says which store enqueue() uses; without it WEIR_STORE of the environment, else ./weir.db."""
    global _default_store
    _default_store = store if isinstance(store, Store) else Store(store)
    return _default_store


def default_store() -> Store:
    return _default_store or configure(_make_store() if _make_store is not None else None)


def workflow(
    name: str | None = None,
    *,
    retry: Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    executor_group: str | None = None,
    secrets: Sequence[str] = (),
    register: Registry | None = None,
    **unknown: NoReturn,
) -> Callable[[Callable[..., Result]], Workflow[Result]]:
    """Makes a function a workflow.

    `retry`: attempts, backoff, factor, max, as in a definition; durations as seconds, timedelta or text.
    `timeout`: of one attempt. `executor_group`: of the workers that run it. `secrets`: names of what `ctx.secrets` shall
    hold.
    """

    refuse_unknown('@weir.workflow', unknown, workflow)
    if callable(name):  # @workflow without arguments gives the function itself
        raise _nameless(place_of(name))

    def decorate(function: Callable[..., Result]) -> Workflow[Result]:
        place = place_of(function)
        if name is None:
            raise _nameless(place)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(
                f'{place}: {name!r} is no name of a workflow',
                'use 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit',
            )
        if isinstance(function, type) or not callable(function):
            raise DefinitionError(f'{place}: the workflow {name!r} is no function', 'decorate a function')
        _check_parameters(function, place)
        made = Workflow(function, name, _definition(place, name, retry, timeout, executor_group, secrets))
        made.check_types()
        (registry if register is None else register).add(made)
        return made

    return decorate


def refuse_unknown(what: str, unknown: Mapping[str, object], decorator: Any) -> None:
    """Raises DefinitionError when a decorator was called with options that it lacks. Type checkers refuse them as well."""
    if not unknown:
        return
    import difflib

    names = [*decorator.__annotations__.keys() - {'return', 'unknown'}]
    near = difflib.get_close_matches(next(iter(unknown)), names, 1)
    raise DefinitionError(
        f'{place_of(None)}: {what} has no option {next(iter(unknown))!r}',
        (f'did you mean {near[0]!r}? ' if near else '') + f'it has {", ".join(sorted(names))}',
    )


def _nameless(place: str) -> DefinitionError:
    return DefinitionError(f'{place}: the workflow has no name', "write @weir.workflow(name='send-invoice')")


def _definition(
    place: str,
    name: str,
    retry: Mapping[str, Any] | None,
    timeout: Duration | None,
    executor_group: str | None,
    secrets: Sequence[str],
) -> dict[str, Any]:
    step: dict[str, Any] = {'handler': name}
    if isinstance(secrets, str) or not all(isinstance(one, str) and _SECRET.fullmatch(one) for one in secrets):
        raise DefinitionError(
            f'{place}: {secrets!r} are no names of secrets',
            'give a list; a name has 1 to 64 letters, digits, _, - and ., and begins with a letter, digit or _',
        )
    if secrets:
        step['secrets'] = list(secrets)
    if retry is not None and not isinstance(retry, Mapping):
        raise DefinitionError(f'{place}: retry={retry!r} is no mapping', "write retry={'attempts': 5, 'backoff': '10s'}")
    if executor_group is not None and not isinstance(executor_group, str):
        raise DefinitionError(f'{place}: executor_group={executor_group!r} is no text', "write executor_group='gpu'")
    unknown = set(retry or ()) - {'attempts', 'backoff', 'factor', 'max', 'not_on'}
    if unknown:
        raise DefinitionError(
            f'{place}: retry has no {sorted(unknown)[0]!r}', 'it has attempts, backoff, factor, max, not_on'
        )
    try:
        if retry:
            step['retry'] = {key: text(value) if key in ('backoff', 'max') else value for key, value in retry.items()}
        if timeout is not None:
            step['timeout'] = text(timeout)
    except ValueError as problem:
        raise DefinitionError(f'{place}: {problem}') from None
    definition: dict[str, Any] = {'name': name, 'steps': {_STEP: step}}
    if executor_group is not None:
        definition['executor_group'] = executor_group
    return definition


def _check_parameters(function: Callable[..., Any], place: str) -> None:
    params = Parameters(function)
    for name in params.all_names:
        if name in OPTIONS:
            raise DefinitionError(
                f'{place}: the parameter {name!r} has the name of an option of enqueue()',
                'rename it; the workspace is in ctx.workspace',
            )
        if name in params.nameless:
            raise DefinitionError(
                f'{place}: the parameter {name!r} has no name that a caller could use',
                'params are a JSON object: use parameters with names',
            )


def place_of(function: Any) -> str:
    """File and line; of what has none, for example a class, those of the decorator."""
    code = getattr(unwrap(function), '__code__', None)
    if code:
        return f'{code.co_filename}:{code.co_firstlineno}'
    own = os.path.dirname(__file__) + os.sep
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return f'{frame.f_code.co_filename}:{frame.f_lineno}'


def _code_of(problem: BaseException) -> str:
    return re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', type(problem).__name__).lower()[:64]


def _words_of(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception as second:
        return f'(its text cannot be had: {type(second).__name__})'


def _clean(text: Any) -> Any:
    """As UTF-8 without NUL, which ends texts in the store; the answer to a call must not fail."""
    if text is None:
        return None
    return _words_of(text).replace('\0', ' ').encode('utf-8', 'replace').decode('utf-8')


def _end_child_of_fork(process: int, problem: BaseException | None) -> None:
    """A function that forks returns twice. The call belongs to the parent, and the child has no thread of the worker."""
    if os.getpid() == process:
        return
    code = 0
    if isinstance(problem, SystemExit):
        code = problem.code if isinstance(problem.code, int) else 0 if problem.code is None else 1
    elif problem is not None:
        traceback.print_exception(type(problem), problem, problem.__traceback__)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)


_JSON_TYPES = (str, int, float, bool, list, dict, type(None))
_UNIONS = (Union, getattr(types, 'UnionType', Union))


def _fits(value: Any, wanted: Any) -> bool:
    """Checks types that JSON has; any other annotation is left to the function."""
    origin = typing.get_origin(wanted)
    if origin in _UNIONS:
        return any(_fits(value, part) for part in typing.get_args(wanted))
    if origin is typing.Literal:
        return value in typing.get_args(wanted)
    kind = origin or wanted
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(kind, type) or kind not in _JSON_TYPES or isinstance(value, kind)


def _json_has(wanted: Any) -> bool:
    """False for a class of which no value of JSON can be an instance. What is no class is left to the function."""
    origin = typing.get_origin(wanted)
    if origin in _UNIONS:
        return any(_json_has(part) for part in typing.get_args(wanted) if part is not type(None))
    kind = origin or wanted
    if kind is Any or not isinstance(kind, type) or getattr(kind, '_is_protocol', False):
        return True
    if any(known in kind.__mro__ for known in _JSON_TYPES):
        return True
    try:
        return any(issubclass(known, kind) for known in _JSON_TYPES)
    except TypeError:  # a class that cannot be asked
        return True


def _spell(wanted: Any) -> str:
    return getattr(wanted, '__name__', None) or str(wanted).replace('typing.', '')


__all__ = [
    'OPTIONS',
    'Context',
    'Registry',
    'Secrets',
    'Workflow',
    'configure',
    'default_store',
    'place_of',
    'refuse_unknown',
    'registry',
    'workflow',
]
