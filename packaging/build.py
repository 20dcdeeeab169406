#!/usr/bin/env python3
"""Builds the packages of one commit: the .deb files, the tarball, the image, their SBOM and their checksums.

usage: build.py FOLDER [deb|tarball|image ...]

All is built from `git archive`, so that a file that is not committed has no effect, and each time stamp is that of the
commit, so that a second build gives the same bytes. FOLDER gets the packages and nothing else. It needs Debian 12 and root,
because the image is made of Debian's own packages; `./dev package` installs the tools.
"""

import gzip
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import image
import sbom

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ('deb', 'tarball', 'image')
# In the tarball: Debian has no archive of libjq, and libjq needs libonig.
CARRIED = ('libjq.so.1', 'libonig.so.5')
# Their archives are linked into the binary of the tarball.
LINKED = ('libjansson-dev', 'libfyaml-dev', 'libnghttp2-dev', 'libprotobuf-c-dev')


def run(*words, **options):
    """Shows the output of a program only when it fails."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        sys.exit(f'package: {words[0]} failed with exit code {done.returncode}; the lines above give the reason')
    return done.stdout


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


class Commit:
    """The sources, their version and their time."""

    def __init__(self, folder):
        if not os.path.exists(os.path.join(ROOT, '.git')):
            sys.exit('package: this folder has no history: clone the repository, packages are built of a commit')
        self.id = output('git', 'rev-parse', 'HEAD')
        if output('git', 'status', '--porcelain'):
            print('package: this folder has changes that are not committed; the packages are without them', file=sys.stderr)
        self.time = int(output('git', 'log', '-1', '--format=%ct'))
        with open(os.path.join(ROOT, 'VERSION'), encoding='utf-8') as file:
            self.version = file.read().strip()
        if f'v{self.version}' not in output('git', 'tag', '--points-at', 'HEAD').split():
            # "~" sorts before the release, and a later commit after an earlier one.
            stamp = output('git', 'log', '-1', '--date=format-local:%Y%m%d%H%M%S', '--format=%cd')
            self.version += f'~git{stamp}.{self.id[:12]}'
        self.source = os.path.join(folder, 'source')
        os.mkdir(self.source)
        archive = subprocess.run(('git', 'archive', 'HEAD'), check=True, capture_output=True, cwd=ROOT).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(self.source)
        self.environment = {**os.environ, 'SOURCE_DATE_EPOCH': str(self.time), 'LC_ALL': 'C.UTF-8', 'TZ': 'UTC'}


def build_deb(commit, folder):
    """The .deb files. They get Debian's own flags of the compiler, by debhelper."""
    source = os.path.join(folder, 'weir')
    shutil.copytree(commit.source, source, symlinks=True)
    shutil.copytree(os.path.join(source, 'packaging', 'debian'), os.path.join(source, 'debian'))
    shutil.copy(os.path.join(source, 'packaging', 'systemd', 'weir.service'), os.path.join(source, 'debian'))
    with open(os.path.join(source, 'debian', 'control'), encoding='utf-8') as file:
        maintainer = re.search('^Maintainer: (.*)$', file.read(), re.MULTILINE).group(1)
    date = output('date', '--utc', '--rfc-email', f'--date=@{commit.time}')
    with open(os.path.join(source, 'debian', 'changelog'), 'w', encoding='utf-8') as file:
        file.write(f'weir ({commit.version}) unstable; urgency=medium\n\n  * Built of the commit {commit.id[:12]}.\n\n'
                   f' -- {maintainer}  {date}\n')
    run('dpkg-buildpackage', '--build=binary', '--no-sign', cwd=source,
        env={**commit.environment, 'DEB_BUILD_OPTIONS': 'noautodbgsym nocheck'})
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith('.deb')]


def library_place(binary, name):
    found = re.search(rf'^\s*{re.escape(name)} => (\S+)', output('ldd', binary), re.MULTILINE)
    if not found:
        sys.exit(f'package: {binary} does not need {name}, which the tarball carries for it')
    return os.path.realpath(found.group(1))


def add_licences(tree, packages):
    """What is linked in or carried along keeps its own licence."""
    place = os.path.join(tree, 'share', 'doc', 'weir', 'licences')
    os.makedirs(place)
    for package in packages:
        shutil.copyfile(f'/usr/share/doc/{package}/copyright', os.path.join(place, package))


