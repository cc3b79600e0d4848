/*
 * Values of `logit_bias` that make completions of the default model predictable. llama.cpp selects its kernels by the
 * CPU, so generated text differs between machines.
 */

/** Forbids the tokens that end a text, so that every completion has `max_tokens` tokens. */
export const NO_END = { 0: -100, 2: -100, 4: -100 };

/** Forces the token ` the`, repeated up to `max_tokens`. */
export const ONE_WORD = { 260: 100 };
