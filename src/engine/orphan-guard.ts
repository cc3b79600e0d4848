/**
 * A thread of every engine process. Kills the process when standard input closes, which means that the service has
 * exited, even if native code blocks the main thread. Otherwise the main thread has a second to exit by itself.
 */
import { Socket } from 'node:net';

const EXIT_TIMEOUT_MS = 1000;

new Socket({ fd: 0, readable: true, writable: false })
  .on('error', () => {})
  .on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), EXIT_TIMEOUT_MS))
  .resume();
