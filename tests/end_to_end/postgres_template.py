#!/usr/bin/env python3
"""Makes what every PostgreSQL server of the tests begins with, once for a whole run: initdb takes longer than to copy what
it has made. The servers of tests (postgres_server.py, tests/support/postgres_server.c) copy it when WEIR_POSTGRES_TEMPLATE
names its folder, and when it is of the programs that they use; else they call initdb themselves.

usage: postgres_template.py FOLDER      FOLDER must be empty; it gets a cluster for each name that tests give the superuser
"""

import os
import shutil
import subprocess
import sys

from postgres_server import INITDB_WORDS, become_another_user, find_programs

SUPERUSERS = ('owner', 'weir')  # of the tests in Python, of those in C


def run(*words):
    done = subprocess.run(words, preexec_fn=become_another_user, env={'PATH': '/usr/bin:/bin', 'LC_ALL': 'C'}, cwd='/',
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f'{words[0]} failed:\n{done.stdout}')


def main(folder):
    programs = find_programs()
    os.chmod(folder, 0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, 'postgres')
    for name in SUPERUSERS:
        full, kept = os.path.join(folder, name + '.full'), os.path.join(folder, name)
        run(os.path.join(programs, 'initdb'), '-D', full, '-U', name, *INITDB_WORDS)
        run('/bin/cp', '-r', '--preserve=mode', '--sparse=always', full, kept)  # most of the log's 16 MB are zeros
        run('/bin/rm', '-rf', full)
    with open(os.path.join(folder, 'programs'), 'w') as file:
        file.write(programs)


if __name__ == '__main__':
    main(sys.argv[1])
