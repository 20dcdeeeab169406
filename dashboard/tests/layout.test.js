// The looks of the main views against reviewed references: of each part its place, its size, its text, its colours and its type.
//
// The references are texts (layout/*.json) and no pictures: a picture differs between machines by the smoothing of its letters, and
// its changes cannot be read in a review. The fonts are those of the dashboard, so places differ by a few pixels at most.
// The rows are those of a real node. Times, durations and ids in its answers become constants, and the clock stands still.
//
// `./dev dashboard --layout` writes the references anew, after a deliberate change of the looks. Review what it changes.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeBrowser, closePage, openBrowser, openPage, Scene, show } from './scene.js';

const folder = process.env.WEIR_LAYOUT ?? path.join(import.meta.dirname ?? '.', 'layout');
const PLACE_MOST = 8; // pixels; beyond it also a fiftieth of the place, since differences of rows add up
const NOW = Date.parse('2026-01-02T03:10:00Z');

const scene = new Scene();
let ids;
before(async () => {
  await Promise.all([openBrowser(), scene.start()]);
  ids = scene.fill();
  scene.schedule();
});
after(async () => {
  await closeBrowser();
  await scene.end();
});

/** Makes the values constant that differ from run to run. */
function settle(value, key = '') {
  if (Array.isArray(value)) return value.map((item) => settle(item));
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, settle(item, name)]));
  }
  if (typeof value === 'number' && key.endsWith('_us')) return 90_000_000;
  if (typeof value === 'number' && ['pid', 'bytes', 'seq'].includes(key)) return 1234;
  if (typeof value !== 'string') return value;
  if (/^\d{4}-\d\d-\d\dT/.test(value)) return '2026-01-02T03:04:05.000000Z';
  if (key === 'host') return 'a-machine';
  return value.replace(/\d+(\.\d+)? (ms|s|min|h)\b/g, '90 s');
}

async function prepare(page) {
  await page.clock.setFixedTime(NOW);
  await page.route(/\/v1\//, async (route) => {
    if (route.request().url().includes('/v1/stream')) return; // it has no events
    const response = await route.fetch();
    const headers = { ...response.headers(), date: new Date(NOW).toUTCString() };
    await route.fulfill({ response, headers, json: settle(await response.json()) });
  });
}

/** The visible parts in the order of the page. Of a table the first row stands for all. */
function describe() {
  const kept =
    'header, nav, main, aside, h1, h2, h3, section, table, th, td, button, a, input, select, .state, dt, dd, svg, summary';
  const isRepeated = (part) => part.closest('tbody tr:not(:first-child), .menu li:not(:first-child)') !== null;
  return [...document.querySelectorAll(kept)].flatMap((part) => {
    const box = part.getBoundingClientRect();
    if (isRepeated(part) || box.width === 0 || box.height === 0 || part.closest('td > * *') !== null) return [];
    const own = [...part.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data);
    const text = own
      .join(' ')
      .replace(/[0-9a-f]{8}(-[0-9a-f-]{27}|…[0-9a-f]{4})|[0-9a-f]{12,}/g, 'ID')
      .replace(/\s+/g, ' ')
      .trim()
      .slice(0, 60);
    const style = getComputedStyle(part);
    const colours = `${style.color} on ${style.backgroundColor}`.replaceAll(', ', ',');
    const frame = `${style.borderTopWidth} ${style.borderRadius} ${style.padding}`;
    return [
      {
        part: `${part.tagName.toLowerCase()}${[...part.classList].map((name) => `.${name}`).join('')} ${text}`.trim(),
        box: [box.x, box.y + scrollY, box.width, box.height].map(Math.round),
        look: `${colours}; ${style.fontSize} ${style.fontWeight}; ${frame}`,
      },
    ];
  });
}

const isNear = (a, b) => Math.abs(a - b) <= Math.max(PLACE_MOST, Math.abs(b) / 50);

/** What differs, as lines for a person. */
function differences(found, expected) {
  const lines = [];
  const names = (parts) => parts.map(({ part }) => part);
  if (names(found).join('\n') !== names(expected).join('\n')) {
    const missing = names(expected).filter((name) => !names(found).includes(name));
    const added = names(found).filter((name) => !names(expected).includes(name));
    return [`missing: ${missing.join(' | ')}`, `added: ${added.join(' | ')}`, 'or the order is another one'];
  }
  for (const [place, { part, box, look }] of expected.entries()) {
    const is = found[place];
    if (is.look !== look) lines.push(`${part}: ${look} became ${is.look}`);
    if (box && !box.every((value, side) => isNear(is.box[side], value))) lines.push(`${part}: ${box} became ${is.box}`);
  }
  return lines;
}

function compare(name, found) {
  const file = path.join(folder, `${name}.json`);
  if (process.env.WEIR_LAYOUT) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, `[\n${found.map((part) => `  ${JSON.stringify(part)}`).join(',\n')}\n]\n`);
    return;
  }
  const lines = differences(found, JSON.parse(readFileSync(file, 'utf8')));
  assert.deepEqual(lines.slice(0, 20), [], `${name}: ./dev dashboard --layout writes what is meant`);
}

const main = () => [
  ['overview', '#/', 'Overview'],
  ['workspaces', '#/workspaces', 'Workspaces'],
  ['workspace', '#/workspace/acme', 'Workspace acme'],
  ['executions', '#/executions', 'Executions'],
  ['execution', `#/execution/${ids.failed}`, 'Execution'],
  ['failures', '#/failures', 'Failures'],
  ['schedules', '#/schedules', 'Schedules'],
  ['waiting', '#/waiting', 'Waiting'],
  ['workflows', '#/workflows', 'Workflows'],
  ['nodes', '#/nodes', 'Nodes'],
];
const onPhones = ['overview', 'executions', 'execution'];

for (const [theme, width] of [
  ['light', 1440],
  ['dark', 1440],
  ['light', 360],
]) {
  test(`the views look as reviewed, ${theme}, ${width} pixels`, async () => {
    const page = await openPage(scene.address, { theme, width, prepare, context: { reducedMotion: 'reduce' } });
    for (const [name, hash, heading] of main()) {
      if (width === 360 && !onPhones.includes(name)) continue;
      await show(page, hash, heading);
      await page.evaluate(() => document.fonts.ready);
      compare(`${name}-${theme}-${width}`, await page.evaluate(describe));
    }
    await closePage(page);
  });
}
