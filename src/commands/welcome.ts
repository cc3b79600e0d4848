import type { RecommendedModel } from '../models/recommended-model.ts';
import { outputOf, type ModelOutput } from '../core/features.ts';
import { PROGRAM } from '../support/program-name.ts';
import type { Service } from '../service.ts';
import { formatBytes } from './progress-bar.ts';

/**
 * Returns the text that is printed when the service is ready. If there is no operator, the text contains the setup
 * link. If standard output is not a terminal, it contains the command that prints the link instead, because the link is
 * a secret and the output may be logged. If `model` is set (the model that `sluice run` started), the text includes an
 * example request.
 */
export async function welcome(service: Service, model: string | null): Promise<string> {
  const cards = service.router.cards();
  const card = cards.find(({ id }) => id === model) ?? cards[0];
  const lines = ['', `Ready. Base URL for client libraries: ${service.url}/v1`];
  if (card) {
    const context = card.context_length.toLocaleString('en-US');
    lines.push(`Model: ${card.id} (${card.quantization}, ${context} tokens per request)`);
  }
  lines.push('', ...(await nextSteps(service)), '', ...betterModel(service.recommendedModel));
  const output = card?.id === model ? outputOf(card.architecture.modality) : 'text';
  if (model !== null) lines.push(...firstRequest(service.url, model, output));
  return lines.join('\n');
}

/** Describes how to serve a better model. */
export function betterModel(model: RecommendedModel | null): string[] {
  if (model === null) return [];
  const { id, sizeBytes, memoryBytes } = model;
  return [
    `A better model fits this machine: ${id} (download ${formatBytes(sizeBytes)}, memory ${formatBytes(memoryBytes)}).`,
    'To add it, run in another terminal:',
    `  ${PROGRAM} models add ${id}`,
    '',
  ];
}

/** Describes how to call a model. */
export function firstRequest(url: string, model: string, output: ModelOutput): string[] {
  const examples: Record<ModelOutput, [path: string, body: object]> = {
    text: ['/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello' }] }],
    embedding: ['/v1/embeddings', { model, input: 'Hello' }],
    rerank: ['/v1/rerank', { model, query: 'Hello', documents: ['Good morning', 'Good night'] }],
  };
  const [path, body] = examples[output];
  return [
    `To call ${model} from another terminal:`,
    `  export SLUICE_API_KEY=$(${PROGRAM} keys create --name my-app)`,
    `  curl ${url}${path} -H "Authorization: Bearer $SLUICE_API_KEY" -d '${JSON.stringify(body)}'`,
    '',
  ];
}

async function nextSteps(service: Service): Promise<string[]> {
  if (!service.hasConsole) return ['Create an API key:', `  ${PROGRAM} keys create --name my-app`];
  if (await service.hasOperator()) return [`Console: ${service.url}`];
  const link = process.stdout.isTTY ? await service.createSetupLink() : null;
  if (link !== null) {
    return ['Open this link within 60 minutes to create your user and first API key:', '', link];
  }
  return [
    `Console: ${service.url}`,
    'No operator exists yet. Print a setup link with:',
    `  ${PROGRAM} setup-link`,
  ];
}
