"""`manage.py weir ...`: the command `weir` on the store of the project."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from weir._command import PROGRAM
from weir.django import conf
from weir.errors import Error


class Command(BaseCommand):  # type: ignore[misc]
    help = 'The command `weir` on the store of this project, for example: weir workspace set acme --plan pro'

    def run_from_argv(self, argv: list[str]) -> None:
        """All that follows belongs to `weir`, also --help."""
        try:
            environment = {**os.environ, 'WEIR_STORE': conf.store_url()}
        except Error as problem:
            sys.exit(f'weir: {problem}')
        try:
            os.execve(PROGRAM, ['weir', *argv[2:]], environment)
        except OSError as problem:
            sys.exit(f'weir: {PROGRAM} cannot be run: {problem.strerror}; install the package anew')

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError('call weir.default_store() in a program: this command is for the shell')
