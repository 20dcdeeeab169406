const { isMainThread, parentPort, Worker: Thread } = require('node:worker_threads');
const { configure, Worker, workflow } = require('weir');

async function main() {
  const thread = new Thread(__filename);
  await new Promise((resolve) => thread.once('message', resolve));
  await thread.terminate();
  console.log('the thread has ended');
}

async function runWorker() {
  configure('sqlite:./weir.db');
  workflow({ name: 'never' }, async () => {
    parentPort.postMessage('began');
    await new Promise(() => undefined);
  });
  await new Worker().start();
}

(isMainThread ? main() : runWorker()).catch((problem) => {
  console.error(problem);
  process.exit(1);
});