def write_tar_gz(path, tree, time):
    """In a fixed order, of root, with one time; gzip gets no name and no time."""
    def plain(member):
        member.uid = member.gid = 0
        member.uname = member.gname = 'root'
        member.mtime = time
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with open(path, 'wb') as raw, gzip.GzipFile('', 'wb', 9, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode='w', format=tarfile.GNU_FORMAT) as tar:
            tar.add(tree, os.path.basename(tree), filter=plain)  # goes through folders in the order of names


def build_tarball(commit, folder):
    """A binary for every Linux with the C library, OpenSSL and SQLite of Debian 12, or newer ones."""
    source = os.path.join(folder, 'weir')
    shutil.copytree(commit.source, source, symlinks=True)
    build = os.path.join(source, 'build')
    flags = f'-ffile-prefix-map={source}=.'
    run('meson', 'setup', build, '--buildtype=release', '--prefix=/', '-Dtests=false', '-Dbench=false',
        '-Dfailpoints=false', '-Dbundled=true', cwd=source, env={**commit.environment, 'CFLAGS': flags})
    run('ninja', '-C', build, 'weir', *('packaging/' + name for name in ('weir.1', 'weir', '_weir', 'weir.fish')),
        env=commit.environment)
    tree = os.path.join(folder, f'weir-{commit.version}-linux-{platform.machine()}')
    binary = os.path.join(build, 'weir')
    made = os.path.join(build, 'packaging')
    libraries = [library_place(binary, name) for name in CARRIED]
    files = {'bin/weir': binary, 'share/man/man1/weir.1': made + '/weir.1',
             'share/bash-completion/completions/weir': made + '/weir', 'share/zsh/site-functions/_weir': made + '/_weir',
             'share/fish/vendor_completions.d/weir.fish': made + '/weir.fish',
             **{f'share/weir/{name}': f'{source}/packaging/{name}'
                for name in ('prometheus/alerts.yml', 'grafana/weir-queue.json', 'grafana/weir-nodes.json')},
             'share/doc/weir/weir.service': source + '/packaging/systemd/weir.service',
             'share/doc/weir/weir.socket': source + '/packaging/systemd/weir.socket',
             'share/doc/weir/install.md': source + '/docs/install.md', 'LICENSE': source + '/LICENSE',
             **{'lib/weir/' + name: place for name, place in zip(CARRIED, libraries)}}
    for name, place in files.items():
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        shutil.copyfile(place, os.path.join(tree, name))
    os.chmod(os.path.join(tree, 'bin', 'weir'), 0o755)
    run('strip', '--strip-unneeded', os.path.join(tree, 'bin', 'weir'))
    carried = [sbom.package_of(place) for place in libraries]
    add_licences(tree, (*LINKED, *carried))
    path = tree + '.tar.gz'
    write_tar_gz(path, tree, commit.time)
    return path, sbom.installed((*LINKED, *carried))


def write_sums(folder):
    names = sorted(os.listdir(folder))
    with open(os.path.join(folder, 'SHA256SUMS'), 'w', encoding='ascii') as sums:
        for name in names:
            with open(os.path.join(folder, name), 'rb') as file:
                sums.write(f'{hashlib.file_digest(file, "sha256").hexdigest()}  {name}\n')


def build(commit, work, folder, kinds):
    parts = {}
    debs = []
    if 'deb' in kinds or 'image' in kinds:
        os.mkdir(os.path.join(work, 'deb'))
        debs = build_deb(commit, os.path.join(work, 'deb'))
        for path in debs:
            parts[shutil.copy(path, folder)] = sbom.needed(path)
    if 'tarball' in kinds:
        os.mkdir(os.path.join(work, 'tarball'))
        path, packages = build_tarball(commit, os.path.join(work, 'tarball'))
        parts[shutil.copy(path, folder)] = packages
    if 'image' in kinds:
        os.mkdir(os.path.join(work, 'image'))
        path, packages = image.build(commit, os.path.join(work, 'image'), debs)
        parts[shutil.copy(path, folder)] = packages
    sbom.write(commit, os.path.join(folder, f'weir-{commit.version}.spdx.json'), parts)
    write_sums(folder)


def main(arguments):
    if not arguments or not set(arguments[1:]) <= set(KINDS):
        sys.exit(__doc__.split('\n\n')[1])
    folder = os.path.abspath(arguments[0])
    if os.path.isdir(folder) and os.listdir(folder):
        sys.exit(f'package: {folder} is not empty: name a new folder, or remove it')
    os.makedirs(folder, exist_ok=True)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix='weir-package-') as work:
        build(Commit(work), work, folder, arguments[1:] or KINDS)
    for name in sorted(os.listdir(folder)):
        print(os.path.join(folder, name))


if __name__ == '__main__':
    main(sys.argv[1:])
