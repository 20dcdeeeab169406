"""weir: a durable, fair workflow execution queue for many workspaces.

    import weir

    @weir.workflow(name='send-invoice', retry={'attempts': 5, 'backoff': '10s'}, timeout='5m')
    def send_invoice(order: int, *, ctx):
        return {'sent': order}

    send_invoice.enqueue(workspace='acme', order=42, key='order-42')

`weir worker MODULE` runs the functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir import _weir
from weir._sqlite import add_functions_to_new_connections, sqlite_extension_path
from weir._workflow import Context, Registry, Workflow, configure, default_store, workflow
from weir.errors import (
    CommitUnknown,
    DefinitionError,
    Error,
    ExecutionNotFound,
    KeyReused,
    Misuse,
    NotFound,
    ParamsError,
    QueueFull,
    StoreUnavailable,
    TimedOut,
    WorkflowNotFound,
    WorkspaceNotFound,
)
from weir.outcome import Cancelled, Fail, Retry
from weir.store import Acted, EnqueueManyError, ExecutionFailed, Filter, Request, Store
from weir.worker import Worker

if TYPE_CHECKING:
    from weir._states import (
        Done,
        Failure,
        Next,
        StateContext,
        States,
        Wait,
        WaitChildren,
        end,
        error_end,
        manual,
        state,
        states,
    )

__version__: str = _weir.version()

__all__ = [
    'Acted',
    'Cancelled',
    'CommitUnknown',
    'Context',
    'Done',
    'DefinitionError',
    'EnqueueManyError',
    'Error',
    'ExecutionFailed',
    'ExecutionNotFound',
    'Fail',
    'Failure',
    'Filter',
    'KeyReused',
    'Misuse',
    'Next',
    'NotFound',
    'ParamsError',
    'QueueFull',
    'Registry',
    'Request',
    'Retry',
    'StateContext',
    'States',
    'Store',
    'StoreUnavailable',
    'TimedOut',
    'Wait',
    'WaitChildren',
    'Worker',
    'Workflow',
    'WorkflowNotFound',
    'WorkspaceNotFound',
    '__version__',
    'add_functions_to_new_connections',
    'configure',
    'default_store',
    'end',
    'error_end',
    'manual',
    'sqlite_extension_path',
    'state',
    'states',
    'workflow',
]


def __getattr__(name: str) -> Any:
    """The names of workflows with states, at their first use: with dataclasses they cost other programs 1.4 MiB."""
    if name not in __all__:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from weir import _states

    value = globals()[name] = getattr(_states, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
