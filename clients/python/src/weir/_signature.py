"""The parameters of a function, for what each call needs of them.

A function without attributes of its own shows everything in its code object. The module inspect is imported for all others
and for messages alone: with the modules that it brings it costs a worker 1.3 MiB.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import inspect

#: Flags of code objects, as inspect.CO_VARARGS, CO_VARKEYWORDS and CO_COROUTINE.
_TAKES_LIST, _TAKES_KEYWORDS, _IS_COROUTINE = 0x04, 0x08, 0x80
#: Wrappers around a function. A longer chain has a cycle.
_WRAPPERS_MOST = 1000


def _is_plain(function: Any) -> bool:
    """Wrappers and marks of inspect are attributes: such functions are described by inspect."""
    return isinstance(function, types.FunctionType) and not vars(function)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    if isinstance(function, types.FunctionType) and _is_plain(function):
        return bool(function.__code__.co_flags & _IS_COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function)


def unwrap(function: Any) -> Any:
    """The function behind its wrappers, as inspect.unwrap()."""
    for _ in range(_WRAPPERS_MOST):
        if not hasattr(function, '__wrapped__'):
            return function
        function = function.__wrapped__
    raise ValueError('wrapper loop when unwrapping a function')


class Parameters:
    """The parameters that a caller gives by name. `ctx` is not among them, because a worker gives it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        #: With `ctx` and those of any number.
        self.all_names: list[str] = []
        #: Those that a caller could not give by name.
        self.nameless: list[str] = []
        self.defaults: dict[str, Any] = {}
        self.takes_more = False
        names = self._read_code(function) if isinstance(function, types.FunctionType) and _is_plain(function) else None
        self.names = self._read_signature() if names is None else names
        self.wants_context = 'ctx' in self.names
        if self.wants_context:
            self.names.remove('ctx')
            self.defaults.pop('ctx', None)
        self._known = frozenset(self.names)
        self._required = self._known - frozenset(self.defaults)

    def _read_code(self, function: types.FunctionType) -> list[str]:
        code = function.__code__
        count = code.co_argcount
        named = count + code.co_kwonlyargcount
        names = list(code.co_varnames[:named])
        self.nameless = names[: code.co_posonlyargcount]
        defaults = function.__defaults__ or ()
        self.defaults = {**dict(zip(names[count - len(defaults) : count], defaults)), **(function.__kwdefaults__ or {})}
        self.all_names = list(names)
        if code.co_flags & _TAKES_LIST:
            self.nameless.append(code.co_varnames[named])
            self.all_names.append(code.co_varnames[named])
        self.takes_more = bool(code.co_flags & _TAKES_KEYWORDS)
        if self.takes_more:
            self.all_names.append(code.co_varnames[len(self.all_names)])
        return names

    def _read_signature(self) -> list[str]:
        import inspect

        names = []
        for parameter in inspect.signature(self._function).parameters.values():
            self.all_names.append(parameter.name)
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                self.nameless.append(parameter.name)
            if parameter.kind is parameter.VAR_KEYWORD:
                self.takes_more = True
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                names.append(parameter.name)
                if parameter.default is not parameter.empty:
                    self.defaults[parameter.name] = parameter.default
        return names

    def signature(self) -> inspect.Signature:
        """For messages."""
        import inspect

        whole = inspect.signature(self._function)
        return whole.replace(parameters=[one for one in whole.parameters.values() if one.name != 'ctx'])

    def bind(self, params: Mapping[str, Any]) -> None:
        """Raises TypeError when the function could not be called with these."""
        is_accepted = (
            isinstance(params, Mapping)
            and not self.nameless
            and self._required <= params.keys()
            and (self.takes_more or params.keys() <= self._known)
        )
        if not is_accepted:  # inspect words the error
            self.signature().bind(**params)
