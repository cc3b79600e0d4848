/*
 * llama.cpp computes with the kernels of the machine's CPU, so the text of the default model differs between machines.
 * These values of `logit_bias` decide what a test needs to know of it.
 */

/** Forbids the tokens that end a text: the model writes to `max_tokens`. */
export const NO_END = { 0: -100, 2: -100, 4: -100 };

/** Leaves one token: the model writes ` the`, again and again, to `max_tokens`. */
export const ONE_WORD = { 260: 100 };
