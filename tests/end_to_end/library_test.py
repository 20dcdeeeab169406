#!/usr/bin/env python3
"""libweir as it is installed: what it shows, what its headers need, and that programs build against it.

usage: library_test.py BINARY [TEST ...]      the build is in WEIR_BUILD_ROOT, the sources in WEIR_SOURCE_ROOT
"""

import glob
import json
import os
import re
import subprocess
import sys

from harness import run_tests

ROOT = os.environ.get('WEIR_SOURCE_ROOT') or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get('WEIR_BUILD_ROOT') or os.path.join(ROOT, 'build'))
INCLUDE = os.path.join(ROOT, 'include')
HEADERS = sorted(glob.glob(os.path.join(INCLUDE, 'weir', '*.h')))
STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Wundef', '-Werror']


def _run(*words, env=None, code=0):
    result = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=120)
    assert result.returncode == code, f'{" ".join(words)}: exit {result.returncode}\n{result.stdout}{result.stderr}'
    return result.stdout


def _installed(weir):
    """Installs into the test's folder; returns the prefix there."""
    target = weir.path('installed')
    _run('meson', 'install', '-C', BUILD, '--destdir', target, '--no-rebuild', '--quiet')
    return target, target + _option('prefix')


def _option(name):
    options = json.loads(_run('meson', 'introspect', '--buildoptions', BUILD))
    return next(option['value'] for option in options if option['name'] == name)


def _is_instrumented():
    return _option('b_sanitize') != 'none' or _option('b_coverage')


def _symbols(*words):
    return {line.split()[-1].split('@')[0] for line in _run('nm', *words).splitlines() if len(line.split()) >= 2}


def _declared():
    """The functions of the public headers."""
    names = set()
    for path in HEADERS:
        with open(path) as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.DOTALL)
        names |= set(re.findall(r'\b(weir_\w+)\((?!\*)', re.sub(r'typedef.*?;', '', text, flags=re.DOTALL)))
    return names


def the_shared_library_shows_exactly_what_the_headers_declare(weir):
    library = os.path.join(BUILD, 'src', 'libweir.so')
    shown = _symbols('-D', '--defined-only', library) - {'WEIR_0'}
    assert all(name.startswith('weir_') for name in shown), sorted(name for name in shown if not name.startswith('weir_'))
    assert shown == _declared(), shown ^ _declared()


def every_symbol_has_the_version_of_the_soname(weir):
    library = os.path.join(BUILD, 'src', 'libweir.so')
    assert 'libweir.so.0]' in _run('readelf', '-d', library)
    names = [line.split()[-1] for line in _run('nm', '-D', '--defined-only', library).splitlines()]
    versions = {name.split('@@')[1] for name in names if '@@' in name}
    assert versions == {'WEIR_0'}, versions


def the_static_library_keeps_its_inside_to_itself(weir):
    library = os.path.join(BUILD, 'src', 'libweir.a')
    if _is_instrumented():
        return  # such builds make none
    shown = _symbols('-g', '--defined-only', library)
    assert shown == _declared(), shown ^ _declared()


def the_program_and_the_library_are_hardened(weir):
    """Position-independent, relocations and the procedure linkage table read-only, no executable stack; stack protector,
    and functions of the C library that check the size of their target."""
    if _is_instrumented() or _option('optimization') == '0':
        return  # FORTIFY needs optimisation, and sanitizers replace these functions by their own
    for path in (weir.binary, os.path.join(BUILD, 'src', 'libweir.so')):
        segments = {words[0]: words[1:] for words in map(str.split, _run('readelf', '-lW', path).splitlines()) if words}
        dynamic = _run('readelf', '-dW', path)
        assert 'Type:                              DYN' in _run('readelf', '-hW', path), path
        assert 'GNU_RELRO' in segments and 'BIND_NOW' in dynamic, f'{path}: not full RELRO\n{dynamic}'
        assert segments['GNU_STACK'][5] == 'RW', (path, segments['GNU_STACK'])
        assert 'TEXTREL' not in dynamic, path
        wanted = _symbols('-D', '--undefined-only', path)
        assert '__stack_chk_fail' in wanted, f'{path}: no stack protector'
        assert '__snprintf_chk' in wanted and '__memcpy_chk' in wanted, f'{path}: no FORTIFY'
    assert 'PIE' in _run('readelf', '-dW', weir.binary)
    with open(os.path.join(BUILD, 'compile_commands.json')) as file:
        commands = [entry['command'] for entry in json.load(file) if entry['file'].startswith('../src/')]
    assert len(commands) > 100
    for command in commands:
        assert '-D_FORTIFY_SOURCE=3' in command and '-fstack-protector-strong' in command, command


