import { createRequire } from 'node:module';

// Our own, and a test of the packed package reads both fields; it is one folder above both `src/` and `dist/`.
const { version, engines } = createRequire(import.meta.url)('../package.json') as {
  version: string;
  engines: { node: string };
};

/** The version in `package.json`. */
export const VERSION: string = version;

/** The oldest major version of Node that runs it: `engines.node` in `package.json`, which is `>=` and this. */
export const OLDEST_NODE = Number(engines.node.slice('>='.length));
