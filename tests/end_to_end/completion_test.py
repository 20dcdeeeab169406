#!/usr/bin/env python3
"""Completion, in the real shells.

usage: completion_test.py BINARY [TEST ...]
"""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time

from dev_node import start_dev_node
from harness import run_tests
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, wait_for

COMPLETIONS = (('weir enq', {'enqueue'}),
               ('weir workflow ', {'apply', 'delete', 'disable', 'enable', 'list', 'migrate', 'show'}),
               ('weir workspace set x --max-c', {'--max-concurrent'}), ('weir enqueue --idem', {'--idempotency-key'}),
               ('weir list -o js', {'json', 'jsonl'}), ('weir --js', {'--json'}), ('weir completion z', {'zsh'}))


# Beside files named acme-file and hello.yaml, which no shell may offer for these.
NAMES = (('weir why -w ac', {'acme'}), ('weir workspace show ', {'acme', 'tiny'}), ('weir enqueue -w acme he', {'hello'}),
         ('weir workflow show h', {'hello'}), ('weir workspace set x --plan pr', {'pro'}),
         ('weir node pause ', {'alpha'}), ('weir pause --executor-group ', {'default'}),
         ('weir lock release process', {'processExecutionQueue'}), ('weir enqueue -k üü -w ac', {'acme'}),
         ('weir token revoke ', {'ci'}),
         ('weir --store sqlite:weir.db workspace show a', {'acme'}), ('weir workspace show nothing-like-it', set()),
         ('weir --store sqlite:missing.db workspace show a', set()))


def _make_names(weir):
    """A store with one name of each kind, and files that have the same beginnings. Returns the id of an execution."""
    weir.make_store()
    weir.write('acme-file', '')
    os.symlink(weir.binary, weir.path('weir'))
    weir.good('workspace', 'set', '$(touch here)', '-q')  # no shell may run it, so none gets it
    node = start_dev_node(weir, '--config', weir.write('node.yaml', 'node.name: alpha\n'))
    with weir.database() as database:  # as another program does that shares the table of locks
        database.execute("INSERT INTO shedlock VALUES ('processExecutionQueue', 2000000000000000, 1, 'another program')")
    weir.good('token', 'create', 'ci', '--role', 'read', '--all-workspaces', '-q')
    assert node.poll() is None
    return weir.good('enqueue', '-w', 'acme', 'hello', '--run-at', '+1h', '-q').out.strip()


def _names(weir, line, store=None):
    return weir.run('__complete', line, env={'WEIR_STORE': store} if store else None)


def until_found(complete, typed, wanted):
    """Names come within the deadline or not at all, and a busy machine may miss it: asked until they come."""
    def is_found():
        found = complete(typed)
        assert found <= wanted, (typed, found)
        return found == wanted
    wait_for(f'{wanted} for {typed!r}', is_found)


def _shell_environment(weir):
    return {**weir.environment, 'PATH': weir.folder + ':' + os.environ['PATH']}


def bash_offers_names_of_the_store(weir):
    execution = _make_names(weir)
    script = weir.write('completion.bash', weir.good('completion', 'bash').out)

    def complete(typed):
        words = typed.split(' ')
        quoted = ' '.join(f"'{word}'" for word in words)
        program = (f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; COMP_POINT={len(typed)}; "
                   f'. {script}; _weir; printf "%s\\n" "${{COMPREPLY[@]}}"')
        answer = subprocess.run(['bash', '-c', program], check=True, capture_output=True, text=True, cwd=weir.folder,
                                env=_shell_environment(weir))
        assert answer.stderr == '', answer
        return set(answer.stdout.split())
    for typed, wanted in (*NAMES, ('weir cancel ' + execution[:8], {execution})):
        until_found(complete, typed, wanted)
    assert complete('weir workflow apply acme-f') == {'acme-file'}
    assert not os.path.exists(weir.path('missing.db')) and not os.path.exists(weir.path('here'))


def fish_offers_names_of_the_store(weir):
    execution = _make_names(weir)
    script = weir.write('weir.fish', weir.good('completion', 'fish').out)

    def complete(typed):
        answer = subprocess.run(['fish', '--no-config', '-c', f"source {script}; complete -C '{typed}'"], check=True,
                                capture_output=True, text=True, cwd=weir.folder, env=_shell_environment(weir))
        assert answer.stderr == '', answer
        return {line.split('\t')[0] for line in answer.stdout.splitlines()}
    for typed, wanted in (*NAMES, ('weir cancel ' + execution[:8], {execution})):
        until_found(complete, typed, wanted)


def zsh_offers_names_of_the_store(weir):
    execution = _make_names(weir)
    weir.write('completion.zsh', weir.good('completion', 'zsh').out)
    setup = f'path=({weir.folder} $path); autoload -U compinit; compinit -u -D; source completion.zsh\n{ZSH_SHOW}'

    def complete(typed):
        zsh = _Zsh(weir, setup)
        said = zsh.ask(typed + '\t', '<end>')
        zsh.close()
        return {word for words in re.findall('<([^<>]+)>', said) for word in words.split()} - {'end'}
    for typed, wanted in ((NAMES[0], NAMES[2], NAMES[-1]) + (('weir cancel ' + execution[:8], {execution}),)):
        until_found(complete, typed, wanted)


