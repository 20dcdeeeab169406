// Makes docs/images/dashboard.png for the README: a node with the work of some customers, as a person sees it.
//
// usage: node screenshot.js TO.png
import { closeBrowser, closePage, openBrowser, openPage, Scene } from './scene.js';

const scene = new Scene();
await Promise.all([openBrowser(), scene.start()]);
scene.fill();
const customers = { umbrella: 'pro', hooli: 'free', stark: 'pro', wayne: 'free', tyrell: 'free', vandelay: 'pro' };
for (const [name, plan] of Object.entries(customers)) scene.weir('workspace', 'set', name, '--plan', plan, '-q');
const work = { acme: 3, globex: 8, initech: 13, umbrella: 2, hooli: 4 };
for (const [name, count] of Object.entries(work)) {
  const line = `${JSON.stringify({ workspace: name, workflow: 'hold' })}\n`;
  scene.weirWith(line.repeat(count), 'enqueue', '-', '-q');
}
scene.enqueue('wayne', 'quick', '--run-at', '+3h');
scene.weir('workspace', 'pause', 'tyrell', '-q');
scene.enqueue('tyrell', 'quick');
const failed = ['stark', 'stark', 'vandelay'].map((name) => scene.enqueue(name, 'broken'));
scene.until(() => failed.every((id) => scene.json('show', id).status === 'FAILED'));
scene.until(() => scene.json('status').slots_used >= 22);
const page = await openPage(scene.address, { width: 1280 });
await page.locator('main tbody tr').nth(8).waitFor();
await page.locator('.failed li').nth(2).waitFor();
await page.setViewportSize({ width: 1280, height: 760 });
await page.screenshot({ path: process.argv[2] });
await closePage(page);
await closeBrowser();
await scene.end();
