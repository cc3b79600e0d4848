import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { configSchema } from '../../../src/config/schema.ts';
import { VERSION } from '../../../src/support/version.ts';
import { blocksOf, readPage, ROOT } from '../../docs/markdown.ts';

const DEPLOY = join(ROOT, 'deploy');
const CHART = join(DEPLOY, 'helm', 'sluice');
const python = process.env.SLUICE_TEST_PYTHON;

/** The fields of a manifest that the tests read. */
interface Manifest {
  kind: string;
  metadata: { name: string };
  spec: {
    replicas?: number;
    strategy: { type: string };
    template: {
      spec: {
        terminationGracePeriodSeconds: number;
        containers: { image: string; env: { name: string }[]; args?: string[] }[];
        volumes: { name: string; emptyDir?: object; persistentVolumeClaim?: object }[];
      };
    };
    scaleTargetRef: { name: string };
  };
  data: { 'sluice.yaml': string };
}

/** The chart with some values. */
interface Rendered {
  manifests: Manifest[] | null;
  error: string | null;
  invalid: string[];
}

/** The output of `render.py`. */
interface Output {
  dockerfile: string;
  lint: unknown[];
  rendered: Rendered[];
}

interface Service {
  image: string;
  command?: string[];
  environment?: Record<string, string>;
  stop_grace_period?: string;
  read_only?: boolean;
}

interface Compose {
  services: Record<string, Service>;
  configs: { sluice: { content: string } };
}

const read = (path: string): string => readFileSync(join(DEPLOY, path), 'utf8');

/** The environment variables in docs/configuration.md. */
const documented = new Set(
  readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8').match(/\b(?:SLUICE_\w+|HF_TOKEN)\b/g),
);

/** The values of all tests, which one process renders, because starting Python is most of the cost. */
const allValues: object[] = [];
let output: Output | null = null;

/** Returns a function that renders the chart with these values. Must be called before the first test runs. */
function rendering(values: object): () => Rendered {
  const index = allValues.push(values) - 1;
  return () => runPython().rendered[index] ?? assert.fail('the first test has already run');
}

/** Runs `render.py` with the values of all tests. */
function runPython(): Output {
  if (output !== null) return output;
  const { stdout, stderr } = spawnSync(python ?? '', [join(ROOT, 'test/outside/deploy/render.py'), DEPLOY], {
    input: JSON.stringify(allValues),
    encoding: 'utf8',
  });
  assert.notEqual(stdout, '', stderr);
  // `render.py` documents the shape.
  output = JSON.parse(stdout) as Output;
  return output;
}

/** Returns the manifests, and checks them and the configuration in them. */
function manifestsOf(render: () => Rendered): Manifest[] {
  const { manifests, error, invalid } = render();
  assert.deepEqual([error, invalid], [null, []]);
  assert.ok(manifests !== null);
  const config = manifests.find(({ kind }) => kind === 'ConfigMap');
  configSchema.parse(parse(config?.data['sluice.yaml'] ?? ''));
  return manifests;
}

function one(manifests: readonly Manifest[], kind: string): Manifest {
  const [first, ...others] = manifests.filter((manifest) => manifest.kind === kind);
  assert.ok(first !== undefined && others.length === 0, `expected exactly one ${kind}`);
  return first;
}

