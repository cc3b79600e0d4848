import { reachedFrom, textOf } from './reached.ts';

/**
 * What a test file must not use to share its process with others: processes, threads, servers, databases, the state of the
 * process, and mocks or other changes of what all files see.
 */
const OWN_PROCESS = [
  /'node:(child_process|cluster|dgram|http|https|net|sqlite|tls|v8|vm|worker_threads)'/,
  /\bprocess\.(?!(platform|arch|version)\b)/,
  /\b(globalThis|mock|setGlobalDispatcher|fetch)\b/,
  /\b(console|Date|Math|performance|Promise)\.\w+ = /,
  // Hooks of all tests of the process.
  /^(after|before)(Each)?\(/m,
];

/** Configures fast-check in the same way for all files. */
const EXCEPT = 'test/support/fast-check.ts';

/** Returns whether a test file can share its process with others. */
export function isPure(file: string): boolean {
  return [...reachedFrom(file)].every(
    (reached) => reached === EXCEPT || !OWN_PROCESS.some((pattern) => pattern.test(textOf(reached))),
  );
}
