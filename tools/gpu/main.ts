/**
 * Runs `vulkan.ts` on Mesa's software Vulkan, which computes on the CPU as a GPU would, on any machine. Uses the package
 * `@node-llama-cpp/linux-x64-vulkan` if it is installed; otherwise installs it into `.cache/gpu/` (71 MB). Skips the
 * tests where the driver is missing. Not part of `npm test`.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
const CACHE = join(ROOT, '.cache/gpu');
const PACKAGE = '@node-llama-cpp/linux-x64-vulkan';

const driver = globSync('/usr/share/vulkan/icd.d/lvp_icd*.json')[0];
const library = globSync('/usr/lib/*/libvulkan.so.1')[0];
const model = process.env.SLUICE_TEST_MODEL ?? globSync(join(ROOT, '.cache/home/models/**/*.gguf'))[0];
if (`${process.platform}-${process.arch}` !== 'linux-x64') {
  console.log('The GPU tests are skipped: they run on Linux on x64.');
} else if (driver === undefined || library === undefined) {
  console.log(
    'The GPU tests are skipped: software Vulkan is not installed. On Debian, its packages are mesa-vulkan-drivers and libvulkan1.',
  );
} else if (model === undefined) {
  console.error('The default model is not in `.cache/`. `npm test` downloads it; or set SLUICE_TEST_MODEL.');
  process.exitCode = 1;
} else {
  const { status } = spawnSync(
    process.execPath,
    ['--test', '--test-timeout=300000', join(import.meta.dirname, 'vulkan.ts')],
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        SLUICE_TEST_MODEL: model,
        // `require` also looks for packages here.
        NODE_PATH: packages(),
        VK_ICD_FILENAMES: driver,
        // llama.cpp ignores devices that are not GPUs unless they are selected.
        GGML_VK_VISIBLE_DEVICES: '0',
        // The driver compiles the shaders for each process, unless it finds them here.
        MESA_SHADER_CACHE_DIR: CACHE,
      },
    },
  );
  process.exitCode = status ?? 1;
}

/** Returns the folder that has the package. Installs it if necessary. */
function packages(): string {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    optionalDependencies: Record<string, string>;
  };
  const version = optionalDependencies['@node-llama-cpp/linux-x64'];
  const installed = [join(ROOT, 'node_modules'), join(CACHE, 'node_modules')].find((folder) => {
    const manifest = join(folder, PACKAGE, 'package.json');
    return (
      existsSync(manifest) &&
      (createRequire(import.meta.url)(manifest) as { version: string }).version === version
    );
  });
  if (installed !== undefined) return installed;
  const install = [
    'install',
    '--prefix',
    CACHE,
    '--no-save',
    '--no-audit',
    '--no-fund',
    `${PACKAGE}@${version}`,
  ];
  const { status } = spawnSync('npm', install, { stdio: 'inherit' });
  if (status !== 0) throw new Error(`${PACKAGE} could not be installed`);
  return join(CACHE, 'node_modules');
}
