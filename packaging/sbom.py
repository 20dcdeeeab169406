"""The list of materials of the packages (SPDX 2.3, JSON): each package with its checksum, and the packages of Debian that
it has inside or needs. It is made of dpkg's data alone, so that a second build gives the same bytes."""

import hashlib
import json
import os
import re
import subprocess
import time
import uuid

NAMESPACE = uuid.UUID('6f1f2a53-1a0e-5d0c-9d55-7b1d2c9f6a10')


def query(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def package_of(path):
    """The package of Debian that installed a file. dpkg may have it under /lib, which is a link to /usr/lib."""
    for name in (path, path.removeprefix('/usr')):
        found = subprocess.run(('dpkg-query', '--search', name), capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.split(':')[0]
    raise SystemExit(f'package: no package of Debian has {path}, so its licence is unknown')


def installed(names, root='/'):
    """(relation, name, version, name of the source) of packages that are inside of one of ours; no names: all."""
    text = query('dpkg-query', f'--admindir={root}/var/lib/dpkg', '--show',
                 '--showformat=${Package}\t${Version}\t${source:Package}\n', *names)
    return [('CONTAINS', *line.split('\t')) for line in sorted(text.splitlines())]


def needed(deb):
    """(relation, name, version, name of the source) of the packages that a .deb depends on."""
    found = []
    for entry in query('dpkg-deb', '--field', deb, 'Depends').replace('\n', ' ').split(','):
        name, relation = re.match(r'\s*([a-z0-9.+-]+)(?::\w+)?\s*(?:\(([^)]*)\))?', entry).groups()
        found.append(('DEPENDS_ON', name, relation or '', name))
    return found


def spdx_id(*parts):
    return 'SPDXRef-' + re.sub('[^A-Za-z0-9.-]', '-', '-'.join(parts))


def entry_of(name, version, source):
    entry = {'SPDXID': spdx_id(name, version), 'name': name, 'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False,
             'sourceInfo': f'source package {source} of Debian'}
    # ">= 2.36" is no version: a purl names a package of any version.
    exact = version if version and version[0].isdigit() else ''
    if version:
        entry['versionInfo'] = version
    purl = f'pkg:deb/debian/{name}' + (f'@{exact}' if exact else '')
    entry['externalRefs'] = [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl',
                              'referenceLocator': purl.replace('+', '%2B')}]
    return entry


def part_of(commit, path):
    with open(path, 'rb') as file:
        digest = hashlib.file_digest(file, 'sha256').hexdigest()
    name = os.path.basename(path)
    return {'SPDXID': spdx_id(name), 'name': name, 'versionInfo': commit.version, 'downloadLocation': 'NOASSERTION',
            'filesAnalyzed': False, 'licenseDeclared': 'Apache-2.0', 'packageFileName': name,
            'sourceInfo': f'commit {commit.id}', 'checksums': [{'algorithm': 'SHA256', 'checksumValue': digest}]}


def write(commit, path, parts):
    """parts: the path of each of our packages, with its tuples of installed() or needed()."""
    packages = {}
    relations = []
    ours = [part_of(commit, part) for part in sorted(parts)]
    for own, part in zip(ours, sorted(parts)):
        relations.append(('SPDXRef-DOCUMENT', 'DESCRIBES', own['SPDXID']))
        for relation, *facts in parts[part]:
            entry = entry_of(*facts)
            packages[entry['SPDXID']] = entry
            relations.append((own['SPDXID'], relation, entry['SPDXID']))
    names = ''.join(own['checksums'][0]['checksumValue'] for own in ours)
    document = {
        'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': f'weir-{commit.version}',
        'documentNamespace': f'urn:uuid:{uuid.uuid5(NAMESPACE, names)}',
        'creationInfo': {'created': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(commit.time)),
                         'creators': ['Tool: weir-packaging']},
        'packages': [*ours, *(packages[name] for name in sorted(packages))],
        'relationships': [{'spdxElementId': one, 'relationshipType': kind, 'relatedSpdxElement': other}
                          for one, kind, other in relations],
    }
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write('\n')
