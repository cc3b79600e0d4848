/** Adds the scripted engine to the program that this is loaded before; see `REGISTER`. */
import { registerScripted } from './options.ts';

registerScripted();
