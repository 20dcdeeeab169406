"""A class as a workflow with states: each method is the handler of a state, and its answer decides which one follows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, NoReturn

from weir import _log
from weir._time import Duration, microseconds, moment, text
from weir._workflow import Context, Registry, Workflow, place_of, refuse_unknown, registry
from weir.errors import DefinitionError
from weir.outcome import Fail
from weir.store import dump_params, encode

if TYPE_CHECKING:
    from datetime import datetime

_NAME = re.compile(r'[a-z0-9][a-z0-9_-]{0,63}')
_MARK = '_weir_state'


# --- answers ---


@dataclass(frozen=True)
class Next:
    """The state that follows: at once, `after` a time, or `at` a time. A text as an answer is Next(text)."""

    state: str | None = None
    after: Duration | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Wait:
    """`state` follows when the signal comes, or after `timeout`; None = the present state again.

    `ctx.signal` has the data."""

    signal: str
    state: str | None = None
    timeout: Duration | None = None


@dataclass(frozen=True)
class WaitChildren:
    """`state` follows when all executions have ended that this call has started with `ctx.start()`."""

    state: str | None = None
    timeout: Duration | None = None


@dataclass(frozen=True)
class Done:
    """The execution is COMPLETED with this result."""

    result: Any = None


# --- what a state is given ---


class Variables(MutableMapping[str, Any]):
    """The variables of the execution. What is set is saved with the answer of the method."""

    def __init__(self, call: Any, names: Sequence[str]) -> None:
        self._call = call
        self._names = names

    def __getitem__(self, name: str) -> Any:
        value = self._call.variable(name)
        if value is None:
            raise KeyError(name)
        return json.loads(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self._call.set_variable(name, encode(value))

    def __delitem__(self, name: str) -> None:
        self[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._names if self._call.variable(name) is not None])

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True)
class Failure:
    """The last failure that has led to the present state, or to a state before it."""

    state: str
    code: str
    message: str | None


class StateContext(Context):
    """What a call of a state is about."""

    def __init__(self, call: Any, owner: States, log: _log.AttemptLog | None = None) -> None:
        super().__init__(call, owner.name, (), log)
        self.state: str = call.state
        #: The arguments of the enqueue.
        self.params: dict[str, Any] = json.loads(call.input)
        self.variables = Variables(call, list(owner.definition.get('variables', ())))
        signal = call.signal
        #: The data of the signal that has ended the wait for this state; None = there was none.
        self.signal: Any = None if signal is None else json.loads(signal)
        failure = call.failure
        self.failure: Failure | None = None if failure is None else Failure(*failure)
        #: The same for each run of one action.
        self.idempotency_key = f'{call.execution_id}/{call.attempt}'

    def start(self, workflow: str | Workflow[Any], *, key: str | None = None, **params: Any) -> None:
        """Starts a child with the answer of the method; the end of this execution cancels it.

        `key`: the execution of the workspace with this idempotency key becomes the child. It goes on behind the end of
        this one.
        """
        self._call.start_child(_name_of(workflow), dump_params(params), key, False)

    def enqueue(self, workflow: str | Workflow[Any], *, key: str | None = None, **params: Any) -> None:
        """Enqueues an execution with the answer of the method; it goes on behind the end of this one.

        `key`: an idempotency key; a known one enqueues nothing.
        """
        self._call.start_child(_name_of(workflow), dump_params(params), key, True)


def _name_of(workflow: str | Workflow[Any]) -> str:
    return workflow if isinstance(workflow, str) else workflow.name


# --- the class ---


@dataclass(frozen=True)
class _State:
    kind: str | None
    options: dict[str, Any]


def state(
    *,
    error: bool = False,
    initial: bool = False,
    retry: Mapping[str, Any] | None = None,
    timeout: Duration | None = None,
    on_failure: str | None = None,
    next: Sequence[str] | None = None,
    **unknown: NoReturn,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a method the handler of the state of its name.

    `retry`, `timeout`: as of @weir.workflow, of this state. `on_failure`: the state after a failure. `next`: the only
    states that may follow. `error`: the execution is FAILED when the method answers Done.
    """
    refuse_unknown('@weir.state', unknown, state)

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        options: dict[str, Any] = {'initial': initial}
        if retry is not None:
            options['retry'] = {key: text(value) if key in ('backoff', 'max') else value for key, value in retry.items()}
        if timeout is not None:
            options['timeout'] = text(timeout)
        if on_failure is not None:
            options['on_failure'] = on_failure
        if next is not None:
            options['next'] = list(next)
        setattr(method, _MARK, _State('error' if error else None, options))
        return method

    return mark


def manual(*, next: Sequence[str] | None = None, initial: bool = False) -> Any:
    """A state that waits for a person: `store.update(id, state=...)`."""
    return _State('manual', {'initial': initial, **({} if next is None else {'next': list(next)})})


def end() -> Any:
    """A state that ends the execution; its result is the variables."""
    return _State('end', {})


def error_end() -> Any:
    """A state without a method that ends the execution as FAILED."""
    return _State('error', {})


