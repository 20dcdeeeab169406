"""The SQL functions of weir in connections of SQLite, by the loadable extension that comes with the package.

A process may have several copies of SQLite: the system's, that libweir uses, and one inside of apsw or of some builds of
Python. When one copy closes a file, the locks that another holds on it are lost. So a file that a store has open must not
be open in another copy; `require_one_copy()` refuses that.

The functions import sqlite3 themselves: it costs 1 MiB, and a worker has no use for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir import _weir
from weir.errors import Error, Misuse, StoreUnavailable

if TYPE_CHECKING:
    from weir.store import Store

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: "weir": the mark of a store in the header of its file, APPLICATION_ID in store/sqlite/connection.h.
_MARK = 0x77656972
_LOCK_SECONDS = 30


def sqlite_extension_path() -> str:
    """Of the extension `libweir_sqlite`, for load_extension() of sqlite3 and apsw. docs/sql.md has its functions."""
    return os.path.join(_FOLDER, 'libweir_sqlite.so')


def shares_sqlite() -> bool:
    """Whether Python's module sqlite3 uses the copy of SQLite that libweir uses."""
    try:
        import _sqlite3
        import ctypes

        theirs = ctypes.CDLL(_sqlite3.__file__)
        ours = ctypes.CDLL(_weir.__file__)
        return bool(_address(theirs) == _address(ours))
    except (ImportError, OSError, AttributeError):  # built into the interpreter, or with its functions hidden
        return False


def _address(library: Any) -> Any:
    import ctypes

    return ctypes.cast(library.sqlite3_open_v2, ctypes.c_void_p).value


def can_load_extensions() -> bool:
    """Some builds of Python leave Connection.enable_load_extension() out."""
    import sqlite3

    return hasattr(sqlite3.Connection, 'enable_load_extension')


def add_functions_to_new_connections() -> None:
    """Each connection of this process that is opened from here on has the functions, also where Python's sqlite3 cannot
    load extensions. It needs a Python that shares SQLite with libweir."""
    if not shares_sqlite():
        raise Misuse(
            'this Python has a copy of SQLite of its own, and its sqlite3 cannot load extensions',
            'use a Python whose sqlite3 has enable_load_extension(), as the one of Debian, or a store on PostgreSQL',
        )
    import ctypes

    library = ctypes.CDLL(_weir.__file__)
    extension = ctypes.CDLL(sqlite_extension_path())
    code = library.sqlite3_auto_extension(ctypes.cast(extension.sqlite3_extension_init, ctypes.c_void_p))
    if code != 0:
        raise Misuse(f'SQLite does not take the extension (code {code})')


def load(connection: Any) -> None:
    """Loads the extension into an open connection of sqlite3 or apsw."""
    if not hasattr(connection, 'enable_load_extension'):
        raise Misuse(
            "this Python's sqlite3 cannot load extensions",
            'call weir.add_functions_to_new_connections() before you open the connection',
        )
    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_extension_path())
    finally:
        connection.enable_load_extension(False)


def require_one_copy(connection: Any, store: Store) -> None:
    """Refuses a connection of another copy of SQLite while the store has its file open in this process."""
    import sqlite3

    if store.is_open() and store.is_sqlite() and not (isinstance(connection, sqlite3.Connection) and shares_sqlite()):
        raise Misuse(
            f'{type(connection).__module__} has a copy of SQLite of its own, and the store is open in that of weir: '
            'locks of the file would be lost',
            'close() the store first, and call its other methods in another process',
        )


@contextlib.contextmanager
def shared(path: str) -> Iterator[None]:
    """For a migration of a file that has tables of an application: marks it as a store, because libweir refuses a file
    without the mark. The mark is taken away when the migration fails and left nothing."""
    made = _change_mark(path, 0, _MARK)
    try:
        yield
    except BaseException:
        if made:
            _change_mark(path, _MARK, 0)
        raise


def _change_mark(path: str, old: int, new: int) -> bool:
    """False when the file has another mark, or a schema of weir already. A file is made here if there is none."""
    import sqlite3

    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)) as connection:
            connection.execute('BEGIN IMMEDIATE')
            (mark,) = connection.execute('PRAGMA application_id').fetchone()
            (version,) = connection.execute('PRAGMA user_version').fetchone()
            if mark == 0 and version != 0:
                raise Error(
                    f'{path} has a schema number of its application (user_version is {version}), where weir keeps its own',
                    'use a file of its own for the store',
                    status='store_not_weir',
                )
            if mark != old or version != 0:
                return False
            connection.execute(f'PRAGMA application_id = {new}')
            connection.execute('COMMIT')
            return True
    except sqlite3.Error as problem:
        raise StoreUnavailable(f'{path} cannot become a store: {problem}', 'give the path of a file of SQLite') from problem
