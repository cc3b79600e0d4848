import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Server } from '../test/support/measured-servers.ts';
import { compared, COMPARED_WIDTH, inTurn } from './rounds.ts';
import { timeStream } from '../test/support/stream-client.ts';

/** A prompt that is computed from its first token on. */
interface Prompt {
  path: string;
  body: object;
}

interface Prefill {
  ttftMs: number;
  /** CPU time of the server's processes; NaN on systems without `/proc`. */
  cpuMs: number;
  promptTokens: number;
}

/**
 * Measures the time to the first token of prompts that no cache has, in turn on both servers, and prints one line for each
 * prompt. The speed is that of the whole prompt. Ratios compare the two runs of a round.
 */
export async function comparePrefill(
  servers: { sluice: Server; peer: Server },
  name: string,
  rounds: number,
  promptOf: (seed: number) => Prompt,
): Promise<void> {
  const [ours = [], theirs = []] = await inTurn([servers.sluice, servers.peer], rounds, (server, round) =>
    measure(server, promptOf(round)),
  );
  const column = (pick: (run: Prefill) => number, digits: number): string =>
    compared(ours.map(pick), theirs.map(pick), digits);
  const cells = [
    column(({ ttftMs }) => ttftMs / 1000, 1),
    column(({ promptTokens, ttftMs }) => (promptTokens * 1000) / ttftMs, 0),
    column(({ promptTokens, cpuMs }) => (promptTokens * 1000) / cpuMs, 0),
  ];
  const { promptTokens = 0 } = ours[0] ?? {};
  console.log(`${name.padEnd(12)} ${String(promptTokens).padStart(6)} ${cells.join(' | ')}`);
}

export const PREFILL_HEADER = `prompt       tokens ${[
  'time to first token, s',
  'tokens/s',
  'tokens per CPU second',
]
  .map((title) => title.padEnd(COMPARED_WIDTH))
  .join(' | ')}`;

async function measure(server: Server, { path, body }: Prompt): Promise<Prefill> {
  const cpuBefore = cpuMs(server.pid);
  const sampling = { max_tokens: 1, temperature: 0, stream_options: { include_usage: true } };
  const times = await timeStream(server.url + path, server.key, { ...body, ...sampling });
  const cpu = cpuMs(server.pid) - cpuBefore;
  // Nearly all of the time passes before the first token, and the chunk with the role may come earlier.
  return { ttftMs: times.endedAt - times.sentAt, cpuMs: cpu, promptTokens: times.promptTokens };
}

/** Clock ticks of `/proc/PID/stat` in a second. Linux has 100 on all usual platforms. */
const TICKS_PER_SECOND = 100;

/** Returns the CPU time of a process and its children, in milliseconds; NaN on systems without `/proc`. */
function cpuMs(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program, in parentheses, may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const own = ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return children.split(' ').reduce((sum, child) => (child === '' ? sum : sum + cpuMs(Number(child))), own);
  } catch {
    return NaN;
  }
}

const WORDS = readFileSync(import.meta.filename, 'utf8').match(/[A-Za-z]{3,}/g) ?? [];

/** Returns a text of this length that begins differently for each seed. */
function prose(characters: number, seed: number): string {
  let text = `Section ${seed}.`;
  for (let at = seed * 7919; text.length < characters; at += 31) {
    text += ` ${WORDS[at % WORDS.length]}`;
    if (at % 17 === 0) text += '.\n';
  }
  return text.slice(0, characters);
}

/** Characters of a token of `prose`, about. */
const CHARACTERS_PER_TOKEN = 4.2;

/** A text of about so many tokens. */
export function textPrompt(modelId: string, tokens: number, seed: number): Prompt {
  return {
    path: '/v1/completions',
    body: { model: modelId, prompt: prose(Math.round(tokens * CHARACTERS_PER_TOKEN), seed) },
  };
}

/**
 * The sizes of the first requests of agents, in characters: the instructions, each tool, and what the user and the
 * environment say. As recorded from Codex CLI and Claude Code; those of opencode are estimated from its token count.
 */
const AGENTS = {
  codex: {
    instructions: 19_800,
    tools: [1629, 819, 1419, 391, 10_107, 297, 784, 2187],
    messages: 650,
  },
  'claude-code': {
    instructions: 7100,
    tools: [5271, 3885, 997, 1991, 1949, 2520, 4882, 1816, 1421, 5688, 214, 661],
    messages: 9900,
  },
  opencode: {
    instructions: 9000,
    tools: [3200, 2900, 900, 1500, 1100, 1300, 2300, 1200, 900, 1700],
    messages: 400,
  },
} as const;

type AgentName = keyof typeof AGENTS;
export const AGENT_NAMES = Object.keys(AGENTS);

export function isAgent(name: string): name is AgentName {
  return Object.hasOwn(AGENTS, name);
}

/** A request like the first one of an agent. The tools are part of the text, because servers render them differently. */
export function agentPrompt(modelId: string, agent: AgentName, seed: number): Prompt {
  const { instructions, tools, messages } = AGENTS[agent];
  const described = tools.map((characters, index) => {
    const tool = { type: 'function', name: `tool_${index}`, description: '', parameters: { type: 'object' } };
    const description = prose(characters - JSON.stringify(tool).length, seed + index);
    return JSON.stringify({ ...tool, description });
  });
  const system = `${prose(instructions, seed)}\n\n# Tools\n${described.join('\n')}`;
  return {
    path: '/v1/chat/completions',
    body: {
      model: modelId,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: prose(messages, seed + 100) },
      ],
    },
  };
}

/** Keeps so many cores busy until it is disposed of. */
export function busyLoops(count: number): Disposable {
  const loops: ChildProcess[] = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  );
  const stop = (): void => {
    for (const loop of loops) loop.kill('SIGKILL');
  };
  process.once('exit', stop);
  return { [Symbol.dispose]: stop };
}
