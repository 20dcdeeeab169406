"""`manage.py weir_worker`: a worker that runs the functions of all installed apps."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import close_old_connections

from weir import _command
from weir._workflow import configure, registry
from weir.django.apps import discover
from weir.errors import Error
from weir.worker import Worker


class Command(BaseCommand):  # type: ignore[misc]
    help = 'Runs the workflows in the modules `workflows` of the installed apps.'
    _argv: list[str] | None = None

    def add_arguments(self, parser: CommandParser) -> None:
        _command.add_options(parser)

    def run_from_argv(self, argv: list[str]) -> None:
        self._argv = argv
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        given = argparse.Namespace(**options)
        code = _command.run(given, given.verbosity > 1, lambda: _make_worker(given), self._child())
        if code != 0:
            sys.exit(code)

    def _child(self) -> list[str]:
        """The command of one process of several."""
        if self._argv is None:
            return []
        program, name, *arguments = self._argv
        module = ['-m', 'django'] if program.endswith('__main__.py') else [program]
        return [sys.executable, *module, name, *_command.without_supervision(arguments)]


def _make_worker(options: argparse.Namespace) -> Worker:
    discover()
    if not registry.workflows:
        raise CommandError('no installed app has a module `workflows` with a function that @weir.workflow decorates')
    try:
        store = configure(options.store) if options.store else None
        return _command.make_worker(options, store, around_calls=close_old_connections)
    except Error as problem:
        raise CommandError(str(problem)) from None
