#!/usr/bin/env python3
"""`./dev install`: its arguments, with meson and ninja as stand-ins, and the list of files that meson installs, for real.

usage: install_door_test.py BINARY [TEST ...]
"""

import os
import shutil
import subprocess
import sys

from harness import run_tests

STAND_IN = '#!/bin/sh\necho "${0##*/} $*" >>"$RECORD"\n[ "$1" != setup ] || { mkdir -p "$2" && : >"$2/build.ninja"; }\n'


def _door(weir, *words, path=''):
    """Runs the door of a copy, in which nothing is built. Returns its answer and the calls that it made."""
    if not os.path.exists(weir.path('dev')):
        shutil.copy(os.path.join(os.environ['WEIR_SOURCE_ROOT'], 'dev'), weir.path('dev'))
        os.mkdir(weir.path('programs'))
        for name in ('meson', 'ninja', 'ldconfig'):
            os.chmod(weir.write('programs/' + name, STAND_IN), 0o755)
    shutil.rmtree(weir.path('build-install'), ignore_errors=True)
    weir.write('record', '')
    answer = subprocess.run(['sh', weir.path('dev'), 'install', *words], capture_output=True, text=True, env={
        **weir.environment, 'PATH': f'{weir.path("programs")}:{os.environ["PATH"]}:{path}', 'RECORD': weir.path('record')})
    with open(weir.path('record')) as record:
        return answer, record.read()


def the_prefix_is_chosen(weir):
    folder = weir.path('opt')
    for words in (('--prefix', folder), ('--prefix=' + folder,)):
        answer, calls = _door(weir, *words)
        assert answer.returncode == 0, answer
        assert f'--prefix={folder}' in calls and '--buildtype=release' in calls, calls
        assert 'meson install -C build-install --no-rebuild' in calls, calls
        assert answer.stdout.splitlines()[0] == f'installed {folder}/bin/weir', answer
        assert f'export PATH="{folder}/bin:$PATH"' in answer.stdout, answer
    answer, _ = _door(weir, '--prefix', folder, path=folder + '/bin')
    assert 'PATH' not in answer.stdout, answer


def without_a_prefix_it_is_the_usual_one(weir):
    prefix = '/usr/local' if os.getuid() == 0 else weir.path('home') + '/.local'
    answer, calls = _door(weir)
    assert answer.returncode == 0 and f'--prefix={prefix}' in calls, (answer, calls)


def wrong_arguments_are_refused_before_anything_is_built(weir):
    for words, message in ((('--prefix',), '--prefix wants a folder'), (('--prefix', 'opt'), 'an absolute folder, not'),
                           (('everywhere',), "not 'everywhere'")):
        answer, calls = _door(weir, *words)
        assert answer.returncode == 2 and message in answer.stderr and calls == '', (answer, calls)


def all_files_are_installed(weir):
    root = weir.path('root')
    subprocess.run(['meson', 'install', '-C', os.environ['WEIR_BUILD_ROOT'], '--no-rebuild', '--destdir', root], check=True,
                   capture_output=True)
    found = {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}

    def path_of(end):
        return next(os.path.join(root, path) for path in found if path.endswith(end))
    for end in ('include/weir/weir.h', 'include/weir/handler.h', 'include/weir/status.h', 'libweir.so', 'weir.pc',
                'libweir_sqlite.so'):
        assert os.path.exists(path_of(end)), end
    with open(path_of('man/man1/weir.1')) as manual:
        assert manual.read().startswith('.TH')
    installed = subprocess.run([path_of('bin/weir'), 'version'], check=True, capture_output=True, text=True)
    assert installed.stdout == weir.good('version').out


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
