#!/usr/bin/env python3
"""The pages for browsers without JavaScript: what they show, that texts stay texts, and who sees what.

usage: http_plain_test.py BINARY [TEST ...]
"""

import html
import http.client
import json
import re
import sys
import urllib.parse

from harness import run_tests
from http_client import SECONDS, Listener
from waiting import SHORT, wait_for

CORPUS = ('<img src=x onerror=alert(1)>', '"><script>alert(2)</script>', "'-alert(3)-'", '</td></table><b>bold</b>',
          '&lt;b&gt; &amp; 😀 العربية', """both "kinds" of 'quotes'""", '</pre><svg onload=alert(5)>', 'a&b=c#d?e+f%3C')
#: All elements that the pages have.
ELEMENTS = {'html', 'head', 'meta', 'title', 'link', 'body', 'header', 'nav', 'a', 'form', 'input', 'button', 'main', 'h1',
            'h2', 'table', 'caption', 'thead', 'tbody', 'tr', 'th', 'td', 'div', 'p', 'strong', 'code', 'pre', 'label',
            'select', 'option'}


def _page(answer, status=200):
    assert (answer.status, answer.head['content-type']) == (status, 'text/html; charset=utf-8'), answer
    rules = answer.head['content-security-policy']
    assert "default-src 'none'" in rules and "frame-ancestors 'none'" in rules and 'script-src' not in rules, rules
    text = answer.body.decode()
    assert set(re.findall(r'<([a-z0-9]+)', text)) <= ELEMENTS, text
    # Outside of quoted values, which hold texts.
    bare = re.sub(r'"[^"]*"', '""', text)
    assert not re.search(r'<[^>]*\s(on[a-z]+|style)\s*=', bare), text
    return text


def _escape(text):
    return html.escape(text).replace('&#x27;', '&#39;')


def _links(text):
    return [html.unescape(link) for link in re.findall(r'href="([^"]*)"', text)]


def _token(weir, name, *words):
    return weir.good('token', 'create', name, '--role', 'read', *(words or ('--all-workspaces',)), '-q').out.strip()


def _publish(weir):
    weir.write('late.yaml', 'name: late\nsteps:\n  greet:\n    exec: [echo, hello]\n')
    weir.good('workflow', 'apply', 'late.yaml', '-q')


def texts_of_users_stay_texts(weir):
    weir.make_store()
    _publish(weir)
    listener = Listener(weir).ready()
    for text in CORPUS:
        weir.good('workspace', 'set', text, '--plan', 'free', '-q')
        identity = weir.good('enqueue', '-w', text, 'late', '--run-at', '+3h', '--business-key', text, '-p',
                             json.dumps({text: text}), '-q').out.strip()
        escaped = _escape(text)
        overview = _page(listener.ask('/plain/overview'))
        assert escaped in overview, overview
        address = f'executions?workspace={urllib.parse.quote(text, safe="")}'
        assert address in _links(overview) and f'{address}&status=PENDING' in _links(overview), overview
        listed = _page(listener.ask(f'/plain/{address}'))
        assert escaped in listed and f'value="{escaped}"' in listed and f'executions/{identity}' in _links(listed), listed
        shown = _page(listener.ask(f'/plain/executions/{identity}'))
        data = _escape(json.dumps({text: text}, ensure_ascii=False, indent=2))
        assert data in shown and f'<td>{escaped}</td>' in shown, shown
        assert weir.good('why', identity, '--json').json()['because'] in html.unescape(shown), shown
        for wrong in (f'/plain/executions/{urllib.parse.quote(text, safe="")}',
                      f'/plain/executions?where={urllib.parse.quote(text, safe="")}'):
            refused = listener.ask(wrong)
            _page(refused, refused.status)
            assert refused.status in (400, 404), refused
    listener.stop()


def a_list_has_pages_and_a_filter(weir):
    weir.make_store()
    _publish(weir)
    lines = [json.dumps({'workspace': 'acme', 'workflow': 'late', 'run_at': '2099-01-01T00:00:00Z'})] * 60
    weir.good('enqueue', '-', '-q', stdin='\n'.join(lines))
    listener = Listener(weir).ready()
    first = _page(listener.ask('/plain/executions?workspace=acme&workflow=&status=PENDING&where='))
    follow = [link for link in _links(first) if 'cursor=' in link]
    assert len(follow) == 1 and 'status=PENDING' in follow[0] and first.count('<tr><td><a') == 50, first
    second = _page(listener.ask(f'/plain/{follow[0]}'))
    assert second.count('<tr><td><a') == 10 and 'cursor=' not in ''.join(_links(second)), second
    assert 'No execution matches.' in _page(listener.ask('/plain/executions?status=FAILED'))
    _page(listener.ask('/plain/executions?statsu=FAILED'), 400)
    listener.stop()


