#!/usr/bin/env python3
"""Completion, in the real shells.

usage: completion_test.py BINARY [TEST ...]
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

from harness import run_tests

COMPLETIONS = (('weir enq', {'enqueue'}), ('weir workflow ', {'apply', 'delete', 'disable', 'enable', 'list', 'show'}),
               ('weir workspace set x --max', {'--max-concurrent'}), ('weir enqueue --idem', {'--idempotency-key'}),
               ('weir list -o js', {'json', 'jsonl'}), ('weir --js', {'--json'}), ('weir completion z', {'zsh'}))


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
        said, deadline = '', time.monotonic() + 60
        while end not in said:
            assert time.monotonic() < deadline, f'{typed!r}: never {end!r} in {said!r}'
            if select.select([self.terminal], [], [], 1)[0]:
                said += os.read(self.terminal, 65536).decode(errors='replace')
        return said

    def close(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.terminal)


def zsh_completes_from_the_first_word_on(weir):
    """Sourced, and as the help says: from a folder of $fpath, where the first use loads the file."""
    os.mkdir(weir.path('functions'))
    weir.write('functions/_weir', weir.good('completion', 'zsh').out)
    # Instead of a menu, whatever matches is printed, and what was typed is forgotten.
    show = """
        compadd() { local -a found; builtin compadd -O found "$@"; (( $#found )) && print -r -- "<$found>"; }
        show() { zle complete-word; zle kill-whole-line; print -r -- "<end>"; }
        zle -N show
        bindkey '^I' show
    """
    for setup in ('compinit -u -D; source functions/_weir', 'fpath=($PWD/functions $fpath); compinit -u -D'):
        for typed, wanted in COMPLETIONS:
            zsh = _Zsh(weir, f'autoload -U compinit; {setup}\n{show}')
            said = zsh.ask(typed + '\t', '<end>')
            zsh.close()
            found = {word for words in re.findall('<([^<>]+)>', said) for word in words.split()} - {'end'}
            assert found == wanted, (setup, typed, said)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
