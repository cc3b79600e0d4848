/** What is wrong with a model file. */
export type ModelFileFault = 'missing' | 'not_a_gguf' | 'truncated' | 'unsupported' | 'damaged';

/**
 * A file that cannot be served as a model. The message names the file, and says what was found and what was
 * expected; it is for operators. Trying again cannot help until the file is another one.
 */
export class ModelFileError extends Error {
  readonly fault: ModelFileFault;
  readonly path: string;

  constructor(fault: ModelFileFault, path: string, reason: string, options?: ErrorOptions) {
    super(`${path}: ${reason}`, options);
    this.name = 'ModelFileError';
    this.fault = fault;
    this.path = path;
  }
}