def _cookies(listener, path, origin):
    """The fields Set-Cookie of a sign-out."""
    is_plain = path.startswith('/plain')
    connection = http.client.HTTPConnection('127.0.0.1', listener.port, timeout=SECONDS)
    connection.request('POST' if is_plain else 'DELETE', path, b'end=yes' if is_plain else None,
                       {'Host': 'localhost', 'Origin': origin, 'Content-Type': 'application/x-www-form-urlencoded'})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == (303 if is_plain else 200), answer.status
    return answer.headers.get_all('Set-Cookie')


def a_text_browser_without_origin_signs_in_by_the_key_of_the_form(weir):
    weir.make_store()
    secret = _token(weir, 'ada')
    listener = Listener(weir).ready()

    def send(text, **fields):
        return listener.ask('/plain/session', 'POST', body=text.encode(),
                            content_type='application/x-www-form-urlencoded', **fields)

    shown = listener.ask('/plain/session')
    key = re.search(r'name="key" value="([\w-]{43})"', _page(shown)).group(1)
    assert shown.head['set-cookie'] == f'weir_plain_key={key}; HttpOnly; SameSite=Strict', shown.head
    cookie = f'other=1; weir_plain_key={key}'
    again = listener.ask('/plain/overview', cookie=cookie)  # the key of another tab stays
    assert f'value="{key}"' in _page(again, 401) and 'set-cookie' not in again.head, again
    for fields in ({}, {'cookie': cookie}):  # a page of another origin reads no key and makes none
        foreign = listener.ask('/plain/overview', origin='http://elsewhere.example', **fields)
        assert key not in foreign.body.decode() and 'set-cookie' not in foreign.head, foreign
        assert 'name="key" value=""' in foreign.body.decode(), foreign
    # The cookie of a page in a folder would not come back with the form.
    deep = listener.ask('/plain/executions/x')
    assert 'name="key" value=""' in _page(deep, 401) and 'set-cookie' not in deep.head, deep
    wrong = key[::-1]
    for body, fields in ((f'token={secret}', {}), (f'token={secret}&key={key}', {}),
                         (f'token={secret}', {'cookie': cookie}), (f'token={secret}&key={wrong}', {'cookie': cookie}),
                         (f'token={secret}&key=', {'cookie': cookie}),
                         (f'token={secret}&key=', {'cookie': 'weir_plain_key='})):
        refused = send(body, **fields)
        assert 'weir_plain=' not in refused.head.get('set-cookie', '') and secret not in refused.body.decode(), refused
        assert 'name="token" type="password"' in _page(refused, 403) and 'cookies' in refused.body.decode(), refused
    begun = send(f'token={secret}&key={key}', cookie=cookie)
    assert begun.status == 303 and begun.head['set-cookie'].startswith(f'weir_plain={secret};'), begun
    listener.stop()


def the_overview_shows_a_pause_and_executions_that_are_stuck(weir):
    weir.make_store()
    weir.write('weir.yaml', 'executor.stuck_after: 10ms\n')
    weir.write('long.yaml', 'name: long\nsteps:\n  wait:\n    exec: [sleep, "600"]\n')
    weir.good('workflow', 'apply', 'long.yaml', '-q')
    identity = weir.good('enqueue', '-w', 'acme', 'long', '-q').out.strip()
    listener = Listener(weir).ready()
    wait_for('the mark', lambda: weir.good('status', '--json').json()['stuck'] == 1, pause=SHORT)
    stuck = _page(listener.ask('/plain/overview'))
    assert 'Stuck: <a href="executions?where=stuck%3Dyes">1</a>' in stuck, stuck
    assert f'executions/{identity}' in _links(stuck), stuck
    assert identity in _page(listener.ask('/plain/executions?where=stuck%3Dyes'))
    weir.good('pause', '-q')
    weir.good('pause', '--executor-group', 'default', '-q')
    paused = _page(listener.ask('/plain/overview'))
    for text in ('The queue is paused', '<code>weir resume</code>', 'The executor group default is paused',
                 '<code>weir resume --executor-group default</code>'):
        assert text in paused, paused
    weir.good('cancel', identity, '-q')
    wait_for('the end', lambda: weir.good('show', identity, '--json').json()['status'] == 'CANCELLED', pause=SHORT)
    listener.stop()


