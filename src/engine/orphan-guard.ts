/**
 * A thread of every engine's process: ends the process when standard input ends, which is when the service is gone,
 * even though the main thread stands still, as native code can make it. A main thread that is well has a second
 * to end it properly.
 */
import { Socket } from 'node:net';

const GRACE_MS = 1000;

new Socket({ fd: 0, readable: true, writable: false })
  .on('error', () => {})
  .on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), GRACE_MS))
  .resume();