describe(
  'the Helm chart and the Dockerfile',
  { skip: python === undefined && 'SLUICE_TEST_PYTHON is not set' },
  () => {
    test('have no findings of their linters', () => {
      const { dockerfile, lint } = runPython();
      assert.equal(dockerfile, '');
      assert.deepEqual(lint, []);
    });

    for (const file of globSync('ci/*.yaml', { cwd: CHART })) {
      const render = rendering(parse(read(`helm/sluice/${file}`)) as object);
      test(`are valid for Kubernetes with ${basename(file)}`, () => {
        for (const { kind, spec } of manifestsOf(render)) {
          if (kind !== 'Deployment' && kind !== 'Job') continue;
          for (const { name } of spec.template.spec.containers.flatMap(({ env }) => env ?? [])) {
            if (!name.startsWith('SLUICE_REPLICA_')) assert.ok(documented.has(name), name);
          }
        }
      });
    }

    const [documentedValues = ''] = blocksOf(readPage('docs/deploy.md'), 'yml');
    const renderDocumented = rendering(parse(documentedValues) as object);
    test('accept the values in the documentation', () => {
      const kinds = manifestsOf(renderDocumented).map(({ kind }) => kind);
      assert.ok(kinds.includes('Job') && kinds.includes('Ingress'));
    });

    const renderDefaults = rendering({});
    test('run one instance on a volume without PostgreSQL', () => {
      const manifests = manifestsOf(renderDefaults);
      const { spec } = one(manifests, 'Deployment');
      assert.equal(spec.replicas, 1);
      assert.equal(spec.strategy.type, 'Recreate');
      assert.ok(spec.template.spec.volumes.some(({ persistentVolumeClaim: claim }) => claim !== undefined));
      assert.equal(spec.template.spec.containers[0]?.image, `sluice:${VERSION}`);
      const kinds = manifests.map(({ kind }) => kind);
      assert.ok(!kinds.includes('Job') && !kinds.includes('PodDisruptionBudget'));
    });

    const renderThree = rendering({
      replicaCount: 3,
      database: { existingSecret: 'db' },
      valkey: { existingSecret: 'store' },
      persistence: { enabled: false },
    });
    test('run several instances with PostgreSQL, after a migration', () => {
      const manifests = manifestsOf(renderThree);
      const { spec } = one(manifests, 'Deployment');
      assert.deepEqual([spec.replicas, spec.strategy.type], [3, 'RollingUpdate']);
      one(manifests, 'PodDisruptionBudget');
      const [migrate] = one(manifests, 'Job').spec.template.spec.containers;
      assert.deepEqual(migrate?.args, ['database', 'migrate']);
      assert.deepEqual(
        migrate?.env.map(({ name }) => name),
        ['SLUICE_DATABASE_URL', 'SLUICE_VALKEY_URL'],
      );
    });

    const renderAllValues = rendering(parse(read('helm/sluice/ci/all-values.yaml')) as object);
    test('leave the number of instances to the autoscaler', () => {
      const manifests = manifestsOf(renderAllValues);
      const deployment = one(manifests, 'Deployment');
      assert.equal(deployment.spec.replicas, undefined);
      assert.equal(
        one(manifests, 'HorizontalPodAutoscaler').spec.scaleTargetRef.name,
        deployment.metadata.name,
      );
    });

    const renderDrain = rendering({ drainSeconds: 300 });
    test('give pods more time to stop than running requests get', () => {
      const manifests = manifestsOf(renderDrain);
      const { terminationGracePeriodSeconds } = one(manifests, 'Deployment').spec.template.spec;
      const { drainMs } = configSchema.parse(parse(one(manifests, 'ConfigMap').data['sluice.yaml']));
      assert.equal(drainMs, 300_000);
      assert.ok(terminationGracePeriodSeconds * 1000 >= drainMs + 10_000);
    });

    const several = { replicaCount: 2, persistence: { enabled: false } };
    const database = { existingSecret: 'db' };
    for (const [reason, values] of [
      ['More than one instance needs PostgreSQL', several],
      ['More than one instance needs Valkey', { ...several, database }],
      ['ReadWriteOnce', { replicaCount: 2, database, valkey: { existingSecret: 'store' } }],
      ['the database is on the persistent volume', { persistence: { enabled: false } }],
      ["'replicas' not allowed", { replicas: 2 }],
    ] as const) {
      const render = rendering(values);
      test(`refuse values with "${reason}"`, () => {
        const { error } = render();
        assert.ok(error?.includes(reason), String(error));
      });
    }

    test('have the version of the package', () => {
      const { version, appVersion } = parse(read('helm/sluice/Chart.yaml')) as Record<string, string>;
      assert.deepEqual([version, appVersion], [VERSION, VERSION]);
    });
  },
);

describe('the Compose files', () => {
  for (const file of ['compose.yaml', 'compose.cluster.yaml']) {
    const { services, configs } = parse(read(file), { merge: true }) as Compose;
    const instances = Object.values(services).filter(({ image }) => image === 'sluice');

    test(`${file} has a valid configuration and only documented variables`, () => {
      const { drainMs } = configSchema.parse(parse(configs.sluice.content));
      assert.equal(instances.length, file === 'compose.yaml' ? 1 : 2);
      for (const { environment = {}, stop_grace_period: grace = '', read_only: isReadOnly } of instances) {
        for (const name of Object.keys(environment)) {
          if (name !== 'PGPASSWORD') assert.ok(documented.has(name), name);
        }
        assert.ok(Number.parseInt(grace, 10) * 1000 > drainMs);
        assert.equal(isReadOnly, true);
      }
    });
  }

  test('the proxy of the cluster lists every instance, and does not resend a request that was processed', () => {
    const { services } = parse(read('compose.cluster.yaml'), { merge: true }) as Compose;
    const names = Object.keys(services).filter((name) => services[name]?.image === 'sluice');
    const proxy = read('haproxy.cfg');
    const servers = [...proxy.matchAll(/^ {2}server \S+ (\S+):8080$/gm)].map(([, name]) => name);
    assert.deepEqual(servers, names);
    assert.match(proxy, /^ {2}retry-on conn-failure 503$/m);
    assert.match(proxy, /^ {2}option httpchk GET \/readyz$/m);
  });
});
