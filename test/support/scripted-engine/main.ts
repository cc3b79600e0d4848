import { runEngineChild } from '../../../src/engine/child.ts';
import { SCRIPTED_PROGRAM } from './program.ts';

await runEngineChild(SCRIPTED_PROGRAM);
