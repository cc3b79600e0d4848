import { runEngineChild } from '../child.ts';
import { SCRIPTED_PROGRAM } from './program.ts';

await runEngineChild(SCRIPTED_PROGRAM);
