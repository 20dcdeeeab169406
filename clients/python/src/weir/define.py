"""Definitions of several steps, written in Python. docs/definitions.md describes what each step does.

    from weir import define

    trip = define.Definition('trip', timeout='1h')
    trip.step('hotel', define.handler(book_hotel), undo=define.handler(cancel_hotel))
    trip.step('ask', define.approve(by=['token:ops'], timeout='2d', default='reject'), needs=['hotel'])
    trip.step('pay', define.http('https://pay.example.com/charges', body={'trip': '${.input.trip}'}), needs=['ask'])
    trip.on_failure('tell', define.handler(tell_support))
    trip.end('clean', define.execute('rm', '-rf', '${.input.folder}'))
    trip.publish()

The store checks a definition as a whole, and refuses it with the place in this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from weir._time import Duration, text
from weir.errors import DefinitionError

if TYPE_CHECKING:
    from weir._workflow import Workflow
    from weir.store import Store

#: A function that `@workflow` has made, or a name.
Target = Union[str, 'Workflow[Any]']
_MISSING: Any = object()
_STEPS, _ON_FAILURE, _FINALLY = 'steps', 'on_failure', 'finally'


class Work:
    """The kind of a step with its keys. `with_options()` gives an undo options of its own."""

    def __init__(self, keys: Mapping[str, Any], secrets: Sequence[str] = ()) -> None:
        self.keys = dict(keys)
        #: Those of the function, unless the step names others.
        self.secrets = list(secrets)

    def with_options(
        self,
        *,
        when: str | None = None,
        timeout: Duration | None = None,
        retry: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | Sequence[str] | None = None,
    ) -> Work:
        """The same work as an undo with a condition, a timeout, a retry or secrets."""
        return Work(_with(self, when=when, timeout=_duration(timeout), retry=_retry(retry), secrets=secrets))


def handler(target: Target, input: Any = _MISSING) -> Work:
    """Calls the function of a worker. `input`: its params, with expressions; without it those of the execution."""
    keys = {'handler': _name(target)}
    if input is not _MISSING:
        keys['input'] = input
    return Work(keys, getattr(target, 'secrets', ()))


def execute(
    *command: str | int,
    env: Mapping[str, Any] | None = None,
    env_from: Sequence[str] | None = None,
    cwd: str | None = None,
    stdin: Any = None,
    output_max: str | int | None = None,
) -> Work:
    """Runs a program (the key `exec` of a definition)."""
    keys = {'exec': list(command), 'env': env, 'env_from': env_from, 'cwd': cwd, 'stdin': stdin, 'output_max': output_max}
    return Work(_given(keys))


def http(
    url: str,
    *,
    method: str | None = None,
    headers: Mapping[str, Any] | None = None,
    body: Any = None,
    expect: Any = None,
    redirects: int | None = None,
    bearer: str | None = None,
    sign: str | None = None,
    callback: Duration | None = None,
) -> Work:
    """Sends a request. `callback`: after an answer 202 the step waits so long for the report of the function."""
    keys = {
        'url': url,
        'method': method,
        'headers': headers,
        'body': body,
        'expect': expect,
        'redirects': redirects,
        'bearer': bearer,
        'sign': sign,
        'callback': _duration(callback),
    }
    return Work({'http': _given(keys)})


def sleep(duration: Duration | None = None, *, until: str | None = None) -> Work:
    """Waits so long, which may be an expression, or until a time."""
    if (duration is None) == (until is None):
        raise ValueError('a sleep has either a duration or until')
    if until is not None:
        return Work({'sleep': {'until': until}})
    is_expression = isinstance(duration, str) and '${' in duration
    return Work({'sleep': {'for': duration} if is_expression else _duration(duration)})


def signal(name: str, *, timeout: Duration | None = None, default: Any = _MISSING) -> Work:
    """Waits for a signal. `default`: the output after the timeout; without it the step fails then."""
    keys = _given({'name': name, 'timeout': _duration(timeout)})
    if default is not _MISSING:
        keys['default'] = default
    return Work({'signal': keys})


def approve(
    *,
    by: Sequence[str] | None = None,
    prompt: str | None = None,
    timeout: Duration | None = None,
    default: str | None = None,
    on_reject: str | None = None,
) -> Work:
    """Waits for the decision of an actor."""
    keys = {'by': by, 'prompt': prompt, 'timeout': _duration(timeout), 'default': default, 'on_reject': on_reject}
    return Work({'approve': _given(keys)})


def start(
    workflow: Target,
    params: Any = None,
    *,
    workspace: str | None = None,
    key: str | None = None,
    for_each: str | None = None,
    max_parallel: int | None = None,
    wait: str | int | None = None,
    on_parent_end: str | None = None,
    executor_group: str | None = None,
    priority: int | None = None,
) -> Work:
    """Starts executions of another workflow, one or one for each item, and waits for their ends."""
    keys = {
        'workflow': _name(workflow),
        'params': params,
        'workspace': workspace,
        'key': key,
        'for_each': for_each,
        'max_parallel': max_parallel,
        'wait': wait,
        'on_parent_end': on_parent_end,
        'executor_group': executor_group,
        'priority': priority,
    }
    return Work({'start': _given(keys)})


class Definition:
    """The steps of a workflow."""

    def __init__(
        self,
        name: str,
        *,
        workspace: str | None = None,
        executor_group: str | None = None,
        timeout: Duration | None = None,
        stuck_after: Duration | None = None,
        starts_max: int | None = None,
        hold_slot: bool | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.place = _place()
        keys = {
            'name': name,
            'workspace': workspace,
            'executor_group': executor_group,
            'timeout': _duration(timeout),
            'stuck_after': _duration(stuck_after),
            'starts_max': starts_max,
            'hold_slot': hold_slot,
            'labels': labels,
        }
        self._keys = _given(keys)
        self._maps: dict[str, dict[str, Any]] = {_STEPS: {}, _ON_FAILURE: {}, _FINALLY: {}}
        self._schedules: dict[str, dict[str, Any]] = {}

    def step(self, id: str, work: Work, *, undo: Work | None = None, **options: Any) -> Definition:
        """Adds a step.

        `undo`: takes its effect back after a failure of the execution. Options: needs, when, timeout, retry, secrets,
        hold_slot and continue_on_error, as in a definition.
        """
        self._add(_STEPS, id, work, options)
        if undo is not None:
            self._maps[_STEPS][id]['undo'] = _with(undo)
        return self

    def on_failure(self, id: str, work: Work, **options: Any) -> Definition:
        """Adds a step that runs after a failure of the execution and the undos."""
        self._add(_ON_FAILURE, id, work, options)
        return self

    def schedule(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        zone: str | None = None,
        workspaces: Sequence[str] | None = None,
        plan: str | None = None,
        params: Mapping[str, Any] | None = None,
        overlap: str | None = None,
        jitter: Duration | None = None,
        catch_up: Duration | None = None,
        from_: str | None = None,
        until: str | None = None,
    ) -> Definition:
        """Starts the workflow at the times of a calendar. A later version without this schedule removes it.

        `from_`: no time before this (the key `from` of a definition).
        """
        if name in self._schedules:
            raise DefinitionError(f'{_place()}: {self.name} has two schedules {name!r}', 'give one of them another name')
        keys = {
            'cron': cron,
            'every': _duration(every),
            'zone': zone,
            'from': from_,
            'until': until,
            'jitter': _duration(jitter),
            'workspaces': None if workspaces is None else list(workspaces),
            'plan': plan,
            'params': None if params is None else dict(params),
            'overlap': overlap,
            'catch_up': _duration(catch_up),
        }
        self._schedules[name] = _given(keys)
        return self

    def end(self, id: str, work: Work, **options: Any) -> Definition:
        """Adds a step that runs after all else, on success and on failure (the key `finally` of a definition)."""
        self._add(_FINALLY, id, work, options)
        return self

    def as_dict(self) -> dict[str, Any]:
        maps = {**self._maps, 'schedules': self._schedules}
        return {**self._keys, **{key: dict(values) for key, values in maps.items() if values}}

    def publish(self, store: Store | None = None) -> int:
        """Makes the definition known to the store; returns its version."""
        from weir._workflow import default_store

        return (store or default_store()).publish(json.dumps(self.as_dict(), allow_nan=False), self.place)

    def _add(self, map: str, id: str, work: Work, options: Mapping[str, Any]) -> None:
        if any(id in steps for steps in self._maps.values()):
            raise DefinitionError(f'{_place()}: {self.name} has two steps {id!r}', 'give one of them another id')
        if not isinstance(work, Work):
            raise DefinitionError(
                f'{_place()}: the step {id!r} has no kind', "write step('pay', define.handler('charge-card'))"
            )
        try:
            self._maps[map][id] = _with(work, **_options(options))
        except (TypeError, ValueError) as problem:
            raise DefinitionError(f'{_place()}: the step {id!r}: {problem}') from None


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    known = ('needs', 'when', 'timeout', 'retry', 'secrets', 'hold_slot', 'continue_on_error')
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f'a step has no option {unknown[0]!r}: it has {", ".join(known)}')
    options = dict(given)
    options['timeout'] = _duration(given.get('timeout'))
    options['retry'] = _retry(given.get('retry'))
    needs = given.get('needs')
    options['needs'] = [needs] if isinstance(needs, str) else None if needs is None else list(needs)
    return options


def _with(work: Work, **options: Any) -> dict[str, Any]:
    if options.get('secrets') is None and work.secrets:
        options['secrets'] = work.secrets
    return {**work.keys, **_given(options)}


def _retry(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {key: _duration(value) if key in ('backoff', 'max') else value for key, value in given.items()}


def _duration(given: Duration | None) -> str | None:
    """A text is for the store to read, which knows more units."""
    return given if given is None or isinstance(given, str) else text(given)


def _name(target: Target) -> str:
    return target if isinstance(target, str) else target.name


def _given(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def _place() -> str:
    """File and line of the caller of this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f'{frame.f_code.co_filename}:{frame.f_lineno}'


__all__ = ['Definition', 'Work', 'approve', 'execute', 'handler', 'http', 'signal', 'sleep', 'start']
