import { z } from 'zod';

export const metricsSchema = z
  .strictObject({
    port: z
      .int()
      .min(0)
      .max(65_535)
      .optional()
      .describe(
        'Port on which `GET /metrics` is served without a key; 0 selects a free port. Default: none. The port of the service also serves it, but requires an admin key.',
      ),
    host: z
      .string()
      .min(1)
      .default('127.0.0.1')
      .describe(
        'Address that `metrics.port` listens on. Everyone who can reach it can read the metrics, which name models and replicas.',
      ),
  })
  .prefault({})
  .describe('Metrics for Prometheus.');