def a_scheduler_whose_rounds_fail_is_named_with_the_cause(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    wait_for('the role', lambda: weir.good('status', '--json').json()['scheduler']['node'], pause=SHORT)
    assert 'No execution starts' not in _page(listener.ask('/plain/overview'))
    weir.database().execute("""CREATE TRIGGER refuse BEFORE UPDATE OF phase ON workflow_execution_queue WHEN NEW.phase = 2
                               BEGIN SELECT RAISE(ABORT, 'no <item> leaves'); END""")
    identity = weir.enqueue()
    shown = wait_for('the cause', lambda: (lambda page: page if 'No execution starts' in page else None)(
        _page(listener.ask('/plain/overview'))), pause=SHORT)
    assert 'the rounds of the scheduler fail, on node ' in shown and 'no &lt;item&gt; leaves' in shown, shown
    assert 'no &lt;item&gt; leaves' in _page(listener.ask(f'/plain/executions/{identity}'))
    weir.database().execute('DROP TRIGGER refuse')
    listener.stop()


def a_token_signs_in_by_a_form_and_sees_its_own_alone(weir):
    weir.make_store()
    _publish(weir)
    theirs, mine = (weir.good('enqueue', '-w', name, 'late', '--run-at', '+3h', '-q').out.strip()
                    for name in ('tiny', 'acme'))
    secret = _token(weir, 'ada', '-w', 'acme')
    listener = Listener(weir).ready()

    def send(text, origin='http://localhost', kind='application/x-www-form-urlencoded', **fields):
        fields = {**fields, 'origin': origin} if origin is not None else fields
        return listener.ask('/plain/session', 'POST', body=text.encode(), content_type=kind, **fields)

    form = _page(listener.ask('/plain/executions/x'), 401)
    assert 'action="../session"' in form and 'name="token" type="password"' in form and 'role="alert"' not in form, form
    for wrong in ('token=weir_wrong', 'token=%00', ''):
        assert 'weir_plain=' not in send(wrong).head.get('set-cookie', '')
    assert send(f'token={secret}', kind='text/plain').status == 415
    for origin in ('http://evil.example', 'http://localhost:8080', 'null'):
        refused = send(f'token={secret}', origin)
        assert refused.status == 403 and 'set-cookie' not in refused.head, refused
    begun = send(f'token=+{secret}++')
    assert (begun.status, begun.head['location']) == (303, 'overview'), begun
    pair, *attributes = begun.head['set-cookie'].split('; ')
    assert pair == f'weir_plain={secret}', begun.head
    assert set(attributes) == {'Max-Age=43200', 'HttpOnly', 'SameSite=Strict'}, begun.head
    assert send(f'token={secret}', 'https://localhost').head['set-cookie'].startswith('__Secure-weir_plain=')
    overview = _page(listener.ask('/plain/overview', cookie=pair))
    assert 'acme' in overview and 'tiny' not in overview and 'Sign out' in overview, overview
    # As the form sends it, with the fields that are empty.
    listed = _page(listener.ask('/plain/executions?workspace=acme&workflow=&status=&where=', cookie=pair))
    assert mine in listed and '<option selected value="acme">acme</option>' in listed and theirs not in listed, listed
    assert mine in _page(listener.ask(f'/plain/executions/{mine}', cookie=pair))
    missing = _page(listener.ask(f'/plain/executions/{"0" * 8}-0000-7000-8000-{"0" * 12}', cookie=pair), 404)
    hidden = _page(listener.ask(f'/plain/executions/{theirs}', cookie=pair), 404)
    assert re.sub('[0-9a-f-]{36}', 'ID', missing) == re.sub('[0-9a-f-]{36}', 'ID', hidden), hidden
    _page(listener.ask('/plain/executions?workspace=tiny', cookie=pair), 404)
    _page(listener.ask('/plain/executions?workspace=acme&where=workspace%3Dtiny', cookie=pair), 404)
    # The cookie of these pages is none for the API, and the other way round.
    assert listener.ask('/v1/session', cookie=pair, weir_session='1').status == 401
    assert listener.ask('/plain/overview', cookie=f'weir_session={secret}', weir_session='1').status == 401
    ended = send('end=yes')
    assert ended.status == 303 and ended.head['set-cookie'].startswith('weir_plain=; Max-Age=0;'), ended
    # With TLS the browser may have the cookie of a page without TLS, too, which would count again.
    for path, name in (('/plain/session', 'weir_plain'), ('/v1/session', 'weir_session')):
        removed = _cookies(listener, path, 'https://localhost')
        assert sorted(field.partition('=')[0] for field in removed) == sorted([name, f'__Secure-{name}']), removed
        assert all('; Max-Age=0;' in field for field in removed), removed
    weir.good('token', 'revoke', 'ada', '-q')
    wait_for('the refusal', lambda: listener.ask('/plain/overview', cookie=pair).status == 401, pause=SHORT)
    assert 'role="alert"' in _page(listener.ask('/plain/overview', cookie=pair), 401)
    listener.stop()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
