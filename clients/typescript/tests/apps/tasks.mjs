import { existsSync, writeFileSync } from 'node:fs';
import { workflow } from 'weir';

export const pid = workflow({ name: 'pid' }, () => process.pid);

export const dies = workflow({ name: 'dies' }, async () => {
  if (!existsSync('died')) {
    writeFileSync('died', '');
    process.kill(process.pid, 'SIGKILL');
  }
  return 'lived';
});
