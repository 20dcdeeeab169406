#!/usr/bin/env python3
"""What the server does for the dashboard: its page and files, the cookie of a session, and tokens over HTTP. The pages
themselves are tested in a browser (dashboard/tests).

usage: http_dashboard_test.py BINARY [TEST ...]
"""

import gzip
import http.client
import json
import os
import re
import subprocess
import sys
import time

from harness import run_tests
from http_client import SECONDS, Listener, problem, read_answer, read_until
from oidc_provider import CLIENT, SECRET, Provider, ec_key, rsa_key
from waiting import SHORT, wait_for

BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
POLICY = {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
          "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"}
PACKED_BYTES_MAX = 150 * 1024


def _token(weir, name, role, *words):
    return weir.good('token', 'create', name, '--role', role, *(words or ('--all-workspaces',)), '-q').out.strip()


def _cookie(answer):
    """The pair that a browser sends back, and the attributes."""
    pair, *attributes = answer.head['set-cookie'].split('; ')
    return pair, set(attributes)


# --- the page and its files ---


def a_browser_gets_the_page_and_an_api_client_what_it_got_before(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    page = listener.ask('/', accept=BROWSER)
    assert (page.status, page.head['content-type']) == (200, 'text/html; charset=utf-8'), page
    assert POLICY <= set(page.head['content-security-policy'].replace('; ', ';').split(';')), page.head
    assert "unsafe" not in page.head['content-security-policy'], page.head
    assert (page.head['cache-control'], page.head['referrer-policy']) == ('no-cache', 'no-referrer'), page.head
    assert b'@VERSION@' not in page.body and b'style=' not in page.body, page.body
    for script in re.findall(rb'<script[^>]*>(.*?)</script>', page.body, re.DOTALL):
        assert script == b'', script
    for address in re.findall(rb'<(?:script|link)[^>]*(?:src|href)="([^"]*)"', page.body):
        assert re.fullmatch(rb'assets/[0-9a-f]{16}/[a-z.]+', address), address  # relative, so right under any prefix
    for accept in ({}, {'accept': '*/*'}, {'accept': 'application/json'}):
        problem(listener.ask('/', **accept), 404, 'not_found')
    problem(listener.ask('/', 'POST', accept=BROWSER), 405, 'method_not_allowed')
    problem(listener.ask('/executions', accept=BROWSER), 404, 'not_found')
    known = listener.ask('/', accept=BROWSER, if_none_match=page.head['etag'])
    assert (known.status, known.body) == (304, b''), known
    for name in ('content-security-policy', 'cache-control', 'referrer-policy'):
        assert known.head[name] == page.head[name], known.head  # a browser replaces those that it has kept
    assert listener.ask('/', accept=BROWSER, if_none_match='"other"').status == 200
    assert listener.ask('/', 'HEAD', accept=BROWSER).head['content-length'] == str(len(page.body))
    listener.stop()


def the_files_are_packed_and_kept_for_ever(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    page = listener.ask('/', accept=BROWSER, accept_encoding='gzip, br')
    assert page.head['content-encoding'] == 'gzip' and 'Accept-Encoding' in page.head['vary'], page.head
    html = gzip.decompress(page.body).decode()
    total = len(page.body)
    addresses = re.findall(r'<(?:script|link)[^>]*(?:src|href)="([^"]*)"', html)
    folder = addresses[0].rpartition('/')[0]
    style = listener.ask(f'/{folder}/app.css').body.decode()
    addresses += [f'{folder}/{name}' for name in re.findall(r'url\("?(?:\./)?([a-z0-9.-]+)"?\)', style)]
    assert len(addresses) == len(set(addresses)) == 6, addresses
    for address in addresses:
        plain = listener.ask('/' + address)
        packed = listener.ask('/' + address, accept_encoding='gzip')
        assert plain.status == packed.status == 200 and 'content-encoding' not in plain.head, plain.head
        assert plain.head['cache-control'] == 'public, max-age=31536000, immutable', plain.head
        assert plain.head['x-content-type-options'] == 'nosniff', plain.head
        if 'content-encoding' in packed.head:
            assert gzip.decompress(packed.body) == plain.body, address
        total += len(packed.body)
    assert total < PACKED_BYTES_MAX, total
    for encodings in ('gzip', 'GZIP', 'br, gzip', 'gzip;q=0.5', 'gzip ; q=0.001,br', 'gzip;Q=1', 'br;q=0, gzip;q=1.0'):
        assert listener.ask(f'/{folder}/app.js', accept_encoding=encodings).head['content-encoding'] == 'gzip', encodings
    for encodings in ('gzip;q=0', 'gzip; q=0', 'gzip ;\tq=0.000', 'br', 'gzipped', 'xgzip', '', 'br, gzip;q=0, identity',
                      'gzip' + 60 * ' ' + 'x'):
        assert 'content-encoding' not in listener.ask(f'/{folder}/app.js', accept_encoding=encodings).head, encodings
    plain = listener.ask('/', accept=BROWSER)
    assert page.head['etag'] != plain.head['etag'] and gzip.decompress(page.body) == plain.body
    for one, other, encodings in ((page, plain, {'accept_encoding': 'gzip'}), (plain, page, {})):
        assert listener.ask('/', accept=BROWSER, if_none_match=one.head['etag'], **encodings).status == 304
        assert listener.ask('/', accept=BROWSER, if_none_match=other.head['etag'], **encodings).status == 200
    # A page of another version, from another node behind the same address.
    other = listener.ask('/assets/0123456789abcdef/app.js')
    assert (other.status, other.head['cache-control']) == (200, 'no-store'), other.head
    for name in ('nothing.js', 'index.htm', 'index.html', '..%2fapp.js', 'app.js%00', 'APP.JS'):
        assert listener.ask(f'/{folder}/{name}').status in (400, 404), name
    listener.stop()


def the_dashboard_can_be_turned_off(weir):
    weir.make_store()
    weir.write('weir.yaml', 'http.dashboard: false\n')
    listener = Listener(weir).ready()
    problem(listener.ask('/', accept=BROWSER), 404, 'not_found')
    problem(listener.ask('/assets/0123456789abcdef/app.js'), 404, 'not_found')
    problem(listener.ask('/plain/overview', accept=BROWSER), 404, 'not_found')
    problem(listener.ask('/plain/executions?statsu=FAILED', accept=BROWSER), 400, 'invalid_argument')
    assert listener.ask('/docs').status == 200
    listener.stop()


# --- the box for pages of other sites ---


def the_box_of_a_workspace_is_for_the_sites_of_the_setting(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    refusal = problem(listener.ask('/embed/workspaces/acme', accept=BROWSER), 403, 'not_permitted')
    assert 'http.embed_origins' in refusal['detail'], refusal
    listener.stop()
    for wrong in ('*', 'https://*.example.com', 'https://a.example/path', 'https://a.example;script-src', 'https://',
                  'a.example',
                  ','.join(f'https://a{number}.example' for number in range(17))):
        weir.write('weir.yaml', json.dumps({'http.embed_origins': wrong}))
        refused = weir.run('serve', '--listen', '127.0.0.1:0', code=2)
        assert 'http.embed_origins has' in refused.err, refused
    weir.write('weir.yaml', json.dumps({'http.embed_origins': 'https://app.example.com, http://[::1]:8080'}))
    secret = _token(weir, 'box', 'read', '-w', 'acme', '--expires-at', '1h')
    listener = Listener(weir).ready()
    page = listener.ask('/embed/workspaces/acme', accept=BROWSER)
    rules = set(page.head['content-security-policy'].replace('; ', ';').split(';'))
    assert 'frame-ancestors https://app.example.com http://[::1]:8080' in rules, rules
    assert POLICY - {"frame-ancestors 'none'"} <= rules and 'unsafe' not in str(rules), rules
    assert 'set-cookie' not in page.head and b'style=' not in page.body and b'@VERSION@' not in page.body, page
    for address in re.findall(rb'(?:src|href)="../../([^"]*)"', page.body):
        assert listener.ask(f'/{address.decode()}').status == 200, address
    described = listener.ask('/v1/session', authorization=f'Bearer {secret}').json()
    assert described['expires_at'] == weir.items('token', 'list')[0]['expires_at'], described
    assert "frame-ancestors 'none'" in listener.ask('/', accept=BROWSER).head['content-security-policy']
    listener.stop()


# --- sessions ---


def a_session_keeps_the_token_in_a_cookie_that_no_script_can_read(weir):
    weir.make_store()
    secret = _token(weir, 'ada', 'operate', '-w', 'acme')
    listener = Listener(weir).ready()
    problem(listener.ask('/v1/session'), 401, 'unauthorized')
    begun = listener.ask('/v1/session', 'POST', authorization=f'Bearer {secret}', origin='http://localhost')
    described = begun.json()
    assert (described['token'], described['role'], described['workspaces']) == ('ada', 'operate', ['acme']), described
    pair, attributes = _cookie(begun)
    assert pair == f'weir_session={secret}' and attributes == {'HttpOnly', 'SameSite=Strict', 'Max-Age=43200'}, begun.head
    session = {'cookie': f'other=1; {pair}; more=2', 'weir_session': '1'}
    assert listener.ask('/v1/session', **session).json() == described
    assert listener.ask('/v1/executions?workspace=acme', **session).status == 200
    problem(listener.ask('/v1/executions?workspace=tiny', **session), 404, 'workspace_not_found')
    problem(listener.ask('/v1/nodes', **session), 403, 'not_permitted')
    ended = listener.ask('/v1/session', 'DELETE', **session)
    pair, attributes = _cookie(ended)
    assert (pair, 'Max-Age=0' in attributes) == ('weir_session=', True), ended.head
    # The header of a program counts more than a cookie, and a wrong one is not mended by it.
    problem(listener.ask('/v1/session', authorization='Bearer x', **session), 401, 'unauthorized')
    problem(listener.ask('/v1/session', cookie='weir_session=', weir_session='1'), 401, 'unauthorized')
    problem(listener.ask('/v1/session', cookie=f'xweir_session={secret}', weir_session='1'), 401, 'unauthorized')
    problem(listener.ask('/v1/session', cookie=f'a=weir_session={secret}', weir_session='1'), 401, 'unauthorized')
    listener.stop()


def a_request_without_a_token_is_no_attempt(weir):
    """All users of a proxy have its address: pages that ask for a session must not lock its form."""
    weir.make_store()
    secret = _token(weir, 'ada', 'read')
    listener = Listener(weir).ready()
    without = ({}, {'weir_session': '1'}, {'cookie': f'weir_session={secret}'}, {'cookie': 'other=1', 'weir_session': '1'},
               {'cookie': 'weir_session=', 'weir_session': '1'})
    for fields in without * 6:
        problem(listener.ask('/v1/session', **fields), 401, 'unauthorized')
    wrong = {'cookie': 'weir_session=weir_' + 'B' * 43, 'weir_session': '1'}
    answers = [listener.ask('/v1/session', **wrong).status for _ in range(60)]
    assert answers[:20] == [401] * 20 and 429 in answers, answers
    problem(listener.ask('/v1/session'), 401, 'unauthorized')
    assert listener.ask('/v1/session', 'POST', authorization=f'Bearer {secret}').status == 200
    listener.stop()


def a_field_that_is_a_list_may_have_several_lines(weir):
    weir.make_store()
    secret = _token(weir, 'ada', 'read')
    listener = Listener(weir).ready()

    def ask(*lines):
        with listener.connect() as connection:
            connection.sendall('\r\n'.join(('GET /v1/executions HTTP/1.1', 'Host: localhost', *lines, '', '')).encode())
            return read_answer(connection)

    bearer = f'Authorization: Bearer {secret}'
    for name in ('Accept-Encoding', 'Cookie', 'Weir-Session', 'Accept'):
        assert ask(bearer, f'{name}: a', f'{name}: b').status == 200, name
    # The lines of a cookie count as one: a proxy may have split it.
    split = ['Cookie: a=1', 'Cookie:', f'Cookie: weir_session={secret}', 'Cookie: b=2']
    assert ask(*split, 'Weir-Session: 1').status == 200
    assert ask(*split).status == 401
    assert ask('Weir-Session: 1', *['Cookie: a'] * 80, f'Cookie: weir_session={secret}').status == 200
    problem(ask(bearer, bearer), 400, 'invalid_request')
    problem(ask(bearer, 'Origin: a', 'Origin: b'), 400, 'invalid_request')
    listener.stop()


def a_page_with_tls_gets_a_cookie_for_tls_alone(weir):
    """The origin of the page shows it, also behind a proxy."""
    weir.make_store()
    secret = _token(weir, 'ada', 'read')
    weir.write('weir.yaml', 'http.behind_proxy: true\n')
    listener = Listener(weir)
    begun = listener.ask('/v1/session', 'POST', host='weir.example', authorization=f'Bearer {secret}',
                         origin='https://weir.example')
    pair, attributes = _cookie(begun)
    assert pair == f'__Secure-weir_session={secret}' and 'Secure' in attributes, begun.head
    shown = listener.ask('/v1/session', host='weir.example', weir_session='1', cookie=f'weir_session=x; {pair}')
    assert shown.json()['token'] == 'ada', shown
    ended = listener.ask('/v1/session', 'DELETE', host='weir.example', origin='https://weir.example')
    assert _cookie(ended)[0] == '__Secure-weir_session=', ended.head
    page = listener.ask('/', host='weir.example', accept=BROWSER)
    assert page.status == 200, page
    listener.stop()


def a_cookie_does_not_count_for_a_page_of_another_origin(weir):
    """A browser adds the cookie by itself. Such a page can neither send the field nor hide its origin."""
    weir.make_store()
    secret = _token(weir, 'ada', 'admin')
    listener = Listener(weir).ready()
    cookie = f'weir_session={secret}'
    problem(listener.ask('/v1/pause', 'POST', cookie=cookie), 401, 'unauthorized')
    problem(listener.ask('/v1/executions', cookie=cookie), 401, 'unauthorized')
    problem(listener.ask('/v1/pause', 'POST', cookie=cookie, weir_session='1', origin='http://evil.example'), 403,
            'cross_origin')
    problem(listener.ask('/v1/pause', 'POST', cookie=cookie, weir_session='1', origin='http://localhost:8080'), 403,
            'cross_origin')  # another port is the same site
    problem(listener.ask('/v1/session', 'POST', origin='null', authorization=f'Bearer {secret}'), 403, 'cross_origin')
    assert not weir.good('status', '--json').json()['queue_paused']
    allowed = listener.ask('/v1/executions', 'OPTIONS', origin='http://evil.example')
    assert 'access-control-allow-origin' not in allowed.head, allowed
    assert listener.ask('/v1/pause', 'POST', cookie=cookie, weir_session='1', origin='http://localhost').status == 200
    assert weir.items('audit', '--act', 'pause')[0]['actor'] == 'token:ada'
    listener.stop()


def where_no_token_is_needed_a_cookie_changes_nothing(weir):
    """That of another node of this machine, which has the same host: a browser sends it as well."""
    weir.make_store()
    listener = Listener(weir).ready()
    session = {'cookie': 'weir_session=weir_' + 'A' * 43, 'weir_session': '1'}
    described = listener.ask('/v1/session', **session).json()
    assert (described['token'], described['role'], described['workspaces']) == (None, 'admin', None), described
    ended = listener.ask('/v1/session', 'DELETE', **session)
    assert _cookie(ended)[0] == 'weir_session=', ended.head
    listener.stop()


def a_session_ends_with_its_token(weir):
    weir.make_store()
    secret, admin = _token(weir, 'ada', 'read'), _token(weir, 'root', 'admin')
    listener = Listener(weir).ready()
    session = {'cookie': f'weir_session={secret}', 'weir_session': '1'}
    rights = {'authorization': f'Bearer {admin}'}
    assert listener.ask('/v1/session', **session).status == 200
    problem(listener.ask('/v1/tokens', **session), 403, 'not_permitted')
    rows = {row['name']: row for row in listener.ask('/v1/tokens', **rights).json()['items']}
    assert (rows['ada']['role'], rows['ada']['state'], rows['ada']['workspaces']) == ('read', 'live', None), rows
    assert not any(secret in str(row) for row in rows.values()), rows
    problem(listener.ask(f'/v1/tokens/{rows["ada"]["id"]}', 'DELETE', **rights), 404, 'not_found')  # a name, not an id
    assert listener.ask('/v1/tokens/ada', 'DELETE', weir_reason='left', **rights).json() == {'name': 'ada'}
    problem(listener.ask('/v1/tokens/ada', 'DELETE', **rights), 404, 'not_found')
    wait_for('the refusal', lambda: listener.ask('/v1/session', **session).status == 401, pause=SHORT)
    ended = listener.ask('/v1/session', 'DELETE', origin='http://localhost', **session)
    assert (ended.status, ended.json()) == (200, {'ended': True}), ended
    assert _cookie(ended)[0] == 'weir_session=' and 'Max-Age=0' in _cookie(ended)[1], ended.head
    problem(listener.ask('/v1/session', 'DELETE', origin='http://evil.example', **session), 403, 'cross_origin')
    act = weir.items('audit', '--act', 'token revoke')[0]
    assert (act['actor'], act['subject'], act['reason']) == ('token:root', 'ada', 'left'), act
    listener.stop()


def a_stream_is_open_to_a_session_and_ends_with_its_token(weir):
    weir.make_store()
    secret = _token(weir, 'ada', 'read')
    listener = Listener(weir).ready()
    with listener.connect() as connection:
        connection.sendall(f'GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nCookie: weir_session={secret}\r\n'
                           'Weir-Session: 1\r\n\r\n'.encode())
        data, _ = read_until(connection, b'event: reset')
        assert data.startswith(b'HTTP/1.1 200 '), data
        weir.good('token', 'revoke', 'ada', '-q')
        assert not read_until(connection, b'\r\n0\r\n\r\n', data)[1]
    listener.stop()


# --- sign-in by a provider ---

CALLBACK = 'https://weir.example/v1/oidc_callback'
GROUPS = 'roots=admin; acme-team=operate:acme; tiny-team=operate:tiny,gone; support=read; lost=read:gone'


def _provide(weir, provider, **more):
    weir.write('secret', SECRET + '\n')
    weir.write('weir.yaml', json.dumps({
        'http.behind_proxy': True, 'http.oidc.issuer': provider.issuer, 'http.oidc.client_id': CLIENT,
        'http.oidc.client_secret_file': weir.path('secret'), 'http.oidc.redirect_url': CALLBACK,
        'http.oidc.groups': GROUPS, 'http.oidc.name': 'Example <ID>', **more}))


class _Browser:
    """Its cookies are those of one origin with TLS. Each node answers for it, as behind a balancer."""

    def __init__(self):
        self.cookies = {}

    def get(self, listener, path, method='GET', **fields):
        fields = {name.replace('_', '-'): value for name, value in fields.items()}
        if self.cookies:
            fields['Cookie'] = '; '.join(f'{name}={value}' for name, value in self.cookies.items())
        connection = http.client.HTTPConnection('127.0.0.1', listener.port, timeout=SECONDS)
        connection.request(method, path, headers={'Host': 'weir.example', **fields})
        answer = connection.getresponse()
        answer.body = answer.read().decode()
        connection.close()
        for field in answer.headers.get_all('Set-Cookie', []):
            pair, *attributes = field.split('; ')
            name, _, value = pair.partition('=')
            is_removed = 'Max-Age=0' in attributes  # also that of a page without TLS
            assert {'HttpOnly', 'Secure'} - ({'Secure'} if is_removed else set()) <= set(attributes), field
            self.cookies[name] = value
            if is_removed:
                del self.cookies[name]
        return answer

    def begin(self, listener):
        answer = self.get(listener, '/v1/oidc_sign_in')
        assert (answer.status, answer.headers['Referrer-Policy']) == (303, 'no-referrer'), answer.body
        return answer.headers['Location']

    def sign_in(self, provider, first, second, head=None, **claims):
        """Begins at one node and ends at the other: the answer of the second."""
        code, asked = provider.allow(self.begin(first), head, **claims)
        return self.get(second, f'/v1/oidc_callback?code={code}&state={asked["state"]}&session_state=any')

    def session(self, listener):
        return self.get(listener, '/v1/session', Weir_Session='1')


def _refused(answer, status, text):
    """A page without a script, and without a session."""
    assert answer.status == status and text in answer.body, (answer.status, answer.body)
    assert answer.headers['Content-Type'] == 'text/html; charset=utf-8' and '<script' not in answer.body, answer.body
    assert "default-src 'none'" in answer.headers['Content-Security-Policy'], answer.headers
    assert answer.headers['Referrer-Policy'] == 'no-referrer', answer.headers
    assert not any('weir_session=weir_' in field for field in answer.headers.get_all('Set-Cookie', [])), answer.headers


def a_person_signs_in_by_a_provider_on_any_node(weir):
    provider = Provider()
    weir.make_store()
    _provide(weir, provider, **{'http.oidc.groups_claim': 'access.groups'})
    first, second = Listener(weir, output='first').ready(), Listener(weir, output='second').ready()
    assert first.ask('/v1/oidc', host='weir.example').json() == {'provider': 'Example <ID>'}
    browser = _Browser()
    address = browser.begin(first)
    assert address.startswith(f'{provider.issuer}/authorize?tenant=1&response_type=code&'), address
    for part in ('code_challenge_method=S256', 'scope=openid%20email', 'redirect_uri=https%3A%2F%2Fweir.example%2Fv1%2F'):
        assert part in address, address
    assert set(browser.cookies) == {'__Host-weir_sign_in'}, browser.cookies
    entered = browser.sign_in(provider, first, second)
    assert (entered.status, entered.headers['Location'], entered.body) == (303, '../', ''), entered.body
    kept = entered.headers.get_all('Set-Cookie')[0]
    assert kept.endswith('; Max-Age=28800; HttpOnly; SameSite=Strict; Secure'), kept
    assert set(browser.cookies) == {'__Secure-weir_session'}, browser.cookies
    session = json.loads(browser.session(first).body)
    # The first entry of the setting gives the role; one of another role adds nothing.
    assert (session['token'], session['role'], session['workspaces']) == ('user:ada@example.com/1', 'operate', ['acme'])
    paused = browser.get(second, '/v1/workspaces/acme/pause', 'POST', Weir_Session='1', Origin='https://weir.example')
    assert paused.status == 200, paused.body
    assert browser.get(second, '/v1/workspaces/tiny/pause', 'POST', Weir_Session='1').status == 404
    acts = {act['act']: act for act in weir.items('audit', '--actor', 'user:ada@example.com')}
    assert set(acts) == {'token create', 'workspace pause'}, acts
    assert {act['actor'] for act in acts.values()} == {'user:ada@example.com'}, acts

    for groups, role, workspaces in ((['tiny-team', 'acme-team'], 'operate', ['acme', 'tiny']), (['roots'], 'admin', None)):
        other = _Browser()
        assert other.sign_in(provider, first, first, groups=groups, sub='5', email_verified=False).status == 303
        session = json.loads(other.session(second).body)
        assert (session['role'], session['workspaces'] and sorted(session['workspaces'])) == (role, workspaces), session

    # A person has some sessions at a time; further ones take the places of those that would end first.
    others = [_Browser() for _ in range(8)]
    for other in others:
        assert other.sign_in(provider, second, first, {'alg': 'ES256', 'kid': 'curve'}).status == 303
    def live():
        return [row['name'] for row in weir.items('token', 'list') if row['state'] == 'live' and '@' in row['name']]
    assert sorted(live()) == [f'user:ada@example.com/{number}' for number in range(1, 9)], live()
    assert browser.session(first).status == 401

    left = _Browser()
    left.cookies = dict(others[0].cookies)
    ended = others[0].get(first, '/v1/session', 'DELETE', Weir_Session='1', Origin='https://weir.example')
    assert (ended.status, others[0].cookies) == (200, {}), ended.body
    assert len(live()) == 7 and json.loads(ended.body) == {'ended': True}, ended.body
    assert left.session(first).status == 401
    wait_for('the other node', lambda: left.session(second).status == 401, pause=SHORT)
    assert others[1].session(second).status == 200

    again = weir.run('token', 'create', 'user:eve/1', '--role', 'read', '--all-workspaces', code=2)
    assert 'must not begin with user:' in again.err, again
    # An address that the provider does not vouch for is no name.
    for claims, name in (({'email_verified': False}, 'sub:1234'), ({'email_verified': None}, 'sub:1234'),
                         ({'email': 'a' * 300}, 'a' * 40 + '~'), ({'email': 'ada@example.com(x'}, 'ada@example.com~')):
        assert _Browser().sign_in(provider, first, second, **claims).status == 303
        assert weir.items('token', 'list')[-1]['name'].startswith(f'user:{name}'), weir.items('token', 'list')
    for listener in (first, second):
        listener.stop()
    for name in ('first.out', 'first.err', 'second.out', 'second.err', 'weir.db'):
        with open(weir.path(name), 'rb') as file:
            data = file.read()
        for secret in (SECRET, 'eyJ', others[1].cookies['__Secure-weir_session']):
            assert secret.encode() not in data, name
    provider.close()


def a_session_of_a_person_has_the_limit_of_the_setting_for_bodies(weir):
    provider = Provider()
    weir.make_store()
    body = json.dumps({'workflow': 'hello', 'params': {}}).encode()
    _provide(weir, provider, **{'http.oidc.max_body_bytes': len(body)})
    listener = Listener(weir).ready()
    browser = _Browser()
    assert browser.sign_in(provider, listener, listener).status == 303
    row, = weir.items('token', 'list')
    assert (row['name'], row['max_body_bytes'], row['rate']) == ('user:ada@example.com/1', len(body), None), row
    fields = {'host': 'weir.example', 'weir_session': '1', 'origin': 'https://weir.example',
              'content_type': 'application/json',
              'cookie': '; '.join(f'{name}={value}' for name, value in browser.cookies.items())}
    path = '/v1/workspaces/acme/executions'
    problem(listener.ask(path, 'POST', body=body + b' ', **fields), 413, 'body_too_large')
    assert listener.ask(path, 'POST', body=body, **fields).status == 202
    listener.stop()
    provider.close()


def a_sign_in_that_is_wrong_in_any_way_gets_a_page_and_no_session(weir):
    provider = Provider()
    provider.methods = ['client_secret_post', 'private_key_jwt']
    weir.make_store()
    _provide(weir, provider, **{'http.oidc.person_claim': 'preferred_username'})
    listener = Listener(weir).ready()

    def attempt(status, text, head=None, **claims):
        _refused(_Browser().sign_in(provider, listener, listener, head, **claims), status, text)

    now = 2_000_000_000
    attempt(400, 'its nonce is wrong', nonce='x' * 43)
    attempt(400, 'its nonce is wrong', nonce=None)
    attempt(400, 'for another client', aud='other')
    attempt(400, 'for another client', aud=['other', CLIENT])  # without azp
    attempt(400, 'for another client', aud=[CLIENT], azp='other')
    attempt(400, 'of another issuer', iss=provider.issuer + '/')
    attempt(400, 'has expired', exp=1_000_000_000)
    attempt(400, 'NTP', iat=now * 2, exp=now * 3)
    attempt(400, 'of the future', nbf=now * 2)
    attempt(400, 'no time', exp=None)
    attempt(400, 'put `iat` and `exp`', iat='now')
    attempt(400, 'signed with &quot;none&quot;', {'alg': 'none'})
    attempt(400, 'signed with &quot;HS256&quot;', {'alg': 'HS256', 'kid': 'first'})
    for head in ({'alg': 'ES256'}, {'alg': 'RS256', 'kid': 'first'}):  # without an id each key that fits is tried
        provider.forged_claims = {'groups': ['roots']}
        attempt(400, 'signature of the ID token is wrong', head)
        provider.forged_claims = None
    attempt(400, 'not a signed JSON object', {'alg': 'RS256', 'kid': 'first', 'crit': ['x'], 'x': 1})
    attempt(400, 'not a signed JSON object', groups=['roots\0'])
    attempt(400, 'no key', {'alg': 'RS256', 'kid': 'unknown'})
    attempt(403, 'groups in the token: &lt;b&gt;, other', groups=['<b>', 'other'])
    attempt(403, 'groups in the token: none', groups=None)
    attempt(403, 'groups in the token: none', groups=[])
    attempt(500, 'The workspaces of your groups do not exist', groups='lost')
    for answer, status, text in (((302, {}), 400, 'status 302'), ((503, {}), 503, 'status 503'),
                                 ((200, {'id_token': 'x' * 300_000}), 503, 'its answer is too long'),
                                 ((200, {'id_token': 'x' * 100_000}), 400, 'more than 65536 bytes'),
                                 ((200, {}), 400, 'openid')):
        provider.answer = answer
        attempt(status, text)
    provider.answer = None
    assert '/elsewhere' not in provider.requests, provider.requests
    provider.keys = [rsa_key(kid='second', n='AQAB'), rsa_key(kid='third', use='enc'), 'x', {}, ec_key()]
    for kid in ('second', 'third'):
        attempt(400, 'the ID token', {'alg': 'RS256', 'kid': kid})
    provider.keys = [rsa_key(kid='new')]
    head = {'alg': 'RS256', 'kid': 'new'}
    named = _Browser().sign_in(provider, listener, listener, head, preferred_username='sub:1234')
    assert named.status == 303, named.body  # the keys are read again

    browser, other = _Browser(), _Browser()
    code, asked = provider.allow(browser.begin(listener), head)
    path = f'/v1/oidc_callback?code={code}&state={asked["state"]}'
    _refused(other.get(listener, path), 400, 'has begun no sign-in')
    other.begin(listener)
    _refused(other.get(listener, path), 400, 'not that of the last sign-in')
    for wrong, status, text in (('?code=x', 400, 'not that of the last'), (f'?state={asked["state"]}', 403, 'has no code'),
                                (f'?state={asked["state"]}&error=access_denied&error_description=x', 403, 'access_denied'),
                                (f'?state={asked["state"]}&code=x&iss=http://evil.example', 400, 'another provider'),
                                (f'?state={asked["state"]}&code=x', 400, 'invalid_grant')):
        kept = dict(browser.cookies)
        refused = browser.get(listener, '/v1/oidc_callback' + wrong)
        _refused(refused, status, text)
        assert browser.cookies == {} and 'description' not in refused.body, browser.cookies
        browser.cookies = kept
    kept = dict(browser.cookies)
    assert browser.get(listener, path).status == 303
    browser.cookies = kept
    _refused(browser.get(listener, path), 400, 'invalid_grant')  # a code that was used
    assert [row['name'] for row in weir.items('token', 'list')] == ['user:preferred_username:sub:1234/1', 'user:sub:1234/1']

    # A provider that hangs delays nothing else, and no stop.
    browser = _Browser()
    code, asked = provider.allow(browser.begin(listener), head)
    provider.hangs.set()
    count = len(provider.requests)
    with listener.connect() as connection:
        cookie = f'__Host-weir_sign_in={browser.cookies["__Host-weir_sign_in"]}'
        connection.sendall(f'GET /v1/oidc_callback?code={code}&state={asked["state"]} HTTP/1.1\r\nHost: weir.example\r\n'
                           f'Cookie: {cookie}\r\n\r\n'.encode())
        wait_for('the request for a token', lambda: len(provider.requests) > count, pause=SHORT)
        for _ in range(3):
            assert listener.ask('/v1/oidc', host='weir.example').status == 200
        listener.stop()
        answer = read_answer(connection)
        assert answer.status == 503 and b'This node stops' in answer.body, answer  # not the deadline of the request
    provider.close()
    listener = Listener(weir).ready()
    _refused(_Browser().get(listener, '/v1/oidc_sign_in'), 503, 'did not answer')
    listener.stop()


def _certificate(weir, name, signer, alternative):
    subprocess.run([os.environ['WEIR_MAKE_CERTIFICATE'], weir.folder, name, signer, alternative, '-60', '3600'], check=True)
    return weir.path(f'{name}.pem'), weir.path(f'{name}.key')


def a_provider_with_tls_needs_a_certificate_of_the_authority_in_the_setting(weir):
    authority, _ = _certificate(weir, 'authority', '', '')
    provider = Provider(_certificate(weir, 'provider', 'authority', 'IP:127.0.0.1'))
    stranger = Provider(_certificate(weir, 'stranger', '', 'IP:127.0.0.1'))
    misnamed = Provider(_certificate(weir, 'misnamed', 'authority', 'DNS:login.example.com'))
    weir.make_store()
    # The last one: without the setting the authorities of the system count, of which this one is none.
    for refusing, ca_file in ((stranger, authority), (misnamed, authority), (provider, '')):
        _provide(weir, refusing, **{'http.oidc.ca_file': ca_file})
        listener = Listener(weir).ready()
        _refused(_Browser().get(listener, '/v1/oidc_sign_in'), 503, 'did not answer')
        listener.stop()
        assert refusing.requests == [], refusing.requests  # no secret goes to another server
    _provide(weir, provider, **{'http.oidc.ca_file': authority})
    listener = Listener(weir).ready()
    entered = _Browser().sign_in(provider, listener, listener)
    assert (entered.status, entered.headers['Location']) == (303, '../'), entered.body
    assert '/token' in provider.requests and '/keys' in provider.requests, provider.requests
    listener.stop()
    for each in (provider, stranger, misnamed):
        each.close()


def an_address_with_wrong_codes_waits_behind_nobody(weir):
    provider = Provider()
    weir.make_store()
    _provide(weir, provider)
    listener = Listener(weir).ready()

    def guess():
        browser = _Browser()
        _, asked = provider.allow(browser.begin(listener))
        return browser.get(listener, f'/v1/oidc_callback?code=guessed&state={asked["state"]}')

    begun = time.monotonic()
    answers = [guess() for _ in range(30)]
    refused = [answer for answer in answers if answer.status == 429]
    # One more is allowed each three seconds; a slow machine must not fail here.
    assert len(refused) >= 10 - (time.monotonic() - begun) / 3, [answer.status for answer in answers]
    for answer in answers:
        _refused(answer, answer.status, 'Too many codes' if answer.status == 429 else 'invalid_grant')
    assert refused and all(int(answer.headers['Retry-After']) >= 1 for answer in refused), refused
    # The address may be that of a proxy: its people get in while no other sign-in is under way.
    held = _Browser()
    wait_for('the way in', lambda: held.sign_in(provider, listener, listener).status == 303)  # the last guess may still end
    code, asked = provider.allow(held.begin(listener))
    other = _Browser()
    theirs, theirs_asked = provider.allow(other.begin(listener))
    while guess().status != 429:
        pass
    provider.hangs.set()
    count = len(provider.requests)
    with listener.connect() as connection:
        connection.sendall(f'GET /v1/oidc_callback?code={code}&state={asked["state"]} HTTP/1.1\r\nHost: weir.example\r\n'
                           f'Cookie: __Host-weir_sign_in={held.cookies["__Host-weir_sign_in"]}\r\n\r\n'.encode())
        wait_for('the request for a token', lambda: len(provider.requests) > count, pause=SHORT)
        kept = dict(other.cookies)
        path = f'/v1/oidc_callback?code={theirs}&state={theirs_asked["state"]}'
        _refused(other.get(listener, path), 429, 'Too many codes')
        assert len(provider.requests) == count + 1, provider.requests
        provider.hangs.clear()
        provider.goes_on.set()
        assert read_answer(connection).status == 303
    other.cookies = kept
    wait_for('the end of the other one', lambda: other.get(listener, path).status == 303 or other.cookies.update(kept),
             pause=SHORT)
    listener.stop()
    provider.close()


def wrong_settings_of_a_provider_are_refused_at_the_start(weir):
    weir.make_store()
    provider = Provider()
    for name, value in (('issuer', 'http://login.example.com'), ('issuer', 'http://127.0.0.1:1@evil.example'),
                        ('client_id', ''), ('scopes', 'email'), ('redirect_url', 'https://weir.example/'),
                        ('redirect_url', 'http://weir.example/v1/oidc_callback'), ('client_secret_file', '/nowhere'),
                        ('groups', ''), ('groups', 'a=owner'), ('groups', 'a=read:'), ('groups', 'a')):
        _provide(weir, provider, **{f'http.oidc.{name}': value})
        refused = weir.run('serve', '--listen', '127.0.0.1:0', code=2)
        assert f'http.oidc.{name}' in refused.err, refused
    # The first person to sign in would otherwise close an address that is open to programs of this machine.
    _provide(weir, provider, **{'http.behind_proxy': False})
    listener = Listener(weir)
    problem(listener.ask('/v1/session'), 401, 'unauthorized')
    listener.stop()
    provider.close()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