def names_come_from_postgres_and_have_a_deadline(weir):
    server = PostgresServer()
    store = server.url(server.database())
    weir.good('store', 'init', '-q', '--store', store)
    weir.good('workspace', 'set', 'acme', '-q', '--store', store)
    until_found(lambda typed: set(_names(weir, typed, store).out.split()), 'weir workspace show a', {'acme'})
    silent = socket.create_server(('127.0.0.1', 0))  # accepts, and never answers
    url = f'postgres://weir@127.0.0.1:{silent.getsockname()[1]}/x'
    answer = weir.soon('__complete', 'weir workspace show a', env={'WEIR_STORE': url})
    assert (answer.code, answer.out, answer.err) == (0, '', ''), answer
    silent.close()


def a_store_that_cannot_be_read_gives_no_names_and_no_message(weir):
    weir.write('text.db', 'this is no database')
    weir.write('weir.yaml', 'stoer: x\n')
    for line, code in (('weir workspace show --store sqlite:text.db a', 0), ('weir workspace show a', 0),
                       ('weir workspace show --store sqlite:missing.db a', 0), ('weir workflow apply a', 1),
                       ('weir frob a', 1), ('weir', 1), ('', 1), ("weir why 'x", 0), ('weir ' + 'x ' * 300, 1)):
        answer = _names(weir, line)
        assert (answer.code, answer.out, answer.err) == (code, '', ''), (line, answer)
    assert sorted(os.listdir(weir.folder)) == ['home', 'text.db', 'weir.yaml']


def bash_completes(weir):
    script = weir.write('completion.bash', weir.good('completion', 'bash').out)

    def complete(*words):
        quoted = ' '.join(f"'{word}'" for word in words)
        program = (f'. {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _weir; '
                   'printf "%s\\n" "${COMPREPLY[@]}"')
        return subprocess.run(['bash', '-c', program], check=True, capture_output=True, text=True).stdout.split()

    for typed, wanted in COMPLETIONS:
        assert set(complete(*typed.split(' '))) == wanted, typed


def fish_completes(weir):
    script = weir.write('weir.fish', weir.good('completion', 'fish').out)
    for typed, wanted in COMPLETIONS:
        answer = subprocess.run(['fish', '--no-config', '-c', f"source {script}; complete -C '{typed}'"], check=True,
                                capture_output=True, text=True, env={**os.environ, 'HOME': weir.folder})
        assert {line.split('\t')[0] for line in answer.stdout.splitlines()} == wanted, (typed, answer)
        assert answer.stderr == '', answer.stderr


class _Zsh:
    """An interactive zsh on a terminal: its completion knows no other way."""

    def __init__(self, weir, setup):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(weir.folder)
            os.execvpe('zsh', ['zsh', '-f', '-i'], {
                'HOME': weir.folder, 'TERM': 'dumb', 'PATH': '/usr/bin:/bin', 'LANG': 'C'})
        weir.write('setup.zsh', f'PROMPT=; unset zle_bracketed_paste\n{setup}\nprint -r -- "<ready>"\n')
        self.ask('. ./setup.zsh\n', '<ready>')

    def ask(self, typed, end):
        os.write(self.terminal, typed.encode())
        said, deadline = '', time.monotonic() + SECONDS_MOST
        while end not in said:
            assert time.monotonic() < deadline, f'{typed!r}: never {end!r} in {said!r}'
            if select.select([self.terminal], [], [], 1)[0]:
                said += os.read(self.terminal, 65536).decode(errors='replace')
        return said

    def close(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.terminal)


# Instead of a menu, whatever matches is printed, and what was typed is forgotten.
ZSH_SHOW = """
    compadd() { local -a found; builtin compadd -O found "$@"; (( $#found )) && print -r -- "<$found>"; }
    show() { zle complete-word; zle kill-whole-line; print -r -- "<end>"; }
    zle -N show
    bindkey '^I' show
"""


def zsh_completes_from_the_first_word_on(weir):
    """Sourced, and as the help says: from a folder of $fpath, where the first use loads the file."""
    os.mkdir(weir.path('functions'))
    weir.write('functions/_weir', weir.good('completion', 'zsh').out)
    for setup in ('compinit -u -D; source functions/_weir', 'fpath=($PWD/functions $fpath); compinit -u -D'):
        for typed, wanted in COMPLETIONS:
            zsh = _Zsh(weir, f'autoload -U compinit; {setup}\n{ZSH_SHOW}')
            said = zsh.ask(typed + '\t', '<end>')
            zsh.close()
            found = {word for words in re.findall('<([^<>]+)>', said) for word in words.split()} - {'end'}
            assert found == wanted, (setup, typed, said)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