class StateFunction(Workflow[Any]):
    """The method of one state, as the worker calls it."""

    def __init__(self, owner: States, name: str, method: Callable[..., Any]) -> None:
        self.owner = owner
        self.method = method
        handler = f'{owner.name}-{name}'
        super().__init__(method, handler, {'steps': {'run': {}}})
        self.function = self._call_method

    def _call_method(self, **arguments: Any) -> Any:
        return self.method(self.owner.cls(), **arguments)

    def context(self, call: Any, attempt_log: _log.AttemptLog) -> Context:
        return StateContext(call, self.owner, attempt_log)

    def arguments(self, context: Context, input: str) -> dict[str, Any]:
        return {'ctx': context} if self.wants_context else {}

    def _check_answer(self, value: Any) -> None:
        """Raises Fail for what names no state and no signal."""
        names = [] if value.state is None else [value.state]
        if isinstance(value, Wait):
            names.append(value.signal)
        for name in names:
            if not isinstance(name, str) or '\0' in name or name != name.encode('utf-8', 'replace').decode('utf-8'):
                raise Fail('state_no_answer', f'{self.name} answers {value!r}: states and signals are named by texts')

    def _result(self, call: Any, value: Any) -> Callable[[], None]:
        if isinstance(value, str):
            value = Next(value)
        if isinstance(value, (Next, Wait, WaitChildren)):
            self._check_answer(value)
        if isinstance(value, Next) and value.at is not None:
            at_us = moment(value.at)
            return lambda: call.next_at(value.state, at_us)
        if isinstance(value, Next):
            delay_us = 0 if value.after is None else microseconds(value.after)
            return lambda: call.next(value.state, delay_us)
        if isinstance(value, Wait):
            timeout_us = 0 if value.timeout is None else microseconds(value.timeout)
            return lambda: call.wait(value.state, value.signal, timeout_us)
        if isinstance(value, WaitChildren):
            timeout_us = 0 if value.timeout is None else microseconds(value.timeout)
            return lambda: call.wait_children(value.state, timeout_us)
        if isinstance(value, Done):
            return super()._result(call, value.result)
        raise Fail(
            'state_no_answer', f'{self.name} answers {value!r}: return a state, weir.Next, Wait, WaitChildren or Done'
        )


class States(Workflow[Any]):
    """A class whose methods are states, made by `@states`."""

    has_states = True

    def __init__(self, cls: type, name: str, definition: dict[str, Any], methods: dict[str, Callable[..., Any]]) -> None:
        self.cls = cls
        super().__init__(lambda **params: None, name, {**definition, 'steps': {'run': {}}})
        self.definition = definition
        self.place = place_of(cls)
        self.__doc__ = cls.__doc__
        self.__name__ = cls.__name__
        self.functions = {f'{name}-{state}': StateFunction(self, state, method) for state, method in methods.items()}
        self.is_async = any(function.is_async for function in self.functions.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.cls(*args, **kwargs)

    def parts(self) -> dict[str, Workflow[Any]]:
        return dict(self.functions)


def _members_of(cls: type, place: str) -> dict[str, tuple[Any, _State]]:
    """The states of a class, first those of its bases."""
    members: dict[str, tuple[Any, _State]] = {}
    for base in reversed(cls.__mro__):
        for key, member in vars(base).items():
            mark = member if isinstance(member, _State) else getattr(member, _MARK, None)
            if isinstance(mark, _State):
                members[key] = (member, mark)
            elif key in members:
                raise DefinitionError(
                    f'{place}: {key!r} is a state of a base class and none in {base.__name__}',
                    'decorate the method with @weir.state(), or give it another name',
                )
    return members


def states(
    name: str,
    *,
    on_error: str | None = None,
    variables: Mapping[str, Any] | None = None,
    signals: Sequence[str] = (),
    unknown_state: str | None = None,
    timeout: Duration | None = None,
    executor_group: str | None = None,
    register: Registry | None = None,
    **unknown: NoReturn,
) -> Callable[[type], States]:
    """Makes a class a workflow with states.

    The first method with @state is the initial one, unless another has `initial=True`. `variables`: names and types, as in
    a definition: {'amount': 'number', 'owner': {'type': 'string', 'initial': 'none'}}. `signals`: names for which states
    may wait. `on_error`: the state after a failure without one of its own. `timeout`: of the execution.
    """
    refuse_unknown('@weir.states', unknown, states)

    def decorate(cls: type) -> States:
        place = place_of(cls)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(
                f'{place}: {name!r} is no name of a workflow',
                'use 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit',
            )
        all_states: dict[str, Any] = {}
        methods: dict[str, Callable[..., Any]] = {}
        members = _members_of(cls, place)
        chosen = [key for key, (_, mark) in members.items() if mark.options.get('initial')]
        if len(chosen) > 1:
            raise DefinitionError(
                f'{place}: the workflow {name!r} has {len(chosen)} initial states', f'leave one of {", ".join(chosen)}'
            )
        initial = next(iter(chosen or [key for key, (_, mark) in members.items() if mark.kind is None]), None)
        for key, (member, mark) in members.items():
            options = {key: value for key, value in mark.options.items() if key != 'initial'}
            if not isinstance(member, _State):
                methods[key] = member
                options['handler'] = f'{name}-{key}'
            all_states[key] = {**({} if mark.kind is None else {'type': mark.kind}), **options}
        if not methods:
            raise DefinitionError(f'{place}: the workflow {name!r} has no state', 'decorate methods with @weir.state()')
        definition: dict[str, Any] = {'name': name, 'states': all_states, 'initial': initial}
        if on_error is not None:
            definition['on_error'] = on_error
        if variables:
            definition['variables'] = dict(variables)
        if signals:
            definition['signals'] = list(signals)
        if unknown_state is not None:
            definition['unknown_state'] = unknown_state
        if timeout is not None:
            definition['timeout'] = text(timeout)
        if executor_group is not None:
            definition['executor_group'] = executor_group
        made = States(cls, name, definition, methods)
        (registry if register is None else register).add(made)
        return made

    return decorate
