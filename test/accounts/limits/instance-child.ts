/** An instance that admits as many requests as it can and prints their number. */
import { demand, FakeLedger, openInstance } from './fleet.ts';

const limits = await openInstance(process.argv[2] ?? '', new FakeLedger());
const ask = demand({ requestsPerMinute: 1, burst: { requests: 100 }, tokensPerDay: 200 });
let admitted = 0;
for (let round = 0; round < 10; round++) {
  const decisions = await Promise.all(Array.from({ length: 20 }, async () => limits.admit(ask)));
  for (const decision of decisions) {
    if (!decision.admitted) continue;
    admitted++;
    limits.release(decision.reservation, { tokens: 1, pico: 0n, request: true });
  }
}
await limits.status(ask);
process.stdout.write(String(admitted));
await limits[Symbol.asyncDispose]();