def every_header_stands_alone_in_c_and_in_cplusplus(weir):
    languages = [('cc', 'c', ['c11', 'c17']), ('c++', 'c++', ['c++11', 'c++20'])]
    for path in HEADERS:
        name = os.path.basename(path)
        source = weir.write('alone', f'#include <weir/{name}>\n#include <weir/{name}>\nint main(void) {{ return 0; }}\n')
        for compiler, language, standards in languages:
            for standard in standards:
                _run(compiler, '-x', language, f'-std={standard}', *STRICT, '-fsyntax-only', '-I', INCLUDE, source)


def a_cplusplus_program_uses_the_library(weir):
    source = weir.write('program.cc', '''
#include <cstdio>
#include <weir/weir.h>
int main() {
    weir_error error;
    struct weir *store = nullptr;
    if (weir_migrate("program.db", nullptr, &error) != WEIR_OK ||
        weir_open("program.db", nullptr, &store, &error) != WEIR_OK) {
        return 1;
    }
    std::puts(weir_version());
    weir_close(store);
    return 0;
}
''')
    sanitize = _option('b_sanitize')
    _run('c++', '-std=c++17', *STRICT, source, '-I', INCLUDE, '-L', os.path.join(BUILD, 'src'), '-lweir', '-o',
         weir.path('program'), *([f'-fsanitize={sanitize}'] if sanitize != 'none' else []))
    environment = {**weir.environment, 'LD_LIBRARY_PATH': os.path.join(BUILD, 'src')}
    result = subprocess.run([weir.path('program')], cwd=weir.folder, env=environment, capture_output=True,
                            text=True, timeout=60)
    assert result.returncode == 0 and re.fullmatch(r'\d+\.\d+\.\d+\n', result.stdout), result


def an_installed_library_is_found_by_pkg_config_and_runs_the_examples(weir):
    target, prefix = _installed(weir)
    libraries = os.path.join(prefix, _option('libdir'))
    headers = sorted(os.listdir(os.path.join(prefix, 'include', 'weir')))
    assert headers == sorted(os.path.basename(path) for path in HEADERS), headers
    assert {'libweir.so', 'libweir.so.0', 'pkgconfig'} <= set(os.listdir(libraries))
    environment = {'PKG_CONFIG_PATH': os.path.join(libraries, 'pkgconfig'), 'PKG_CONFIG_SYSROOT_DIR': target}
    if _is_instrumented():
        return  # programs without the instrumentation cannot load it
    for static in (False, True):
        words = ['pkg-config', '--cflags', '--libs', 'weir'] + (['--static'] if static else [])
        # The sysroot is for what we installed; sqlite3 is where the system has it.
        flags = [flag for flag in _run(*words, env=environment).split()
                 if os.path.isdir(flag[2:]) or not flag.startswith(('-I', '-L'))]
        if static:
            flags = [os.path.join(libraries, 'libweir.a') if flag == '-lweir' else flag for flag in flags]
        program = weir.path('enqueue_static' if static else 'enqueue_shared')
        _run('cc', *STRICT, os.path.join(ROOT, 'examples', 'enqueue_in_transaction.c'), *flags, '-lsqlite3', '-o', program)
        out = _run(program, program + '.db', env={'LD_LIBRARY_PATH': libraries})
        assert out.endswith('order 2, committed: enqueued\n'), out


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
