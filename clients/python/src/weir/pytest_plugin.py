"""Fixtures: `weir_store`, an empty store in a SQLite file, and `weir_worker`, which runs all workflows on it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from weir import _workflow
from weir.store import Store
from weir.worker import Worker


@pytest.fixture
def weir_store(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store that enqueue() uses in this test. It has no workspaces: make them with `set_workspace()`."""
    store = Store(f'sqlite:{tmp_path}/weir.db')
    store.migrate()
    monkeypatch.setattr(_workflow, '_default_store', store)
    yield store
    store.close()


@pytest.fixture
def weir_worker(weir_store: Store) -> Iterator[Worker]:
    """A worker of all workflows that are imported by now, stopped after the test."""
    with Worker(store=weir_store, grace=5) as worker:
        yield worker
