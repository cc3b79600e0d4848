import type { Config } from '../config/schema.ts';
import type { RecommendedModel } from '../engine/llama/recommended-model.ts';
import { PROGRAM } from '../program-name.ts';
import type { Service } from '../service.ts';
import { formatBytes } from './progress-bar.ts';

/**
 * Returns the text that is printed when the service is ready. If there is no operator, the text contains the setup
 * link. If standard output is not a terminal, it contains the command that prints the link instead, because the link is
 * a secret and the output may be logged.
 */
export async function welcome(service: Service, { configPath }: Config): Promise<string> {
  const card = service.router.cards()[0];
  const lines = ['', `Ready. Base URL for client libraries: ${service.url}/v1`];
  if (card) {
    lines.push(`Model: ${card.id} (${card.quantization}, ${card.context_length} tokens per request)`);
  }
  lines.push('', ...(await nextSteps(service)), '', ...betterModel(service.recommendedModel, configPath));
  return lines.join('\n');
}

/** Describes how to serve a better model. */
export function betterModel(model: RecommendedModel | null, configPath: string | null): string[] {
  if (model === null) return [];
  const { id, sizeBytes, memoryBytes } = model;
  return [
    `A better model fits this machine: ${id} (download ${formatBytes(sizeBytes)}, memory ${formatBytes(memoryBytes)}).`,
    ...(configPath === null
      ? [
          'To use it, stop Sluice and run:',
          `  echo 'models: [{id: ${id}}]' > sluice.yaml`,
          `  SLUICE_CONFIG=sluice.yaml ${PROGRAM} serve`,
        ]
      : [`To use it, set \`models: [{id: ${id}}]\` in ${configPath} and restart Sluice.`]),
    '',
  ];
}

async function nextSteps(service: Service): Promise<string[]> {
  if (!service.hasConsole) return ['Create an API key:', `  ${PROGRAM} keys create --name my-app`];
  if (await service.hasOperator()) return [`Console: ${service.url}`];
  const link = process.stdout.isTTY ? await service.createSetupLink() : null;
  if (link !== null) {
    return ['Open this link within 60 minutes to create your admin account and first API key:', '', link];
  }
  return [
    `Console: ${service.url}`,
    'No operator exists yet. Print a setup link with:',
    `  ${PROGRAM} setup-link`,
  ];
}
