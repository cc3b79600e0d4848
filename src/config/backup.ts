import { z } from 'zod';

export const backupSchema = z
  .strictObject({
    everyHours: z.int().min(1).max(8760).describe('Hours between two backups.'),
    keep: z
      .int()
      .min(1)
      .max(1000)
      .default(7)
      .describe('Number of backups to keep. After each successful backup, older ones are deleted.'),
    directory: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The directory for the backups, relative to the configuration file. It is created if it does not exist. Default: `backups` in the data directory.',
      ),
  })
  .optional()
  .describe('Scheduled backups of the database: see docs/databases.md. Off by default.');
