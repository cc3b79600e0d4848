import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { serveChild, type ChildSettings } from '../../../src/engine/child.ts';
import type { EngineProcess } from '../../../src/engine/engine-process.ts';
import type { EngineReport } from '../../../src/engine/engine.ts';
import { parseDirective } from './directive.ts';
import { registerScripted, type ScriptedOptions } from './options.ts';
import { SCRIPTED_PROGRAM } from './program.ts';
import type { GenerationRequest } from '../../../src/core/generation.ts';
import { openLog } from '../../../src/support/log.ts';

/** Lets the services of this process run scripted engines in it, which takes a small part of the CPU time. */
export function runScriptedInProcess(): void {
  registerScripted((argument) => new InProcessEngine(argument));
}

/** A scripted engine that serves its socket from this process. It cannot be paused, and its faults cannot end it. */
class InProcessEngine extends EventEmitter implements EngineProcess {
  exitCode: number | null = null;
  signalCode: NodeJS.Signals | null = null;
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly #responses = new Set<ServerResponse>();
  /** Null while it is loading. */
  #stop: (() => Promise<void>) | null = null;

  constructor(argument: string) {
    super();
    // Written by the supervisor.
    void this.#run(JSON.parse(argument) as ChildSettings<Partial<ScriptedOptions>>);
  }

  kill(signal: NodeJS.Signals): boolean {
    const stopped = Promise.resolve(this.#stop?.());
    if (signal === 'SIGTERM') void stopped.then(() => this.#exit(0, null));
    else {
      for (const response of this.#responses) response.destroy();
      void this.#exit(null, signal);
    }
    return true;
  }

  async #run(settings: ChildSettings<Partial<ScriptedOptions>>): Promise<void> {
    const program = { ...SCRIPTED_PROGRAM, beforeResponse: this.#beforeResponse.bind(this) };
    const log = openLog(settings.logLevel, this.stderr);
    try {
      const stop = await serveChild(program, settings, log, (report) => this.#report(report));
      if (this.#hasExited) await stop();
      else this.#stop = stop;
    } catch (error) {
      this.#report({ event: 'failed', reason: String(error), retry: true });
      void this.#exit(1, null);
    }
  }

  get #hasExited(): boolean {
    return this.exitCode !== null || this.signalCode !== null;
  }

  async #exit(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    if (this.#hasExited) return;
    this.exitCode = code;
    this.signalCode = signal;
    this.emit('exit', code, signal);
    const outputs = [this.stdout, this.stderr];
    await Promise.all(outputs.map((output) => once(output.end(), 'close')));
    this.emit('close', code, signal);
  }

  /** Throws if it has exited, which ends loading. */
  #report(report: EngineReport): void {
    if (!this.#hasExited) this.stdout.write(`${JSON.stringify(report)}\n`);
    else if (report.event === 'loading') throw new Error('the engine has exited');
  }

  #beforeResponse(request: GenerationRequest, response: ServerResponse): void {
    this.#responses.add(response);
    response.once('close', () => this.#responses.delete(response));
    SCRIPTED_PROGRAM.beforeResponse?.(request, response);
    const { dieAfter, freezeAfter } = parseDirective(request);
    if (dieAfter === undefined && freezeAfter === undefined) return;
    throw new Error('This directive would end the test. Set `ownProcess`.');
  }
}
