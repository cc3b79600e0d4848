/**
 * Serves a scripted engine as a replica, as `sluice engine llama` serves llama.cpp, with the same options. The argument
 * has the options of the engine, in JSON.
 */
import { Command } from 'commander';
import { serve, withServeOptions, type ServeFlags } from '../../../src/commands/engine.ts';
import { messageOf } from '../../../src/support/thrown.ts';
import { ScriptedEngine } from './engine.ts';
import { injectFaults } from './fault-injection.ts';
import type { ScriptedOptions } from './options.ts';

await withServeOptions(new Command('scripted'))
  .requiredOption('--model <id>')
  .argument('[options]', undefined, '{}')
  .action(async (options: string, flags: ServeFlags) => {
    const engine = new ScriptedEngine(JSON.parse(options) as Partial<ScriptedOptions>);
    await serve(engine, flags, { beforeResponse: injectFaults });
  })
  .parseAsync()
  .catch((error: unknown) => {
    console.error(messageOf(error));
    process.exitCode = 1;
  });
