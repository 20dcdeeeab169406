// The box of `weir demo`: a button that kills one of its nodes, and the way of the executions that the node held.
import '../styles/demo.css';
import { useState } from 'preact/hooks';
import { act, ask, may, type Problem, segment, session, toProblem } from '../api.ts';
import { readAgain, useRead } from '../live.ts';
import type { Execution, Node, Page } from '../model.ts';
import { texts } from '../texts.ts';
import { Id, Loaded, Panel, ProblemBox, WorkspaceLink } from './basics.tsx';
import { State } from './state.tsx';

interface Killed {
  node: string;
  pid: number;
  execution_ids: string[];
}

const hasEnded = (row: Execution): boolean => ['COMPLETED', 'FAILED', 'CANCELLED'].includes(row.status);
const isTaken = (row: Execution, killed: Killed): boolean => row.node !== null && row.node !== killed.node;

/** demo-10 behind demo-9. */
const byName = (a: Node, b: Node) => a.name.localeCompare(b.name, 'en', { numeric: true });

/** The nodes that work, and the one that was killed last. */
function Nodes({ killed }: { killed: Killed | null }) {
  const read = useRead<Page<Node>>('v1/nodes?limit=1000');
  const isShown = (row: Node) => !['dead', 'stopped'].includes(row.state) || row.name === killed?.node;
  return (
    <Loaded read={read}>
      {(page) => (
        <ul class="demo-nodes">
          {page.items
            .filter(isShown)
            .sort(byName)
            .map((row) => (
              <li key={row.id} class={row.state === 'dead' ? 'is-dead' : ''}>
                <strong>{row.name}</strong>
                <State state={row.state} />
                <span class="quiet">{row.state === 'dead' ? '' : texts.demo.holds(row.holds, row.capacity)}</span>
              </li>
            ))}
        </ul>
      )}
    </Loaded>
  );
}

function Handover({ killed }: { killed: Killed }) {
  const load = (signal: AbortSignal) =>
    Promise.all(killed.execution_ids.map((id) => ask<Execution>(`v1/executions/${segment(id)}`, { signal })));
  const read = useRead<Execution[]>(`executions of ${killed.node}`, { load, isFinal: (rows) => rows.every(hasEnded) });
  return (
    <>
      <p>{texts.demo.killed(killed.node, killed.pid, killed.execution_ids.length)}</p>
      {killed.execution_ids.length > 0 && (
        <Loaded read={read}>
          {(rows) => (
            <>
              <p role="status">
                {texts.demo.taken(
                  rows.filter((row) => isTaken(row, killed)).length,
                  rows.filter((row) => row.status === 'COMPLETED').length,
                  rows.length,
                )}
              </p>
              <ul class="demo-handover">
                {rows.map((row) => (
                  <li key={row.id}>
                    <Id id={row.id} />
                    <WorkspaceLink name={row.workspace} />
                    <State state={row.status} />
                    <span class="quiet">
                      {isTaken(row, killed) ? texts.demo.way(killed.node, row.node ?? '') : texts.demo.lost(killed.node)}
                    </span>
                  </li>
                ))}
              </ul>
            </>
          )}
        </Loaded>
      )}
    </>
  );
}

function Demo() {
  const [killed, setKilled] = useState<Killed | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isBusy, setBusy] = useState(false);
  const kill = async () => {
    setBusy(true);
    setProblem(null);
    try {
      setKilled(await act<Killed>('POST', 'v1/demo/kill', ''));
    } catch (error) {
      setProblem(toProblem(error));
    }
    setBusy(false);
    readAgain();
  };
  return (
    <Panel
      title={texts.demo.title}
      aside={
        <button type="button" class="grave" disabled={isBusy} onClick={() => void kill()}>
          {texts.demo.kill}
        </button>
      }
    >
      <p class="quiet">{texts.demo.lead}</p>
      <Nodes killed={killed} />
      {problem && <ProblemBox problem={problem} />}
      {killed && <Handover killed={killed} />}
    </Panel>
  );
}

/** Nothing, unless the node is that of a demo. */
export const DemoPanel = () => (session.value?.is_demo && may('operate') ? <Demo /> : null);
