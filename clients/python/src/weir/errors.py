"""What weir answers instead of a result. `status` is the name that every surface of weir uses."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """Whether trying again can help, and whose fault a failure is."""

    FINE = 0
    TRANSIENT = 1
    PERMANENT = 2
    UNKNOWN = 3
    AT_CAPACITY = 4
    PROGRAMMER = 5


class Error(Exception):
    """A refusal or failure of weir. `hint` says what to do about it, or is empty."""

    status: str = 'failed'
    kind: Kind = Kind.PERMANENT
    hint: str = ''

    def __init__(self, message: str, hint: str = '', *, status: str | None = None, kind: Kind | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status or type(self).status
        self.kind = kind if kind is not None else type(self).kind

    @property
    def message(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return f'{self.message} ({self.hint})' if self.hint else self.message


class NotFound(Error):
    """Something that the call names does not exist."""

    status = 'not_found'


class WorkspaceNotFound(NotFound):
    status = 'workspace_not_found'


class WorkflowNotFound(NotFound):
    status = 'workflow_not_found'


class ExecutionNotFound(NotFound):
    status = 'execution_not_found'


class KeyReused(Error):
    """The idempotency key was used for another workflow or other params."""

    status = 'idempotency_key_reused'


class QueueFull(Error):
    """The workspace has as many PENDING executions as its plan allows: repeat the call later."""

    status = 'queue_full'
    kind = Kind.AT_CAPACITY


class ParamsError(Error):
    """The params do not fit the function, or are no JSON."""

    status = 'params_invalid'


class DefinitionError(Error):
    """A workflow cannot be what its decorator says. Raised at import or at the start of a worker; names file and line."""

    status = 'definition_invalid'


class StoreUnavailable(Error):
    """The store cannot be reached, is busy, or was not made yet."""

    status = 'store_unreachable'
    kind = Kind.TRANSIENT


class TimedOut(Error):
    """The time is over; what was waited for goes on."""

    status = 'timed_out'
    kind = Kind.TRANSIENT


class CommitUnknown(Error):
    """The connection was lost while the store committed: repeat the call with the same `id` or `key`."""

    status = 'commit_unknown'
    kind = Kind.UNKNOWN


class Misuse(Error):
    """A call that breaks the contract of this package."""

    status = 'misuse'
    kind = Kind.PROGRAMMER


_BY_STATUS: dict[str, type[Error]] = {
    kind.status: kind
    for kind in (
        NotFound,
        WorkspaceNotFound,
        WorkflowNotFound,
        ExecutionNotFound,
        KeyReused,
        QueueFull,
        ParamsError,
        DefinitionError,
        StoreUnavailable,
        TimedOut,
        CommitUnknown,
        Misuse,
    )
}
_BY_STATUS['params_too_large'] = ParamsError
for _status in ('store_busy', 'store_full', 'schema_missing', 'schema_older', 'schema_newer'):
    _BY_STATUS[_status] = StoreUnavailable


def make(status: str, kind: int, message: str, hint: str) -> Error:
    """The exception of a status; called by the binding."""
    return _BY_STATUS.get(status, Error)(message, hint, status=status, kind=Kind(kind))
