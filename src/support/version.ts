import { createRequire } from 'node:module';

// `package.json` is one folder above both `src/` and `dist/`. A test of the packed package reads both fields.
const { version, engines } = createRequire(import.meta.url)('../../package.json') as {
  version: string;
  engines: { node: string };
};

/** The version in `package.json`. */
export const VERSION: string = version;

/** The oldest supported major version of Node: `engines.node` in `package.json`, without `>=`. */
export const OLDEST_NODE = Number(engines.node.slice('>='.length));
