import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { EngineReport } from '../../src/engine/engine.ts';
import type { ScriptedOptions } from '../support/scripted-engine/options.ts';
import { MODEL } from './requests.ts';

const PROGRAM = fileURLToPath(new URL('../support/scripted-engine/main.ts', import.meta.url));

/** A scripted engine in its own process, on a temporary socket. Disposing it kills the process. */
export class ScriptedProcess implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly socketPath: string;
  readonly #folder: string;

  readonly reports: EngineReport[] = [];

  private constructor(options: Partial<ScriptedOptions>) {
    this.#folder = mkdtempSync(join(tmpdir(), 'sluice-'));
    this.socketPath = join(this.#folder, 'engine');
    const settings = {
      socketPath: this.socketPath,
      modelId: MODEL,
      maxChoices: 4,
      engine: options,
      logLevel: 'error',
    };
    this.process = spawn(process.execPath, [PROGRAM, JSON.stringify(settings)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  }

  /** Resolves when the engine has reported `ready` or `failed`. */
  static async start(options: Partial<ScriptedOptions> = {}): Promise<ScriptedProcess> {
    const child = new ScriptedProcess(options);
    // Standard output is a pipe.
    const lines = createInterface({ input: child.process.stdout as NodeJS.ReadableStream });
    for await (const line of lines) {
      // The engine writes only reports.
      const report = JSON.parse(line) as EngineReport;
      child.reports.push(report);
      if (report.event !== 'loading') break;
    }
    return child;
  }

  /** Resolves with exit code and signal when the process has exited. */
  async exited(): Promise<[code: number | null, signal: string | null]> {
    const { exitCode, signalCode } = this.process;
    if (exitCode === null && signalCode === null) await once(this.process, 'exit');
    return [this.process.exitCode, this.process.signalCode];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill('SIGKILL');
    await this.exited();
    rmSync(this.#folder, { recursive: true });
  }
}
