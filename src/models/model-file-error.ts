export type ModelFileFault = 'missing' | 'not_a_gguf' | 'truncated' | 'unsupported' | 'damaged';

/** A file that cannot be loaded as a model. Retrying cannot help. The message is for operators. */
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
