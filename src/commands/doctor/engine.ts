import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import type { Config, EngineConfig, ModelConfig } from '../../config/schema.ts';
import { packagesOf } from '../../engine/llama/backend.ts';
import {
  availableMemory,
  describePlan,
  planMemory,
  totalBytes,
  type PlannedModel,
} from '../../engine/llama/memory.ts';
import { SILENT } from '../../log.ts';
import { findModel, plannedModel } from '../../models/catalog.ts';
import { readGguf } from '../../models/gguf.ts';
import { PIP_COMMANDS } from '../../models/pip-source.ts';
import { scriptedOptions } from '../../models/source.ts';
import { ModelStore } from '../../models/store.ts';
import type { Finding } from './finding.ts';
import { PROGRAM } from '../../program-name.ts';

/** Checks that a native package of the engine is installed for this platform. Does not load it. */
export function checkEngine(): Finding {
  const require = createRequire(import.meta.url);
  const packages = packagesOf(process.platform, process.arch);
  const found = packages.filter((name) => {
    try {
      require.resolve(name);
      return true;
    } catch {
      return false;
    }
  });
  if (found.length > 0) return { subject: 'engine', status: 'good', found: found.join(', '), advice: null };
  return {
    subject: 'engine',
    status: 'fault',
    found:
      packages.length === 0
        ? 'no engine is available for this platform'
        : `not installed: ${packages.join(', ')}`,
    advice: 'Run `npm ci` without --omit=optional, or configure replicas for the models.',
  };
}

/** Timeout of `pip --version`, in milliseconds. */
const PIP_MS = 10_000;

/** Checks for pip, which downloads the default model if the Hub is unreachable. */
export async function checkPip(env: NodeJS.ProcessEnv): Promise<Finding> {
  for (const [program, ...args] of PIP_COMMANDS) {
    try {
      const { stdout } = await promisify(execFile)(program, [...args, '--version'], { env, timeout: PIP_MS });
      return {
        subject: 'pip',
        status: 'good',
        found: stdout.trim().split(' from ')[0] ?? program,
        advice: null,
      };
    } catch {
      continue;
    }
  }
  return {
    subject: 'pip',
    status: 'note',
    found: 'not found',
    advice:
      'Only needed to download the default model when the Hugging Face Hub is unreachable. Install Python to get it.',
  };
}

/** Checks whether the files of the embedded models are downloaded, and the memory that each model needs. */
export async function checkModels(config: Config): Promise<Finding[]> {
  const store = new ModelStore({ home: config.home, log: SILENT, env: {} });
  const findings = await Promise.all(config.file.models.map((model) => checkModel(model, store)));
  return findings.flat();
}

async function checkModel({ id, engine }: ModelConfig, store: ModelStore): Promise<Finding[]> {
  const subject = 'model';
  if (engine === undefined)
    return [{ subject, status: 'good', found: `${id}: served by replicas`, advice: null }];
  if (scriptedOptions(engine.file) !== null) {
    return [{ subject, status: 'good', found: `${id}: scripted`, advice: null }];
  }
  try {
    const file = await store.resolve(id, engine.file);
    if (file !== null) {
      const info = await readGguf(file);
      return [
        { subject, status: 'good', found: `${id}: ${file}`, advice: null },
        memoryPlan(id, engine, info),
      ];
    }
    const listed = findModel(engine.file ?? id);
    const advice = `Downloaded when the service starts. To download it now: ${PROGRAM} models pull ${engine.file ?? id}`;
    return [
      { subject, status: 'note', found: `${id}: not downloaded yet`, advice },
      ...(listed === null ? [] : [memoryPlan(id, engine, plannedModel(listed))]),
    ];
  } catch (error) {
    const found = `${id}: ${error instanceof Error ? error.message : String(error)}`;
    return [
      {
        subject,
        status: 'fault',
        found,
        advice: 'Set another engine.file for the model, or configure replicas for it.',
      },
    ];
  }
}

/**
 * Describes the memory that the engine would allocate without a GPU. GPU memory is unknown, because the package that
 * could report it is not loaded.
 */
function memoryPlan(id: string, engine: EngineConfig, model: PlannedModel): Finding {
  const { slots = null, contextTokens = null } = engine;
  const availableBytes = availableMemory().bytes;
  const plan = planMemory(model, { slots, contextTokens }, { availableBytes, gpu: false });
  const fits = totalBytes(plan) <= availableBytes;
  return {
    subject: 'model memory',
    status: fits ? 'good' : 'note',
    found: `${id}: ${describePlan(plan)}`,
    advice: fits
      ? null
      : 'This is more than the available memory. Use fewer slots, a smaller contextTokens or a smaller model.',
  };
}
