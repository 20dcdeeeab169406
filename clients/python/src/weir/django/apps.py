"""The app: it connects enqueue() with the database of the project."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from weir import _sqlite
from weir._workflow import adapt, registry
from weir.django import conf


class WeirConfig(AppConfig):  # type: ignore[misc]
    name = 'weir.django'
    label = 'weir'
    verbose_name = 'weir'

    def ready(self) -> None:
        checks.register(conf.check_settings)
        adapt(conf.find_transaction, conf.make_store)
        post_migrate.connect(_make_store, sender=self, dispatch_uid='weir.django')
        if conf.is_on_sqlite() and not _sqlite.can_load_extensions() and _sqlite.shares_sqlite():
            _sqlite.add_functions_to_new_connections()


def discover() -> None:
    """Imports the module `workflows` of each installed app that has one."""
    autodiscover_modules('workflows')


def _make_store(using: str, verbosity: int = 1, **unused: Any) -> None:
    """After `manage.py migrate`: the tables of weir, and the workflows, so that a transaction can enqueue one at once."""
    if not conf.migrates(using):
        return
    discover()
    with conf.make_store() as store:  # closed at once: a test database with open sessions could not be dropped
        applied = store.migrate(share=True)
        for workflow in registry.workflows.values():
            workflow.publish(store)
    if verbosity >= 1:
        print(f'weir: {applied} migrations applied, {len(registry.workflows)} workflows published')
